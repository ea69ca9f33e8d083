package origin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/internal/component"
)

// BootstrapName is the name of the component.
const BootstrapName = "bootstrap-source"

const (
	// probeEvery is how often a server is looked for that was never reached.
	probeEvery   = time.Second
	probeTimeout = 5 * time.Second
	// firstProbe is how long a request waits to learn whether there is one.
	firstProbe = 3 * time.Second
)

// BootstrapOptions make a Bootstrap.
type BootstrapOptions struct {
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

// Bootstrap adds bootstrap pods to the answers, and answers from the checkpoint
// until there is a server. One is shared by all clients of the home partition.
type Bootstrap struct {
	log    *logrus.Entry
	probe  func(ctx context.Context) error
	online chan struct{} // closed when a server was reached
	probed chan struct{} // closed when it was looked for once

	checkpoint *checkpoint
	pods       *localPods
}

// NewBootstrap reads the checkpoint. Damage in it is logged.
func NewBootstrap(o BootstrapOptions) (*Bootstrap, error) {
	if o.Log == nil {
		o.Log = logrus.WithField("component", BootstrapName)
	}
	c, err := openCheckpoint(o.Dir, o.Fresh, o.Log)
	if err != nil {
		return nil, err
	}
	return &Bootstrap{
		log: o.Log, probe: o.Probe, online: make(chan struct{}), probed: make(chan struct{}),
		checkpoint: c, pods: newLocalPods(o.Store, c, o.Log),
	}, nil
}

// Before is the way to the home partition with the bootstrap pods: their versions are compared
// with those of its servers.
func (b *Bootstrap) Before(home http.RoundTripper) http.RoundTripper { return &withBootstrap{b, home} }

// withBootstrap is the transport of the home partition.
type withBootstrap struct {
	pods *Bootstrap
	home http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *withBootstrap) RoundTrip(request *http.Request) (*http.Response, error) {
	r := parse(request)
	a, err := w.pods.answer(r)
	if err != nil {
		return nil, err
	}
	if a != nil {
		return a.response(r)
	}
	resp, err := w.home.RoundTrip(r.HTTP)
	if err != nil {
		switch a, answerErr := w.pods.detached(r); {
		case answerErr != nil:
			return nil, answerErr
		case a != nil:
			return a.response(r)
		}
		return nil, err
	}
	f := w.pods.follow(r)
	if resp.StatusCode != http.StatusOK || f == nil {
		return resp, nil
	}
	if err := changeAnswer(r, resp, f, w.pods.watch(r, f)); err != nil { // lists do not subscribe it
		_ = resp.Body.Close() // the error that counts is the other one
		return nil, fmt.Errorf("following %s of the home partition: %w", r.Resource.Resource, err)
	}
	return resp, nil
}

// CloseIdleConnections drops connections that may hang.
func (w *withBootstrap) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(w.home) }

// Online is closed once a server was reached.
func (b *Bootstrap) Online() <-chan struct{} { return b.online }

// Component looks for the server and writes the checkpoint. It is ready at
// once.
func (b *Bootstrap) Component() component.Component {
	return component.Component{Name: BootstrapName, Run: b.run}
}

// Live returns a pod of this node as a server last showed it, nil if none did.
// It must not be changed.
func (b *Bootstrap) Live(key types.NamespacedName) *corev1.Pod { return b.checkpoint.pod(key) }

func (b *Bootstrap) run(ctx context.Context, ready func()) error {
	ready()
	probing := make(chan struct{})
	go func() {
		defer close(probing)
		b.awaitServer(ctx)
	}()
	defer func() { <-probing }()
	b.checkpoint.run(ctx)
	return nil
}

// awaitServer probes until a server was reached.
func (b *Bootstrap) awaitServer(ctx context.Context) {
	first := true
	for !b.isOnline() {
		probeCtx, cancel := context.WithTimeout(ctx, probeTimeout)
		err := b.probe(probeCtx)
		cancel()
		if err == nil {
			b.log.Info("the API server answers; pods come from there now, with the bootstrap pods added")
			close(b.online)
		}
		if first {
			first = false
			if err != nil && ctx.Err() == nil {
				b.log.WithError(err).
					Info("no API server yet: the kubelet works with the bootstrap pods and with what " +
						"a server said last")
			}
			closeOnce(b.probed)
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

func (b *Bootstrap) isOnline() bool {
	select {
	case <-b.online:
		return true
	default:
		return false
	}
}

// awaitProbe waits until it is known whether there is a server, but not long.
func (b *Bootstrap) awaitProbe(ctx context.Context) {
	select {
	case <-b.probed:
	case <-ctx.Done():
	case <-time.After(firstProbe):
	}
}

// collection is the resource that r lists or watches on the whole node, nil if
// the checkpoint does not have it. Of all nodes, for which the pod network asks, the
// checkpoint has the one that the kubelet makes.
func (b *Bootstrap) collection(r *Request) *resource {
	if !r.Collects() || r.Namespace != "" || r.Resource == nodeResource && r.Options.FieldSelector == "" {
		return nil
	}
	return b.checkpoint.resources[r.Resource]
}

// answer is the answer of this node to r, nil if a server has to give it. It may
// change r.
func (b *Bootstrap) answer(r *Request) (*answer, error) {
	if res := b.collection(r); res != nil {
		return b.answerCollection(r, res)
	}
	switch {
	case r.Verb == VerbCreate && r.Resource == nodeResource && r.Name == "":
		return nil, b.register(r)
	case r.Verb == VerbGet && r.Resource == classResource && r.Namespace == "" && r.Subresource == "" && !b.isOnline():
		// Pods with a class could not be listed without it.
		if class := b.checkpoint.class(r.Name); class != nil {
			return found(class), nil
		}
	case r.Resource == podsResource && r.Namespace != "" && r.Name != "":
		return b.pods.answer(r)
	}
	return nil, nil
}

func (b *Bootstrap) answerCollection(r *Request, res *resource) (*answer, error) {
	if r.OptionsErr != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest,
			fmt.Sprintf("the query %q cannot be read: %v", r.HTTP.URL.RawQuery, r.OptionsErr)), nil
	}
	if r.Verb == VerbWatch && r.Options.SendInitialEvents != nil {
		// A client lists and watches then, in two requests.
		return refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"sendInitialEvents: a node with bootstrap pods lists them"), nil
	}
	b.awaitProbe(r.HTTP.Context())
	switch {
	case !b.isOnline() && r.Verb == VerbWatch:
		l := b.watch(r, b.followed(r, res))
		l.offline, l.again = b.online, b.checkpoint.lacksNode(res, r.Options.ResourceVersion)
		return &answer{code: http.StatusOK, watch: l}, nil
	case !b.isOnline():
		return b.list(res, offlineVersion)
	case r.Verb == VerbList:
		listWhole(r)
	}
	return nil, nil
}

// listWhole takes out the limit: a page of the pods cannot show that one is
// missing.
func listWhole(r *Request) {
	query := r.HTTP.URL.Query()
	if !query.Has("limit") {
		return
	}
	query.Del("limit")
	r.HTTP = r.HTTP.Clone(r.HTTP.Context())
	r.HTTP.URL.RawQuery = query.Encode()
}

// detached is the answer to r, which did not reach the server: the state that
// the kubelet has already. So it sees bootstrap pods that are created or deleted
// meanwhile. Nothing is lost by it, as the kubelet goes on from that version when
// the server is back. It is nil if r has to fail.
func (b *Bootstrap) detached(r *Request) (*answer, error) {
	res := b.collection(r)
	if res == nil || r.Resource != podsResource || r.HTTP.Context().Err() != nil {
		return nil, nil
	}
	version := b.checkpoint.followedTo(res)
	switch {
	case version == "":
		return nil, nil
	case r.Verb == VerbList:
		return b.list(res, version)
	}
	l := b.watch(r, b.followed(r, res))
	l.lasts = min(l.lasts, detachedWatch)
	return &answer{code: http.StatusOK, watch: l}, nil
}
