package series

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/sirupsen/logrus"
	"k8s.io/component-base/metrics"
)

func quiet() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

// TestSweep: series that name what is gone go, in metrics of every type, and no others.
func TestSweep(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	requests := metrics.NewCounterVec(&metrics.CounterOpts{Name: "apiserver_request_total", Help: "Requests."},
		[]string{"verb", "group", "resource"})
	took := metrics.NewHistogramVec(&metrics.HistogramOpts{Name: "etcd_request_duration_seconds",
		StabilityLevel: metrics.ALPHA}, []string{"group", "operation"})
	stored := metrics.NewGaugeVec(&metrics.GaugeOpts{Name: "apiserver_storage_objects",
		StabilityLevel: metrics.STABLE}, []string{"resource"})
	called := metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "apiserver_admission_webhook_admission_duration_seconds"}, []string{"name", "type"})
	checks := metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "apiserver_validating_admission_policy_check_total"}, []string{"policy", "policy_binding"})
	others := metrics.NewCounterVec(&metrics.CounterOpts{Name: "a4s_other_total"}, []string{"group", "name"})
	registry.MustRegister(requests, took, stored, called, checks, others)
	raw := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_plain_total", Help: "Plain."},
		[]string{"group"})
	registry.RawMustRegister(raw)
	for _, name := range []string{"gone", "there"} {
		group := name + ".example.com"
		for _, verb := range []string{"GET", "LIST"} {
			requests.WithLabelValues(verb, group, "foos").Inc()
		}
		took.WithLabelValues(group, "get").Observe(1)
		stored.WithLabelValues("foos." + group).Set(1)
		called.WithLabelValues(group, "admit").Observe(1)
		checks.WithLabelValues(name, "binding-of-"+name).Inc()
		raw.WithLabelValues(group).Inc()
	}
	requests.WithLabelValues("GET", "apps", "deployments").Inc()
	requests.WithLabelValues("GET", "", "pods").Inc()
	stored.WithLabelValues("pods").Set(1)
	called.WithLabelValues("LimitRanger", "admit").Observe(1)
	others.WithLabelValues("gone.example.com", "gone.example.com").Inc()

	before := seriesOf(t, registry)
	s := New(Options{Registry: registry.Registerer(), Gatherer: registry,
		Groups: func() map[string]bool { return map[string]bool{"there.example.com": true, "apps": true} },
		Names: func(context.Context) (map[string]bool, error) {
			return map[string]bool{"there.example.com": true, "there": true}, nil
		}})
	var want []string
	for _, one := range before {
		if !strings.Contains(one, "gone") || strings.HasPrefix(one, "a4s_") {
			want = append(want, one)
		}
	}
	for range 2 {
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := seriesOf(t, registry); !slices.Equal(got, want) {
			t.Errorf("what is left:\n%s\nand not:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	// One that comes back counts again.
	requests.WithLabelValues("GET", "gone.example.com", "foos").Inc()
	if got := seriesOf(t, registry); len(got) != len(want)+1 {
		t.Errorf("what is there again: %q", got)
	}
}

// seriesOf are all series as text.
func seriesOf(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out = append(out, f.GetName()+" "+m.String())
		}
	}
	slices.Sort(out)
	return out
}

// counting says how often it was read.
type counting struct{ reads atomic.Int64 }

// Gather implements prometheus.Gatherer.
func (c *counting) Gather() ([]*dto.MetricFamily, error) {
	c.reads.Add(1)
	name := "a"
	return []*dto.MetricFamily{{Name: &name}}, nil
}

// TestSweeperRests: it does nothing while nothing goes, sweeps twice when something does,
// and again until it could.
func TestSweeperRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int64
		var fails atomic.Bool
		read := &counting{}
		s := New(Options{Gatherer: read, Changes: changes.Load, Log: quiet(),
			Groups: func() map[string]bool { return nil },
			Names: func(context.Context) (map[string]bool, error) {
				if fails.Load() {
					return nil, errors.New("not now")
				}
				return nil, nil
			}})
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		reads := func(after time.Duration, want int64) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := read.reads.Swap(0); got != want {
				t.Errorf("read %d times, want %d", got, want)
			}
		}
		reads(time.Hour, 0)
		changes.Add(1)
		reads(time.Hour, 2)
		fails.Store(true)
		changes.Add(1)
		reads(10*interval, 10)
		fails.Store(false)
		reads(time.Hour, 2)
		cancel()
		synctest.Wait()
	})
}
