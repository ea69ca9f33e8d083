package gate

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/workqueue"
)

// metered is a queue of k8s.io/client-go/util/workqueue, which exports nothing to
// those who do not have it but its metrics.
type metered struct {
	depth, added, handed, done prometheus.Metric
}

// Metered is the work queue of a name, which must have been made before.
func Metered(name string) (Queue, error) {
	var q metered
	for _, of := range []struct {
		key string
		vec metrics.Registerable
		to  *prometheus.Metric
	}{
		{workqueue.DepthKey, metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: workqueue.WorkQueueSubsystem,
			Name: workqueue.DepthKey, Help: "Current depth of workqueue", StabilityLevel: metrics.BETA},
			[]string{"name"}), &q.depth},
		{workqueue.AddsKey, metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: workqueue.WorkQueueSubsystem,
			Name: workqueue.AddsKey, Help: "Total number of adds handled by workqueue",
			StabilityLevel: metrics.BETA}, []string{"name"}), &q.added},
		{workqueue.QueueLatencyKey, metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: workqueue.WorkQueueSubsystem, Name: workqueue.QueueLatencyKey,
			Help:           "How long in seconds an item stays in workqueue before being requested.",
			StabilityLevel: metrics.BETA}, []string{"name"}), &q.handed},
		{workqueue.WorkDurationKey, metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: workqueue.WorkQueueSubsystem, Name: workqueue.WorkDurationKey,
			Help:           "How long in seconds processing an item from workqueue takes.",
			StabilityLevel: metrics.BETA}, []string{"name"}), &q.done},
	} {
		m, err := existing(of.vec, name)
		if err != nil {
			return nil, fmt.Errorf("reading the metric %s_%s of the queue %s: %w", workqueue.WorkQueueSubsystem,
				of.key, name, err)
		}
		*of.to = m
	}
	return &q, nil
}

// existing is the metric of a queue among those that workqueue has registered, which the
// registry tells of who registers an equal one.
func existing(equal metrics.Registerable, name string) (prometheus.Metric, error) {
	err := legacyregistry.Register(equal)
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) {
		return nil, errors.Join(errors.New("it is not registered"), err)
	}
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		already.ExistingCollector.Collect(all)
	}()
	var found prometheus.Metric
	for m := range all {
		if labels := read(m).GetLabel(); len(labels) == 1 && labels[0].GetValue() == name {
			found = m
		}
	}
	if found == nil {
		return nil, errors.New("no queue has that name")
	}
	return found, nil
}

// Depth implements Queue.
func (q *metered) Depth() int { return int(read(q.depth).GetGauge().GetValue()) }

// Added implements Queue.
func (q *metered) Added() int { return int(read(q.added).GetCounter().GetValue()) }

// Handed implements Queue.
func (q *metered) Handed() int { return int(read(q.handed).GetHistogram().GetSampleCount()) }

// Done implements Queue.
func (q *metered) Done() int { return int(read(q.done).GetHistogram().GetSampleCount()) }

func read(m prometheus.Metric) *dto.Metric {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		return nil // the getters of a nil message return zero
	}
	return &out
}
