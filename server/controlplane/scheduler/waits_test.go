package scheduler

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestWaited reads what upstream's scheduler measures. Pods that were tried again do not
// count.
func TestWaited(t *testing.T) {
	metrics.Register()
	before, seconds := Waited()
	metrics.PodSchedulingSLIDuration.WithLabelValues("1").Observe(2)
	metrics.PodSchedulingSLIDuration.WithLabelValues("2").Observe(100)
	pods, after := Waited()
	if pods != before+1 || after != seconds+2 {
		t.Errorf("%d pods waited %v s, before %d and %v", pods, after, before, seconds)
	}
}
