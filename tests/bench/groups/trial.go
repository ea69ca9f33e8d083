package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/measure"
)

// wake is for how long after the last event what servers still do counts as caused by it.
const wake = 2 * time.Second

// trial is a layout that is measured.
type trial struct {
	*cluster
	layout layout
	round  measure.Round
}

func (t *trial) set(quantity string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return // of a small run, in which there was too little of something
	}
	t.round.Set(quantity, t.layout.String(), value)
	log.Printf("  %s: %s", quantity, measure.Number(value))
}

// run measures the layout from its start on.
func (t *trial) run(ctx context.Context) error {
	if t.running == 0 {
		return fmt.Errorf("no server runs that could be told of the layout")
	}
	if err := t.configure(ctx, t.layout); err != nil {
		return err
	}
	if err := t.stop(); err != nil {
		return err
	}
	began := time.Now()
	if err := t.start(ctx, t.layout); err != nil {
		return err
	}
	t.set(startTime, time.Since(began).Seconds())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watches
	if err := sides.Sleep(ctx, t.settle); err != nil {
		return err
	}
	l, err := newLoad(ctx, t.cluster)
	if err != nil {
		return err
	}
	if err := t.weigh(ctx); err != nil {
		return err
	}
	return t.measure(ctx, l)
}

// all are the servers and then the datastore.
func (t *trial) all() []*sides.Side {
	return append(append([]*sides.Side{}, t.servers[:t.running]...), t.etcd)
}

// spread sets what the server that leads has, what the others have on average, and all of
// them together; "" leaves one out.
func (t *trial) spread(values []float64, leads, others, all string) {
	sum := 0.0
	for i, v := range values[:t.running] {
		sum += v
		if t.running > 1 {
			log.Printf("  server %d of group %s: %s", i, t.layout.group(i), measure.Number(v))
		}
	}
	for name, value := range map[string]float64{
		leads: values[0], others: (sum - values[0]) / float64(t.running-1), all: sum,
	} {
		if name != "" {
			t.set(name, value)
		}
	}
}

// weigh measures the memory of what runs.
func (t *trial) weigh(ctx context.Context) error {
	var resident, anon, heap, live []float64
	for i, s := range t.all() {
		r, a, err := s.Weigh(ctx)
		if err != nil {
			return err
		}
		if i == t.running {
			t.set(storeResident, r)
			break
		}
		inUse, alive, err := s.Heap(ctx)
		if err != nil {
			return err
		}
		resident, anon, heap, live = append(resident, r), append(anon, a), append(heap, inUse), append(live, alive)
	}
	t.spread(resident, leadResident, otherResident, allResident)
	t.spread(anon, leadAnon, otherAnon, allAnon)
	t.spread(heap, leadHeap, otherHeap, "")
	t.spread(live, leadLive, otherLive, allLive)
	return nil
}

// measure measures processor time, idle and under writes, and how long events take.
func (t *trial) measure(ctx context.Context, l *load) error {
	all := t.all()
	idle, err := sides.CoresDuring(ctx, t.idle, all...)
	if err != nil {
		return err
	}
	t.spread(idle, leadIdle, otherIdle, allIdle)
	t.set(storeIdle, idle[t.running])
	meters := make([]sides.Meter, len(all))
	for i, s := range all {
		if meters[i], err = sides.NewMeter(s); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := l.run(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	if err := sides.Sleep(ctx, wake); err != nil {
		return err
	}
	answers, ofTenants, ofAll := l.times()
	costs := make([]float64, len(all))
	for i, m := range meters {
		used, err := m.Beyond(idle[i])
		if err != nil {
			return err
		}
		costs[i] = used / float64(len(answers)) * 1000
	}
	t.spread(costs, leadCPU, otherCPU, allCPU)
	t.set(storeCPU, costs[t.running])
	t.set(rate, float64(len(answers))/took.Seconds())
	for _, of := range []struct {
		took     []time.Duration
		p50, p99 string
	}{{answers, writeP50, writeP99}, {ofTenants, tenantP50, tenantP99}, {ofAll, clusterP50, clusterP99}} {
		if len(of.took) > 0 {
			t.set(of.p50, sides.Seconds(of.took, 0.5)*1000)
			t.set(of.p99, sides.Seconds(of.took, 0.99)*1000)
		}
	}
	peaks := 0.0
	for _, s := range all[:t.running] {
		_, _, peak, err := s.Memory()
		if err != nil {
			return err
		}
		peaks += peak
	}
	t.set(allPeak, peaks)
	t.tellFailures()
	return nil
}
