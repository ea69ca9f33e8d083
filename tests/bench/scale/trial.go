package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/tests/bench/hollow"
	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/bench/users"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
)

const (
	startTimeout = 3 * time.Minute
	// nodesTimeout bounds how long it takes until all nodes take pods.
	nodesTimeout = 20 * time.Minute
)

// The phases of a trial, by which pods and reads are distinguished.
const (
	phaseAlone     = "alone"
	phaseSaturated = "saturated"
	phasePaced     = "paced"
	phaseMaking    = "paced, with spaces made"
)

// trial is a side that is measured.
type trial struct {
	settings   *settings
	contestant contestant
	round      measure.Round

	side   *sides.Side
	fleet  *hollow.Fleet
	maker  *users.Maker
	pods   *users.PodWatch
	reader *reader
	load   *users.Load

	// empty, idle and quiet are how many cores the side needs without a node,
	// with all nodes, and with the reader as well.
	empty, idle, quiet float64
	before             float64 // resident before the load, in MiB
}

func newTrial(s *settings, c contestant, round measure.Round) *trial {
	return &trial{settings: s, contestant: c, round: round}
}

func (t *trial) set(quantity string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return // of a small run, in which there was too little of something
	}
	t.round.Set(quantity, t.contestant.name, value)
	log.Printf("  %s: %s", quantity, measure.Number(value))
}

// got is what was measured of a quantity before.
func (t *trial) got(quantity string) float64 { return t.round[quantity][t.contestant.name] }

// run measures the side from its start to its end.
func (t *trial) run(ctx context.Context, maker *sides.Maker) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.side, err = t.contestant.start(ctx, maker, t.contestant.short); err != nil {
		return err
	}
	defer func() {
		cancel()
		if t.fleet != nil {
			t.fleet.Wait()
		}
		t.side.Close()
	}()
	defer func() {
		if err != nil && ctx.Err() == nil {
			t.tell()
		}
	}()
	for _, step := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"start", t.start},
		{"nodes", t.nodes},
		{"spaces", t.spaces},
		{"reader", t.alone},
		{"load", t.saturate},
		{"deletion", t.clear},
		{"paced load", t.paced},
		{"deletion", t.clear},
		{"memory", t.weigh},
	} {
		log.Printf("%s: %s", t.contestant.name, step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// tell logs what could explain a failure.
func (t *trial) tell() {
	for _, path := range t.side.Host.Logs() {
		log.Printf("%s:\n%s", filepath.Base(path), hosts.LastLines(path, 10))
	}
	if t.fleet != nil {
		if n, last := t.fleet.Failures(); n > 0 {
			log.Printf("%d requests of nodes failed, the last one: %v", n, last)
		}
	}
}

// start waits for an empty server.
func (t *trial) start(ctx context.Context) error {
	t.side.Start()
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := t.side.AwaitReady(limited); err != nil {
		return err
	}
	var err error
	if t.maker, err = users.NewMaker(ctx, t.side, t.contestant.tenants); err != nil {
		return err
	}
	// Controllers run when this has one.
	if err := t.maker.Accounts.Await(limited, corev1.NamespaceDefault); err != nil {
		return err
	}
	if t.pods, err = users.WatchPods(ctx, t.maker.Admin.CoreV1().RESTClient()); err != nil {
		return err
	}
	if err := t.calm(ctx); err != nil {
		return err
	}
	t.empty, err = t.cores(ctx, t.settings.idle/4)
	t.set(idleEmpty, t.empty)
	return err
}

// cores is how many cores the side needs for a while.
func (t *trial) cores(ctx context.Context, d time.Duration) (float64, error) {
	all, err := sides.CoresDuring(ctx, d, t.side)
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// calm leaves the side alone after its start, or after nodes or pods came, before
// its idle processor time is measured.
func (t *trial) calm(ctx context.Context) error { return sides.Sleep(ctx, t.settings.idle/3) }

// wake is for how long after the last node, space or pod what the side still does
// counts as caused by them.
func (t *trial) wake(ctx context.Context) error { return sides.Sleep(ctx, t.settings.idle/20) }

// nodes registers the nodes and measures the side with them.
func (t *trial) nodes(ctx context.Context) error {
	usable := users.NewArrivals()
	look := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok && len(node.Spec.Taints) == 0 {
			usable.Add(node.Name)
		}
	}
	nodesOnly, stop := context.WithCancel(ctx)
	defer stop()
	nodes := users.Resource{Plural: "nodes", Example: &corev1.Node{}}
	if err := users.Follow(nodesOnly, t.maker.Admin.CoreV1().RESTClient(), nodes, cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) },
	}); err != nil {
		return err
	}
	m, err := sides.NewMeter(t.side)
	if err != nil {
		return err
	}
	t.fleet, err = hollow.Start(ctx, hollow.Options{Nodes: t.settings.nodes, Access: t.maker.Signer.User})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	for i := range t.settings.nodes {
		if err := usable.Await(limited, hollow.Name(i)); err != nil {
			return err
		}
	}
	took := time.Since(m.Began())
	stop()
	if err := t.wake(ctx); err != nil {
		return err
	}
	used, err := m.Beyond(t.empty)
	if err != nil {
		return err
	}
	t.set(nodesTime, took.Seconds())
	t.set(nodeCPU, used/float64(t.settings.nodes)*1000)
	if err := t.calm(ctx); err != nil {
		return err
	}
	t.idle, err = t.cores(ctx, t.settings.idle)
	t.set(idleNodes, t.idle)
	return err
}

// spaces makes the spaces of the load.
func (t *trial) spaces(ctx context.Context) error {
	made, err := t.makeSpaces(ctx, "space", t.idle, spacesTime, spaceCPU)
	t.load = &users.Load{
		Spaces: made, Name: "web", Clients: t.settings.clients, Replicas: t.settings.replicas,
	}
	return err
}

// makeSpaces makes as many spaces as there are to be, while the side needs so
// many cores anyway.
func (t *trial) makeSpaces(
	ctx context.Context, prefix string, cores float64, inAll, each string,
) ([]*users.Space, error) {
	m, err := sides.NewMeter(t.side)
	if err != nil {
		return nil, err
	}
	made, err := t.maker.MakeAll(ctx, t.settings.clients, t.settings.spaces, prefix)
	if err != nil {
		return nil, err
	}
	_, took, err := m.Read()
	if err != nil {
		return nil, err
	}
	if err := t.wake(ctx); err != nil {
		return nil, err
	}
	used, err := m.Beyond(cores)
	t.set(inAll, took.Seconds())
	t.set(each, used/float64(t.settings.spaces)*1000)
	return made, err
}

// alone has the reader read while nothing else happens.
func (t *trial) alone(ctx context.Context) error {
	own, err := t.maker.MakeOne(ctx, "next-door")
	if err != nil {
		return err
	}
	if t.reader, err = startReader(ctx, own); err != nil {
		return err
	}
	if err := t.calm(ctx); err != nil {
		return err
	}
	if t.before, _, err = t.side.Weigh(ctx); err != nil {
		return err
	}
	t.set(memoryBefore, t.before)
	t.reader.enter(phaseAlone)
	if t.quiet, err = t.cores(ctx, t.settings.alone); err != nil {
		return err
	}
	return t.setReads(phaseAlone, readP50, readP99)
}

// setReads sets what the reader had in a phase, in milliseconds.
func (t *trial) setReads(phase string, p50, p99 string) error {
	took, err := t.reader.of(phase)
	if err == nil && len(took) == 0 {
		err = errors.New("nothing was read")
	}
	if err != nil {
		return err
	}
	t.set(p50, sides.Seconds(took, 0.5)*1000)
	t.set(p99, sides.Seconds(took, 0.99)*1000)
	return nil
}

func (t *trial) enter(phase string) {
	t.reader.enter(phase)
	t.pods.Enter(phase)
}

// saturate makes the load as fast as it goes.
func (t *trial) saturate(ctx context.Context) error {
	m, err := sides.NewMeter(t.side)
	if err != nil {
		return err
	}
	t.enter(phaseSaturated)
	if err := t.load.Saturate(ctx, t.settings.deployments); err != nil {
		return err
	}
	if err := t.pods.AwaitRunning(ctx, phaseSaturated, t.load.Pods()); err != nil {
		return err
	}
	t.reader.enter("")
	if err := t.wake(ctx); err != nil {
		return err
	}
	used, err := m.Beyond(t.quiet)
	if err != nil {
		return err
	}
	pods := t.pods.Of(phaseSaturated)
	rate := float64(len(pods.Waits)) / pods.Last.Sub(m.Began()).Seconds()
	t.set(saturatedRate, rate)
	t.set(saturatedCPU, used/float64(len(pods.Waits))*1000)
	t.set(saturatedP50, sides.Seconds(pods.Waits, 0.5))
	t.set(saturatedP99, sides.Seconds(pods.Waits, 0.99))
	t.set(saturatedSet, sides.Seconds(pods.Places, 0.99))
	t.set(createP99, sides.Seconds(t.load.Requests(), 0.99)*1000)
	t.settings.learn(rate)
	if err := t.setReads(phaseSaturated, saturatedReadP50, saturatedReadP99); err != nil {
		return err
	}
	t.set(saturatedNotice, t.got(saturatedReadP99)/t.got(readP99))
	return nil
}

// clear deletes the load.
func (t *trial) clear(ctx context.Context) error {
	began := time.Now()
	if err := t.load.Remove(ctx); err != nil {
		return err
	}
	if err := t.pods.AwaitNone(ctx); err != nil {
		return err
	}
	log.Printf("  all pods are gone after %v", time.Since(began).Round(time.Second))
	return t.calm(ctx)
}

// paced makes the load at a pace, for a while alone, and then until as many
// spaces again have been made. Processor time that the latter takes is that beyond
// what the load takes alone.
func (t *trial) paced(ctx context.Context) (err error) {
	pace := t.settings.pace
	if t.contestant.limited {
		pace = min(pace, ofSaturation*t.got(saturatedRate))
	}
	t.set(pacedRate, pace)
	stop := make(chan struct{})
	var loaded sync.WaitGroup
	var failed error
	end := sync.OnceFunc(func() {
		close(stop)
		loaded.Wait()
	})
	defer end()
	t.enter(phasePaced)
	loaded.Go(func() { failed = t.load.Pace(ctx, pace, stop) })
	cores, err := t.cores(ctx, t.settings.paced)
	if err != nil {
		return err
	}
	t.enter(phaseMaking)
	if _, err := t.makeSpaces(ctx, "more", cores, loadedSpacesTime, loadedSpaceCPU); err != nil {
		return err
	}
	end()
	if failed != nil {
		return failed
	}
	before := t.pods.Of(phasePaced)
	if err := t.pods.AwaitRunning(ctx, phasePaced, before.Seen); err != nil {
		return err
	}
	pods := t.pods.Of(phasePaced)
	if len(pods.Waits) == 0 {
		return errors.New("no pod ran while the load had a pace: it was too short")
	}
	t.set(pacedCame, float64(len(pods.Waits))/t.settings.paced.Seconds())
	t.set(pacedCPU, (cores-t.quiet)*t.settings.paced.Seconds()/float64(len(pods.Waits))*1000)
	t.set(pacedP50, sides.Seconds(pods.Waits, 0.5))
	t.set(pacedP99, sides.Seconds(pods.Waits, 0.99))
	t.set(pacedSet, sides.Seconds(pods.Places, 0.99))
	if err := t.setReads(phasePaced, pacedReadP50, pacedReadP99); err != nil {
		return err
	}
	t.set(pacedNotice, t.got(pacedReadP99)/t.got(readP99))
	t.reader.enter("")
	return t.pods.AwaitAll(ctx, t.load.Pods())
}

// weigh weighs the side after it had nothing to do for a while.
func (t *trial) weigh(ctx context.Context) error {
	if err := sides.Sleep(ctx, t.settings.settle); err != nil {
		return err
	}
	after, _, err := t.side.Weigh(ctx)
	if err != nil {
		return err
	}
	_, _, peak, err := t.side.Memory()
	if err != nil {
		return err
	}
	t.set(memoryPeak, peak)
	t.set(memoryAfter, after)
	t.set(memoryKept, after/t.before)
	if n, last := t.fleet.Failures(); n > 0 {
		log.Printf("  %d requests of nodes failed, the last one: %v", n, last)
	}
	return nil
}
