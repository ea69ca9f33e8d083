package server

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/embedded/etcd"
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

// TestSlowScheduler: pods that wait for the scheduler are a problem while they do.
func TestSlowScheduler(t *testing.T) {
	h := &serverHealth{}
	for i, c := range []struct {
		pods    uint64
		seconds float64
		want    bool
	}{{0, 0, false}, {100, 20, false}, {110, 320, true}, {110, 320, false}, {210, 330, false}} {
		h.checkScheduler(func(holds bool, code health.Code, _, detail string) {
			if holds != c.want || code != health.SchedulerSlow {
				t.Errorf("check %d: %s %t (%s), want %t", i, code, holds, detail, c.want)
			}
		}, func() (uint64, float64) { return c.pods, c.seconds })
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
	if v := values(); v["snapshot_failures"] != 1 || v["snapshot_duration_seconds"] != 1 ||
		v["snapshot_last_success_timestamp_seconds"] == 0 {
		t.Errorf("afterwards the metrics are %v", v)
	}
}

// TestRoomOfTheDatastore: it is told before it is full, and when it is.
func TestRoomOfTheDatastore(t *testing.T) {
	for _, c := range []struct {
		room etcd.Room
		want health.Code
	}{
		{etcd.Room{}, ""},
		{etcd.Room{Size: 5 << 30}, ""}, // no quota
		{etcd.Room{Size: 79 << 20, Quota: 100 << 20}, ""},
		{etcd.Room{Size: 81 << 20, Quota: 100 << 20}, health.DatastoreAlmost},
		{etcd.Room{Size: 100 << 20, Quota: 100 << 20, Full: true}, health.DatastoreFull},
	} {
		set := map[health.Code]bool{}
		reportRoom(c.room, func(holds bool, code health.Code, _, _ string) { set[code] = holds })
		if set[health.DatastoreFull] != (c.want == health.DatastoreFull) ||
			(c.want == health.DatastoreAlmost) != (set[health.DatastoreAlmost] && !set[health.DatastoreFull]) {
			t.Errorf("%+v: %v", c.room, set)
		}
	}
}
