package source

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component.
const Name = "bootstrap-source"

const (
	// probeEvery is how often a server is looked for that was never reached.
	probeEvery   = time.Second
	probeTimeout = 5 * time.Second
	// firstProbe is how long a request waits to learn whether there is one.
	firstProbe = 3 * time.Second
)

// Options make a Source.
type Options struct {
	// NodeName is the name of the Node object.
	NodeName string
	// Store has the bootstrap pods.
	Store *store.Store
	// Dir is the directory of the checkpoint.
	Dir string
	// Fresh says that no server ever gave this node a pod, so that a missing
	// checkpoint means that there is none.
	Fresh bool
	// Probe returns nil when the server lists the pods of this node.
	Probe func(ctx context.Context) error
	// Log is optional.
	Log *logrus.Entry
}

// Source adds bootstrap pods to what the kubelet is told.
type Source struct {
	Options

	online chan struct{} // closed when a server was reached
	probed chan struct{} // closed when it was looked for once
	wake   chan struct{} // something has to be written

	mu        sync.Mutex // guards what the resources hold; no call of the store under it
	resources map[string]*resource
	hidden    map[types.UID]bool

	streamsMu sync.Mutex // no call of the store under it
	streams   map[*stream]struct{}
	removed   bool // a pod that the last list showed is gone

	// node is what the kubelet asked to be made before there was a server, and
	// registering is closed when it did for the first time.
	node        *corev1.Node
	registering chan struct{}
}

// New reads the checkpoint. What is damaged in it is logged.
func New(o Options) (*Source, error) {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	s := &Source{
		Options: o, online: make(chan struct{}), probed: make(chan struct{}), wake: make(chan struct{}, 1), registering: make(chan struct{}),
		resources: newResources(), hidden: map[types.UID]bool{}, streams: map[*stream]struct{}{},
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	o.Store.OnChange(s.changed)
	return s, nil
}

// Online is closed once a server was reached.
func (s *Source) Online() <-chan struct{} { return s.online }

// Component looks for the server and writes the checkpoint. It is ready at
// once.
func (s *Source) Component() component.Component {
	return component.Component{Name: Name, Run: s.run}
}

func (s *Source) run(ctx context.Context, ready func()) error {
	ready()
	probing := make(chan struct{})
	go func() {
		defer close(probing)
		s.probe(ctx)
	}()
	defer func() { <-probing }()
	s.writeCheckpoint(ctx)
	return nil
}

func (s *Source) probe(ctx context.Context) {
	first := true
	for !s.isOnline() {
		probeCtx, cancel := context.WithTimeout(ctx, probeTimeout)
		err := s.Probe(probeCtx)
		cancel()
		if err == nil {
			s.Log.Info("the API server answers; pods come from there now, with the bootstrap pods added")
			close(s.online)
		}
		if first {
			first = false
			if err != nil && ctx.Err() == nil {
				s.Log.WithError(err).Info("no API server yet: the kubelet works with the bootstrap pods and with what a server said last")
			}
			closeOnce(s.probed)
		}
		if err == nil {
			return
		}
		select {
		case <-time.After(probeEvery + rand.N(probeEvery/4)):
		case <-ctx.Done():
			return
		}
	}
}

// closeOnce closes c unless an earlier run of the component did.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (s *Source) isOnline() bool {
	select {
	case <-s.online:
		return true
	default:
		return false
	}
}

// awaitProbe waits until it is known whether there is a server, but not long.
func (s *Source) awaitProbe(ctx context.Context) {
	select {
	case <-s.probed:
	case <-ctx.Done():
	case <-time.After(firstProbe):
	}
}

// Wrap returns the transport for a client of the kubelet.
func (s *Source) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{source: s, next: next}
}

type transport struct {
	source *Source
	next   http.RoundTripper
}

// WrappedRoundTripper lets closing idle connections find the transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		if res := t.source.resources[r.URL.Path]; res != nil {
			return t.source.collection(r, res, t.next)
		}
	}
	if r.Method == http.MethodPost && r.URL.Path == nodesPath {
		r, err := t.source.register(r)
		if err != nil {
			return nil, err
		}
		return t.next.RoundTrip(r)
	}
	if resp, err := t.source.runtimeClass(r); resp != nil || err != nil {
		return resp, err
	}
	if key, sub, ok := podPath(r.URL.Path); ok {
		if e, ok := t.source.Store.ByKey(key); ok && e.State == store.Local {
			if resp, err := t.source.single(r, e, sub); resp != nil || err != nil {
				return resp, err
			}
		}
	}
	return t.next.RoundTrip(r)
}

// podPath reads the path of one pod or of a part of it.
func podPath(path string) (key types.NamespacedName, sub string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/api/v1/namespaces/")
	if !ok {
		return key, "", false
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 3 || len(parts) > 4 || parts[1] != "pods" || parts[2] == "" {
		return key, "", false
	}
	if len(parts) == 4 {
		sub = parts[3]
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[2]}, sub, true
}

// Live returns a pod of this node as a server last showed it, nil if none did.
// It must not be changed.
func (s *Source) Live(key types.NamespacedName) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, _ := s.resources[podsPath].items[key].(*corev1.Pod)
	return pod
}
