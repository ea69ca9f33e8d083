package series

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/sirupsen/logrus"
)

// interval is how often it is asked whether something has changed. What still answers
// while its name goes can count once more, so that it is swept twice.
const interval = 20 * time.Second

// Options say what there is.
type Options struct {
	Registry prometheus.Registerer
	Gatherer prometheus.Gatherer
	// Changes is another number when something that has a name may be gone.
	Changes func() int64
	// Groups are the groups of APIs that are served in any space.
	Groups func() map[string]bool
	// Names are those of the webhooks and policies of all spaces.
	Names func(context.Context) (map[string]bool, error)
	Log   *logrus.Entry
}

// Sweeper takes series away.
type Sweeper struct {
	o Options
	// known take a series of a metric away, by its name; nil for one that is not of a kind
	// whose series can be.
	known map[string]remove
}

// remove takes the series with these labels away.
type remove func(labels map[string]string)

// New makes one.
func New(o Options) *Sweeper { return &Sweeper{o: o, known: map[string]remove{}} }

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	seen, again := s.o.Changes(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := s.o.Changes()
		if now == seen && !again {
			continue
		}
		if err := s.sweep(ctx); err != nil {
			if ctx.Err() == nil {
				s.o.Log.WithError(err).Debug("series of metrics about what is gone stay for now")
			}
			continue
		}
		seen, again = now, now != seen
	}
}

// sweep takes away what names what there is not.
func (s *Sweeper) sweep(ctx context.Context) error {
	families, err := s.gather(ctx)
	if err != nil {
		return err
	}
	names, err := s.o.Names(ctx)
	if err != nil {
		return fmt.Errorf("listing webhooks and policies: %w", err)
	}
	gone := gone{groups: s.o.Groups(), names: names}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
				return gone.is(f.GetName(), l.GetName(), l.GetValue())
			}) {
				continue
			}
			labels := labelsOf(m)
			if remove := s.remover(f, slices.Sorted(maps.Keys(labels))); remove != nil {
				remove(labels)
			}
		}
	}
	return nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// gather reads all metrics. Some do not answer while what they are about hangs.
func (s *Sweeper) gather(ctx context.Context) ([]*dto.MetricFamily, error) {
	type answer struct {
		families []*dto.MetricFamily
		err      error
	}
	gathered := make(chan answer, 1)
	go func() {
		families, err := s.o.Gatherer.Gather()
		gathered <- answer{families, err}
	}()
	select {
	case a := <-gathered:
		if len(a.families) > 0 { // some are there despite an error
			return a.families, nil
		}
		return nil, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// remover finds a metric. Upstream keeps its metrics to itself, but the registry names the
// one that is there to whoever wants to register another of the same name and labels.
func (s *Sweeper) remover(f *dto.MetricFamily, labels []string) remove {
	if known, ok := s.known[f.GetName()]; ok {
		return known
	}
	s.known[f.GetName()] = nil
	same := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.GetName(), Help: f.GetHelp()}, labels)
	err := s.o.Registry.Register(same)
	if err == nil {
		s.o.Registry.Unregister(same)
		return nil
	}
	already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err)
	if !ok {
		return nil
	}
	switch of := already.ExistingCollector.(type) {
	case interface { // of Kubernetes
		Delete(labels map[string]string) bool
	}:
		s.known[f.GetName()] = func(labels map[string]string) { of.Delete(labels) }
	case interface { // of other libraries
		Delete(labels prometheus.Labels) bool
	}:
		s.known[f.GetName()] = func(labels map[string]string) { of.Delete(labels) }
	}
	return s.known[f.GetName()]
}

// gone knows what there is.
type gone struct{ groups, names map[string]bool }

// is reports whether a label of a metric names what is gone. The groups of custom
// resources and the names of webhooks have a dot in them, and the names of what is a
// part of the server, which stand at the same places, have none.
func (g gone) is(metric, label, value string) bool {
	switch label {
	case "group":
		return ofAPI(metric) && strings.Contains(value, ".") && !g.groups[value]
	case "resource", "crd_name":
		_, group, ok := strings.Cut(value, ".")
		return ok && ofAPI(metric) && strings.Contains(group, ".") && !g.groups[group]
	case "name":
		return strings.HasPrefix(metric, "apiserver_admission_") && strings.Contains(value, ".") && !g.names[value]
	case "policy":
		return (strings.HasPrefix(metric, "apiserver_validating_admission_policy_") ||
			strings.HasPrefix(metric, "apiserver_mutating_admission_policy_")) && !g.names[value]
	}
	return false
}

// ofAPI says whether a metric is one of the API server about the resources that it serves.
func ofAPI(metric string) bool {
	return strings.HasPrefix(metric, "apiserver_") || strings.HasPrefix(metric, "etcd_") ||
		strings.HasPrefix(metric, "watch_cache_")
}
