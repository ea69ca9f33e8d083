package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/bench/users"
	"github.com/a4s-io/a4s/tests/measure"
)

const (
	// wake is for how long after the last pod what servers still do counts as caused by it.
	wake = 2 * time.Second
	// pacedReplicas and busyReplicas are how many pods Deployments of those loads have.
	pacedReplicas, busyReplicas = 5, 10
	// ofSaturation is the part of what a TP can do that the calm load asks for.
	ofSaturation = 0.2
)

// The phases by which pods are distinguished.
const (
	phasePaced     = "paced"
	phaseContended = "contended"
	phaseBusy      = "saturated"
	phaseCalm      = "calm"
)

// trial is a layout that is measured.
type trial struct {
	*cluster
	maker *sides.Maker
	side  string // in results
	round measure.Round
}

func newTrial(s *settings, l layout, round measure.Round) *trial {
	return &trial{cluster: &cluster{settings: s, layout: l}, side: l.String(), round: round}
}

func (t *trial) set(quantity string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return // of a small run, in which there was too little of something
	}
	t.round.Set(quantity, t.side, value)
	log.Printf("  %s: %s", quantity, measure.Number(value))
}

// phase is a part of a trial.
type phase struct {
	name string
	do   func(ctx context.Context) error
}

// phases are those of a layout.
func (t *trial) phases() []phase {
	return []phase{
		{"start", t.start}, {"tenants", t.populate}, {"nodes", t.nodesCome}, {"memory", t.weigh},
		{"paced load", t.paceAll}, {"contended nodes", t.contend}, {"changes of nodes", t.change},
		{"one TP on one core", t.oneCore},
	}
}

// run measures the layout from its start to its end.
func (t *trial) run(ctx context.Context, m *sides.Maker, phases func(*trial) []phase) (err error) {
	t.maker = m
	ctx, cancel := context.WithCancel(ctx)
	defer t.close()
	defer cancel() // nodes and watches end before the servers do
	defer func() {
		if err != nil && ctx.Err() == nil {
			t.tell()
		}
	}()
	for _, p := range phases(t) {
		log.Printf("%s: %s", t.side, p.name)
		if err := p.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	t.tellFailures()
	return nil
}

func (t *trial) start(ctx context.Context) error {
	began := time.Now()
	if err := t.cluster.start(ctx, t.maker); err != nil {
		return err
	}
	t.set(startTime, time.Since(began).Seconds())
	return nil
}

// rest leaves the servers alone and then measures what they need idle: on average a TP, and
// an RP.
func (t *trial) rest(ctx context.Context) (tp, rp float64, err error) {
	if err := sides.Sleep(ctx, t.settle); err != nil {
		return 0, 0, err
	}
	cores, err := sides.CoresDuring(ctx, t.idle, t.sides()...)
	if err != nil {
		return 0, 0, err
	}
	for i, s := range t.all() {
		s.idle = cores[i]
	}
	for i := range t.tps {
		tp += t.tps[i].idle / float64(len(t.tps))
		rp += t.rps[i].idle / float64(len(t.rps))
	}
	return tp, rp, nil
}

// nodesCome registers the nodes, and measures what servers need idle without and with them.
func (t *trial) nodesCome(ctx context.Context) error {
	tpBefore, rpBefore, err := t.rest(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := t.addNodes(ctx, t.nodes); err != nil {
		return err
	}
	t.set(nodesTime, time.Since(began).Seconds())
	tp, rp, err := t.rest(ctx)
	if err != nil {
		return err
	}
	each := float64(t.nodes) / float64(len(t.rps))
	t.set(tpEmpty, tpBefore)
	t.set(tpIdle, tp)
	if t.layout.split() {
		t.set(rpEmpty, rpBefore)
		t.set(rpIdle, rp)
		t.set(tpNodeIdle, (tp-tpBefore)/float64(t.nodes)*1000)
	}
	t.set(rpNodes, each)
	t.set(rpNodeIdle, (rp-rpBefore)/each*1000)
	return nil
}

// weigh measures memory: on average of a TP, and of an RP.
func (t *trial) weigh(ctx context.Context) error {
	for _, of := range []struct {
		servers             []*server
		resident, pss, live string
	}{
		{t.all()[:len(t.tps)], tpResident, tpPSS, tpLive}, {t.all()[len(t.tps):], rpResident, rpPSS, rpLive},
	} {
		n := float64(len(of.servers))
		resident, pss, live := 0.0, 0.0, 0.0
		for _, s := range of.servers {
			_, l, err := s.Heap(ctx) // collects garbage
			if err != nil {
				return err
			}
			r, _, err := s.Weigh(ctx)
			if err != nil {
				return err
			}
			programs, err := s.Programs()
			if err != nil {
				return err
			}
			for _, p := range programs {
				pss += p.PSS / n
			}
			resident, live = resident+r/n, live+l/n
		}
		if n > 0 {
			t.set(of.resident, resident)
			t.set(of.pss, pss)
			t.set(of.live, live)
		}
	}
	return nil
}

// paceAll makes pods in all TPs at the same pace, and measures everything about it.
func (t *trial) paceAll(ctx context.Context) error {
	p, err := t.pace(ctx, phasePaced, t.paced)
	if err != nil {
		return err
	}
	each := 1000 / float64(len(p.waits))
	t.set(tpCPU, p.tps*each)
	t.set(homeCPU, p.home*1000/float64(p.ofHome))
	if t.layout.split() {
		t.set(rpPodCPU, p.rps*each)
	}
	t.set(allCPU, (p.tps+p.rps)*each)
	t.set(came, float64(len(p.waits))/float64(len(t.tps))/p.took.Seconds())
	t.set(busyAll, p.cores)
	t.setWaits(p.waits, pacedP50, pacedP90, pacedP99)
	return nil
}

// paced is what a paced load was measured to be: seconds of processor time of all TPs, of
// home among them, and of all RPs, without what they need idle; how long pods took, in
// order, and how many were in home; how long all took, and how many cores were needed.
type paced struct {
	tps, home, rps float64
	waits          []time.Duration
	ofHome         int
	took           time.Duration
	cores          float64
}

// pace makes pods in all TPs at the same pace for a while, after a rest.
func (t *trial) pace(ctx context.Context, phase string, d time.Duration) (p paced, err error) {
	meters := make([]sides.Meter, len(t.all()))
	for i, s := range t.sides() {
		if meters[i], err = sides.NewMeter(s); err != nil {
			return p, err
		}
	}
	stop := make(chan struct{})
	time.AfterFunc(d, func() { close(stop) })
	began := time.Now()
	made, making := errgroup.WithContext(ctx)
	t.enter(phase)
	var loads []*users.Load
	for i, tp := range t.tps {
		load := &users.Load{Spaces: tp.spaces, Name: phase, Clients: t.clients, Replicas: pacedReplicas}
		loads = append(loads, load)
		// By turns: Deployments at the same moment would compete for the cores of this machine,
		// where TPs have machines of their own.
		turn := load.Period(t.rate) * time.Duration(i) / time.Duration(len(t.tps))
		made.Go(func() error {
			if err := sides.Sleep(making, turn); err != nil {
				return err
			}
			return load.Pace(making, t.rate, stop)
		})
	}
	if err := made.Wait(); err != nil {
		return p, err
	}
	for i, tp := range t.tps {
		if err := tp.pods.AwaitRunning(ctx, phase, loads[i].Pods()); err != nil {
			return p, err
		}
		seen := tp.pods.Of(phase)
		p.waits, p.took = append(p.waits, seen.Waits...), max(p.took, seen.Last.Sub(began))
	}
	slices.Sort(p.waits)
	p.ofHome = loads[0].Pods()
	if err := sides.Sleep(ctx, wake); err != nil {
		return p, err
	}
	for i, s := range t.all() {
		used, err := meters[i].Beyond(s.idle)
		switch {
		case err != nil:
			return p, err
		case i >= len(t.tps):
			p.rps += used
		case i == 0:
			p.home = used
			fallthrough
		default:
			p.tps += used
		}
		p.cores += s.idle + used/d.Seconds()
	}
	return p, nil
}

// setWaits sets quantiles of times that are in order; "" leaves one out.
func (t *trial) setWaits(waits []time.Duration, p50, p90, p99 string) {
	for _, q := range []struct {
		name string
		part float64
	}{{p50, 0.5}, {p90, 0.9}, {p99, 0.99}} {
		if q.name != "" && len(waits) > 0 {
			t.set(q.name, sides.Seconds(waits, q.part))
		}
	}
}

// oneCore has one TP on a processor of its own, and all else on the others, make as many pods
// as it can, and then a fifth as many.
func (t *trial) oneCore(ctx context.Context) error {
	if n := runtime.NumCPU(); n > 1 {
		var rest, both []int
		for p := range n {
			both = append(both, p)
			if p > 0 {
				rest = append(rest, p)
			}
		}
		defer func() { _ = sides.PinSelf(both...) }() // what else is pinned ends now
		if err := sides.PinSelf(rest...); err != nil {
			return err
		}
		for i, s := range t.sides() {
			if i == 0 {
				rest = []int{0}
			} else {
				rest = both[1:]
			}
			if err := s.Pin(rest...); err != nil {
				return err
			}
		}
	}
	if _, _, err := t.rest(ctx); err != nil {
		return err
	}
	rate, err := t.saturate(ctx)
	if err != nil {
		return err
	}
	if err := t.calmly(ctx, rate*ofSaturation); err != nil {
		return err
	}
	failed := 0
	for _, tp := range t.tps {
		for _, p := range []string{phasePaced, phaseContended, phaseBusy, phaseCalm} {
			failed += tp.pods.Of(p).Failed
		}
	}
	t.set(failedPods, float64(failed))
	return nil
}

// saturate returns how many pods a second the first TP starts.
func (t *trial) saturate(ctx context.Context) (float64, error) {
	tp := t.tps[0]
	t.enter(phaseBusy)
	meters := make([]sides.Meter, len(t.all()))
	var err error
	for i, s := range t.sides() {
		if meters[i], err = sides.NewMeter(s); err != nil {
			return 0, err
		}
	}
	load := &users.Load{Spaces: tp.spaces, Name: "busy", Clients: t.clients, Replicas: busyReplicas}
	if err := load.Saturate(ctx, t.busy); err != nil {
		return 0, err
	}
	if err := tp.pods.AwaitRunning(ctx, phaseBusy, load.Pods()); err != nil {
		return 0, err
	}
	rest, own := 0.0, 0.0
	for i, m := range meters {
		used, elapsed, err := m.Read()
		if err != nil {
			return 0, err
		}
		if i == 0 {
			own = used.Seconds() / elapsed.Seconds()
			t.set(busyCore, own)
		} else {
			rest += used.Seconds() / elapsed.Seconds()
		}
	}
	if t.layout.split() {
		t.set(busyRest, rest)
	}
	if err := sides.Sleep(ctx, wake); err != nil {
		return 0, err
	}
	used, err := meters[0].Beyond(tp.idle)
	if err != nil {
		return 0, err
	}
	pods := tp.pods.Of(phaseBusy)
	rate := float64(len(pods.Waits)) / pods.Last.Sub(meters[0].Began()).Seconds()
	t.set(busyRate, rate)
	t.set(busyEach, rate/own)
	t.set(busyCPU, used/float64(len(pods.Waits))*1000)
	t.setWaits(pods.Waits, busyP50, "", busyP99)
	return rate, nil
}

// calmly makes single pods in the first TP at a pace.
func (t *trial) calmly(ctx context.Context, rate float64) error {
	tp := t.tps[0]
	t.enter(phaseCalm)
	load := &users.Load{Spaces: tp.spaces, Name: "calm", Clients: t.clients, Replicas: 1}
	stop := make(chan struct{})
	time.AfterFunc(t.calm, func() { close(stop) })
	if err := load.Pace(ctx, rate, stop); err != nil {
		return err
	}
	if err := tp.pods.AwaitRunning(ctx, phaseCalm, load.Pods()); err != nil {
		return err
	}
	t.set(calmRate, rate)
	t.setWaits(tp.pods.Of(phaseCalm).Waits, calmP50, calmP90, calmP99)
	return nil
}
