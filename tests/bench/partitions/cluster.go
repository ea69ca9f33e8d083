package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/bench/hollow"
	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/bench/users"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	startTimeout = 5 * time.Minute
	// nodesTimeout bounds how long it takes until all nodes take pods everywhere.
	nodesTimeout = 20 * time.Minute
	// mostPartitions is how many ranges there are below.
	mostPartitions = 6
	// allNodes is the range for pods when home is alone. Otherwise each RP has a range of
	// its own. Both have a network for each of some thousand nodes.
	allNodes = "10.128.0.0/10"
)

// server is the process of a partition.
type server struct {
	*sides.Side
	partition string
	// idle is how many cores it needs when nothing happens, as measured last.
	idle float64
	// nodes is how many are its own.
	nodes int
}

// tenantPartition is a server with tenants.
type tenantPartition struct {
	*server
	maker  *users.Maker
	pods   *users.PodWatch
	spaces []*users.Space
}

// cluster are the servers of a layout, and its nodes.
type cluster struct {
	*settings
	layout layout
	tps    []*tenantPartition
	rps    []*server
	fleets []*hollow.Fleet
}

// all are the servers, each once.
func (c *cluster) all() []*server {
	var all []*server
	for _, tp := range c.tps {
		all = append(all, tp.server)
	}
	if c.layout.split() {
		all = append(all, c.rps...)
	}
	return all
}

// sides are those of the servers.
func (c *cluster) sides() []*sides.Side {
	var all []*sides.Side
	for _, s := range c.all() {
		all = append(all, s.Side)
	}
	return all
}

// urls are those of the TPs.
func (c *cluster) urls() []string {
	var all []string
	for _, tp := range c.tps {
		all = append(all, tp.Config.Host)
	}
	return all
}

// close ends everything. The context of what runs has ended.
func (c *cluster) close() {
	for _, f := range c.fleets {
		f.Wait()
	}
	var ended errgroup.Group
	for _, s := range c.all() {
		ended.Go(func() error {
			s.Close()
			return nil
		})
	}
	_ = ended.Wait() // it has no errors
}

// tell logs what could explain a failure.
func (c *cluster) tell() {
	for _, s := range c.all() {
		for _, path := range s.Host.Logs() {
			log.Printf("%s: %s:\n%s", s.Host.Name, filepath.Base(path), hosts.LastLines(path, 10))
		}
	}
	c.tellFailures()
}

func (c *cluster) tellFailures() {
	for _, f := range c.fleets {
		if n, last := f.Failures(); n > 0 {
			log.Printf("  %d requests of nodes failed until now, the last one: %v", n, last)
		}
	}
}

// start starts home, and then all others at once.
func (c *cluster) start(ctx context.Context, m *sides.Maker) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	common := append(sides.PlainA4s(), "--disable-agent")
	make := func(host, partition string, args ...string) (*server, error) {
		side, err := m.A4s(ctx, host, append(append([]string{}, common...), args...)...)
		if err != nil {
			return nil, err
		}
		side.Start()
		return &server{Side: side, partition: partition}, nil
	}
	var own []string
	if !c.layout.split() {
		own = []string{"--cluster-cidr", allNodes}
	}
	home, err := make("home", pki.HomePartition, own...)
	if err != nil {
		return err
	}
	c.tps = []*tenantPartition{{server: home}}
	if err := home.AwaitReady(limited); err != nil {
		return fmt.Errorf("starting home: %w", err)
	}
	if !c.layout.split() {
		home.partition = "" // it is not said of a tenant where there is one partition
		c.rps = []*server{home}
		return c.watch(ctx, limited)
	}
	token, err := os.ReadFile(home.Host.Path("/var/lib/a4s/server/token"))
	if err != nil {
		return fmt.Errorf("reading the token of home: %w", err)
	}
	joining := []string{"--cluster", home.Config.Host, "--token", strings.TrimSpace(string(token))}
	for i := range c.layout.each() {
		if i > 0 {
			name := fmt.Sprint("tp", i+1)
			tp, err := make(name, name, append([]string{"--tenant-partition", name,
				"--service-cidr", fmt.Sprintf("10.%d.0.0/16", 43+i)}, joining...)...)
			if err != nil {
				return err
			}
			c.tps = append(c.tps, &tenantPartition{server: tp})
		}
		name := fmt.Sprint("rp", i+1)
		rp, err := make(name, name, append([]string{"--resource-partition", name,
			"--cluster-cidr", fmt.Sprintf("10.%d.0.0/12", 128+16*i)}, joining...)...)
		if err != nil {
			return err
		}
		c.rps = append(c.rps, rp)
	}
	var started errgroup.Group
	for _, s := range c.all()[1:] {
		started.Go(func() error {
			if err := s.AwaitReady(limited); err != nil {
				return fmt.Errorf("starting %s: %w", s.Host.Name, err)
			}
			return nil
		})
	}
	if err := started.Wait(); err != nil {
		return err
	}
	return c.watch(ctx, limited)
}

// watch begins to see what happens in the TPs, once their controllers run.
func (c *cluster) watch(ctx, limited context.Context) error {
	for _, tp := range c.tps {
		var err error
		if tp.maker, err = users.NewMaker(ctx, tp.Side, true); err != nil {
			return err
		}
		tp.maker.Partition = tp.partition
		if err := tp.maker.Accounts.Await(limited, corev1.NamespaceDefault); err != nil {
			return err
		}
		if tp.pods, err = users.WatchPods(ctx, tp.maker.Admin.CoreV1().RESTClient()); err != nil {
			return err
		}
	}
	return nil
}

// enter begins a phase in all TPs.
func (c *cluster) enter(phase string) {
	for _, tp := range c.tps {
		tp.pods.Enter(phase)
	}
}

// populate makes the tenants.
func (c *cluster) populate(ctx context.Context) error {
	made, ctx := errgroup.WithContext(ctx)
	for i, tp := range c.tps {
		made.Go(func() (err error) {
			tp.spaces, err = tp.maker.MakeAll(ctx, c.clients, c.tenants, fmt.Sprint("tenant-", i+1))
			return err
		})
	}
	return made.Wait()
}

// addNodes registers further nodes, until there are so many in all, and returns when every
// TP has all of them, and their watches of its pods. They are spread over the RPs.
func (c *cluster) addNodes(ctx context.Context, nodes int) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	var usable []*users.Arrivals
	for _, tp := range c.tps {
		come := users.NewArrivals()
		look := func(obj any) {
			if node, ok := obj.(*corev1.Node); ok && len(node.Spec.Taints) == 0 {
				come.Add(node.Name)
			}
		}
		if err := followNodes(following, tp, look); err != nil {
			return err
		}
		usable = append(usable, come)
	}
	before := 0
	for _, rp := range c.rps {
		before += rp.nodes
	}
	var fleets []*hollow.Fleet
	for i, rp := range c.rps {
		first, next := c.layout.first(i, nodes-before), c.layout.first(i+1, nodes-before)
		f, err := c.register(ctx, rp, before+first, next-first)
		if err != nil {
			return err
		}
		rp.nodes += next - first
		c.fleets, fleets = append(c.fleets, f), append(fleets, f)
	}
	for _, come := range usable {
		for n := range nodes {
			if err := come.Await(limited, hollow.Name(n)); err != nil {
				return err
			}
		}
	}
	for _, f := range fleets {
		if err := f.TakePods(ctx, c.urls()...); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) register(ctx context.Context, rp *server, first, nodes int) (*hollow.Fleet, error) {
	signer, err := rp.Signer()
	if err != nil {
		return nil, err
	}
	o := hollow.Options{First: first, Nodes: nodes, Access: signer.User, Elsewhere: true}
	if c.layout.split() {
		o.Groups = []string{pki.NodePartitionPrefix + rp.partition}
	}
	return hollow.Start(ctx, o)
}

func followNodes(ctx context.Context, tp *tenantPartition, look func(obj any)) error {
	nodes := users.Resource{Plural: "nodes", Example: &corev1.Node{}}
	return users.Follow(ctx, tp.maker.Admin.CoreV1().RESTClient(), nodes, cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) },
	})
}

// spread are so many nodes, of all RPs.
func (c *cluster) spread(n int) []string {
	var all []string
	for i := range c.rps {
		first := c.layout.first(i, c.nodes)
		for j := range c.layout.first(i+1, n) - c.layout.first(i, n) {
			all = append(all, hollow.Name(first+j))
		}
	}
	return all
}
