package server

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/health"
)

func TestAverageOfFlushesIsOfTheLastTime(t *testing.T) {
	registry := prometheus.NewRegistry()
	syncs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: syncMetric})
	registry.MustRegister(syncs)
	h := &serverHealth{}
	syncs.Observe(10)
	if got := h.averageSync(registry); got != 10*time.Second {
		t.Errorf("at first %s", got)
	}
	syncs.Observe(0.1)
	syncs.Observe(0.3)
	if got := h.averageSync(registry).Round(time.Millisecond); got != 200*time.Millisecond {
		t.Errorf("then %s, want 200ms", got)
	}
	if got := h.averageSync(registry); got != 0 {
		t.Errorf("without a flush %s", got)
	}
}

func TestSnapshotThatFails(t *testing.T) {
	h := &serverHealth{monitor: health.NewMonitor(health.Options{Log: logrus.WithField("component", health.Name)})}
	values := func() map[string]float64 {
		out := map[string]float64{}
		h.snapshotMetrics(func(name, _ string, value float64, _ map[string]string) { out[name] = value })
		return out
	}
	h.snapshotTaken(time.Second, errors.New("no space left"))
	p := h.problems()
	if len(p) != 1 || p[0].Code != string(health.SnapshotFailed) || p[0].Detail != "no space left" || p[0].Fix == "" {
		t.Errorf("the problems are %+v", p)
	}
	if v := values(); v["snapshot_failures"] != 1 || v["snapshot_last_success_timestamp_seconds"] != 0 {
		t.Errorf("the metrics are %v", v)
	}
	h.snapshotTaken(time.Second, nil)
	if p := h.problems(); len(p) != 0 {
		t.Errorf("afterwards the problems are %+v", p)
	}
	if v := values(); v["snapshot_failures"] != 1 || v["snapshot_duration_seconds"] != 1 || v["snapshot_last_success_timestamp_seconds"] == 0 {
		t.Errorf("afterwards the metrics are %v", v)
	}
}
