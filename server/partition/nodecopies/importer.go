package nodecopies

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// Name is the name of the component.
const Name = "node-importer"

const (
	// Label names the resource partition of a copy. Nodes of this server do not have it.
	Label = partitionapi.ResourcePartitionLabel
	// UIDAnnotation and CreatedAnnotation are what the importer asks a new copy to keep.
	// They are not stored.
	UIDAnnotation     = "a4s.io/original-uid"
	CreatedAnnotation = "a4s.io/original-created"
)

// Source is a resource partition.
type Source struct {
	Name string
	// Client reads its Nodes and CSINodes. A source with another client is another one.
	Client kubernetes.Interface
}

// Options configure the importer.
type Options struct {
	// Client is of the tenant partition, as the user that package storage knows.
	Client kubernetes.Interface
	// Sources returns the resource partitions, without the one of this server itself, and
	// what is closed when they change. Copies of one that is left out stay until Left says
	// that it left the cluster; nil is for never.
	Sources func() ([]Source, <-chan struct{})
	Left    func(ctx context.Context, partition string) (bool, error)
	// Patience is for how long a copy stays whose node is missing in a list without a word of its
	// deletion; zero is for as long as pods stay, by default, on a node that does not answer.
	Patience time.Duration
	// Health is told of names that several have; nil for nobody.
	Health *health.Registry
	Log    *logrus.Entry
}

// Importer keeps copies.
type Importer struct {
	o        Options
	complete atomic.Bool
	check    atomic.Pointer[func() bool]
	behind   atomic.Pointer[func() map[string]string] // nil while this server does not lead

	mu      sync.Mutex
	clashes map[string]bool
}

// New returns an importer; Component runs it.
func New(o Options) *Importer {
	if o.Left == nil {
		o.Left = func(context.Context, string) (bool, error) { return false, nil }
	}
	return &Importer{o: o, clashes: map[string]bool{}}
}

// Component keeps copies while this server leads. It is ready at once: what it copies from
// may be down.
func (i *Importer) Component() component.Component {
	return component.Component{Name: Name, Run: i.run}
}

// Complete reports whether all nodes of all resource partitions have had their copies once
// since this server leads. Before that, pods may be bound to nodes without a copy, which
// garbage collection must not take for nodes that are gone.
func (i *Importer) Complete() bool {
	if i.complete.Load() {
		return true
	}
	check := i.check.Load()
	if check == nil || !(*check)() {
		return false
	}
	i.complete.Store(true)
	return true
}

// Check tells of resource partitions whose nodes have no copies, or not all.
func (i *Importer) Check(_ context.Context, r *health.Registry) {
	var names []string
	if behind := i.behind.Load(); behind != nil {
		for name, detail := range (*behind)() {
			names = append(names, name)
			r.Set(health.CopiesBehind, name, detail)
		}
	}
	r.Keep(health.CopiesBehind, names)
}

func (i *Importer) run(ctx context.Context, ready func()) error {
	ready()
	// They end after the loop below, which gives them work.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ofNodes := newCopier[*corev1.Node](nodes(), i.o, i.clash)
	ofCSINodes := newCopier[*storagev1.CSINode](csiNodes(), i.o, func(string, []string) {})
	var known atomic.Bool
	check := func() bool { return known.Load() && ofNodes.complete() }
	i.complete.Store(false)
	i.check.Store(&check)
	behind := ofNodes.behind
	i.behind.Store(&behind)
	defer i.behind.Store(nil)
	defer i.complete.Store(false)
	defer i.check.Store(nil)
	defer i.forget()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { ofNodes.run(work) })
	running.Go(func() { ofCSINodes.run(work) })
	for {
		sources, changed := i.o.Sources()
		ofNodes.follow(work, sources)
		ofCSINodes.follow(work, sources)
		known.Store(true)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// clash reports a name that several have, or that this is over.
func (i *Importer) clash(name string, with []string) {
	if i.o.Health == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(with) == 0 && !i.clashes[name] {
		return
	}
	if i.clashes[name] = len(with) > 0; !i.clashes[name] {
		delete(i.clashes, name)
	}
	detail := ""
	if len(with) > 0 {
		detail = fmt.Sprintf("it is that of %s; ignored: %s", with[0], strings.Join(with[1:], ", "))
	}
	i.o.Health.Report(len(with) > 0, health.NodeNameTaken, name, detail)
}

// forget takes back what was reported: who leads next finds out anew.
func (i *Importer) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name := range i.clashes {
		i.o.Health.Clear(health.NodeNameTaken, name)
	}
	clear(i.clashes)
}
