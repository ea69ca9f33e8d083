package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// firstAttempt is the label of pods that got a node at once: the others waited for room.
const firstAttempt = "1"

// Waited returns how many pods have got a node at their first attempt in this process,
// and for how many seconds they waited together.
func Waited() (pods uint64, seconds float64) {
	vec := metrics.PodSchedulingSLIDuration
	if vec == nil || vec.HistogramVec == nil {
		return 0, 0 // no scheduler has run
	}
	histogram, ok := vec.HistogramVec.WithLabelValues(firstAttempt).(prometheus.Metric)
	var m dto.Metric
	if !ok || histogram.Write(&m) != nil {
		return 0, 0
	}
	return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
}
