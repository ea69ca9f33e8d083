package mux

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/workload"
)

// Name is the name of the component.
const Name = "runtimes"

// Options configure the mux.
type Options struct {
	// Socket is the path of the unix socket that the kubelet uses.
	Socket string
	// AdminSocket is the path of the socket that adds and removes runtimes;
	// empty means none.
	AdminSocket string
	// File keeps the runtimes that were added there; empty means nowhere.
	File string
	// MemoryDir keeps what secondary runtimes last said to run, so that
	// one that is down when a4s restarts loses no pod; empty means nowhere.
	MemoryDir string
	// Runtimes are those of the settings: see noderuntime.OfNode. No
	// endpoint may be Builtin any more.
	Runtimes []Runtime
	// Grace is for how long a failure of the primary runtime is kept from
	// the kubelet.
	Grace time.Duration
	// KubeletDir is the kubelet's root directory.
	KubeletDir string
	// Carried is the name of an image that is never pulled, because a4s carries it: that of sandboxes;
	// empty for none.
	Carried string
	// Log may be nil.
	Log *logrus.Entry
}

// Mux is the runtimes of a node behind one endpoint.
type Mux struct {
	o      Options
	router router

	services atomic.Pointer[[]*service] // never changed in place

	mu     sync.Mutex // of changes of services
	added  []Runtime  // what File holds
	runCtx context.Context
	joined chan struct{} // closed and replaced when services changes

	subscribers subscribers
}

// New returns the mux over the runtimes of the settings and those that were
// added earlier. Its component opens the connections to them.
func New(o Options) (*Mux, error) {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	m := &Mux{o: o, joined: make(chan struct{})}
	m.router.log, m.router.grace = o.Log, o.Grace
	m.router.native.kubeletDir, m.router.carried = o.KubeletDir, o.Carried
	m.router.all, m.router.snapshot = m.all, m.snapshot
	var all []*service
	for _, r := range o.Runtimes {
		s, err := m.newService(r)
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		s.fromSettings = true
		all = append(all, s)
	}
	if !slices.ContainsFunc(o.Runtimes, func(r Runtime) bool { return r.Primary }) {
		return nil, errors.Join(errors.New("no runtime of the node is primary"), closeAll(all))
	}
	stored, err := load(o.File)
	if err != nil {
		return nil, errors.Join(err, closeAll(all))
	}
	for _, r := range stored {
		m.added = append(m.added, r)
		if err := r.Fits(runtimesOf(all)); err != nil {
			o.Log.WithError(err).Errorf("the runtime %q of %s is left out: the settings of this node win",
				r.Name, o.File)
			continue
		}
		s, err := m.newService(r)
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, s)
	}
	m.services.Store(&all)
	return m, nil
}

// Component returns what serves the mux. It is ready when its socket is open,
// whether or not a runtime answers yet.
func (m *Mux) Component() component.Component {
	return component.Component{Name: Name, Run: m.run}
}

// Endpoint is what the kubelet is to use for the runtime.
func (m *Mux) Endpoint() string { return "unix://" + m.o.Socket }

// SetClusterDomain tells the DNS domain of the cluster, by which the kubelet
// names pods. Before, no name of a pod is made native.
func (m *Mux) SetClusterDomain(domain string) { m.router.native.setDomain(domain) }

// States returns what is known of each runtime, in the order in which they
// were registered.
func (m *Mux) States() []State {
	all := m.all()
	states := make([]State, 0, len(all))
	for _, s := range all {
		states = append(states, s.current())
	}
	return states
}

// Subscribe returns a channel that has a value after States changed, and a
// function that ends the subscription. Changes that nobody waited for count
// as one.
func (m *Mux) Subscribe() (changed <-chan struct{}, end func()) { return m.subscribers.add() }

func (m *Mux) all() []*service { return *m.services.Load() }

// primary returns the runtime that stands for the node; there always is one.
func primary(all []*service) *service {
	return all[slices.IndexFunc(all, func(s *service) bool { return s.Primary })]
}

// byType returns the default runtime of a type, nil if there is none.
func byType(all []*service, t workload.Type) *service {
	if i := slices.IndexFunc(all, func(s *service) bool { return s.Type == t }); i >= 0 {
		return all[i]
	}
	return nil
}

func byName(all []*service, name string) *service {
	if i := slices.IndexFunc(all, func(s *service) bool { return s.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func runtimesOf(all []*service) []Runtime {
	out := make([]Runtime, 0, len(all))
	for _, s := range all {
		out = append(out, s.Runtime)
	}
	return out
}

func closeAll(all []*service) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// run serves until ctx ends.
func (m *Mux) run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.mu.Lock()
	m.runCtx = ctx
	for _, s := range m.all() {
		s.start(ctx)
	}
	m.mu.Unlock()
	defer func() {
		cancel()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.runCtx = nil
		for _, s := range m.all() {
			s.stop()
		}
	}()

	failed := make(chan error, 2)
	stopCRI, err := m.serveCRI(ctx, failed)
	if err != nil {
		return err
	}
	defer stopCRI()
	if m.o.AdminSocket != "" {
		stopAdmin, err := m.serveAdmin(ctx, failed)
		if err != nil {
			return err
		}
		defer stopAdmin()
	}
	ready()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serving the container runtimes: %w", err)
	}
}

// subscribers are those who want to hear of changes.
type subscribers struct {
	mu  sync.Mutex
	all map[chan struct{}]struct{}
}

func (s *subscribers) add() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[chan struct{}]struct{}{}
	}
	s.all[c] = struct{}{}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, c)
	}
}

func (s *subscribers) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		select {
		case c <- struct{}{}:
		default: // it has yet to look at an earlier change
		}
	}
}

// memoryFile is where what a runtime runs is kept.
func (m *Mux) memoryFile(name string) string {
	if m.o.MemoryDir == "" {
		return ""
	}
	return filepath.Join(m.o.MemoryDir, strings.ReplaceAll(name, "/", "_")+".json")
}
