package route

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
	"github.com/a4s-io/a4s/agent/origin/merge"
	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component.
const Name = "partitions"

// Options make a Router.
type Options struct {
	// Partitions are the tenant partitions.
	Partitions origin.Partitions
	// ResourcePartition sends requests to the partition that has the node, unless
	// that is one of Partitions. Nil means that it is the home partition.
	ResourcePartition http.RoundTripper
	// NodeName is the name of the Node object.
	NodeName string
	// Dir is the directory of the checkpoint; empty keeps none.
	Dir string
	// Fresh says that no partition ever gave this node a pod.
	Fresh bool
	// Limit is how long a request to a partition may last that is no watch, zero is
	// three seconds.
	Limit time.Duration
	// ProbeEvery is how often a partition is looked for that did not answer, zero is
	// every ten seconds.
	ProbeEvery time.Duration
	// Log is optional.
	Log *logrus.Entry
}

// Router is the uplink of a node of several partitions.
type Router struct {
	o           Options
	collections *merge.Collections
	ctx         context.Context // of the probes
	stop        context.CancelFunc
	node        *partition // the resource partition, nil if it is home
	nodes       nodeLists
	self        ownNode

	table atomic.Pointer[table] // nil until the partitions are known

	applied     chan struct{} // closed when the first table is there
	appliedOnce sync.Once

	mu sync.Mutex // guards the watches that a second partition ends
	// watches are those that one partition answers alone.
	watches map[*context.CancelFunc]struct{}
}

// New returns a Router. Its component has to run, or it knows no partition.
func New(o Options) (*Router, error) {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	if o.Limit == 0 {
		o.Limit = 3 * time.Second
	}
	if o.ProbeEvery == 0 {
		o.ProbeEvery = 10 * time.Second
	}
	c, err := merge.New(merge.Options{NodeName: o.NodeName, Dir: o.Dir, Fresh: o.Fresh, Patience: o.Limit, Log: o.Log})
	if err != nil {
		return nil, err
	}
	r := &Router{o: o, collections: c, applied: make(chan struct{}), watches: map[*context.CancelFunc]struct{}{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	if o.ResourcePartition != nil {
		r.node = r.newPartition(origin.Partition{Name: "of the node", Transport: o.ResourcePartition})
	}
	return r, nil
}

// Component follows the partitions. It is ready when it has looked for them once.
func (r *Router) Component() component.Component { return component.Component{Name: Name, Run: r.run} }

func (r *Router) run(ctx context.Context, ready func()) error {
	defer r.close()
	for {
		all, changed := r.o.Partitions.Current()
		var err error
		if len(all) > 0 {
			if err = r.apply(all); err != nil {
				r.o.Log.WithError(err).Error("not all that is said of the tenant partitions can be taken over")
			}
			r.appliedOnce.Do(func() { close(r.applied) })
		}
		ready()
		ready = func() {}
		if !r.retry(ctx, err, changed) {
			return nil
		}
	}
}

// retry does again what failed on disk until there is another list of partitions. It is
// false at the end of ctx.
func (r *Router) retry(ctx context.Context, err error, changed <-chan struct{}) bool {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var again <-chan time.Time
		if err != nil {
			again = time.After(pause)
		}
		select {
		case <-changed:
			return true
		case <-ctx.Done():
			return false
		case <-again:
			err = r.collections.Retry()
		}
	}
}

// Pauses before what failed on disk is done again.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Await waits until the router knows partitions, or ctx ends.
func (r *Router) Await(ctx context.Context) {
	select {
	case <-r.applied:
	case <-ctx.Done():
	}
}

func (r *Router) close() {
	r.stop()
	if t := r.table.Load(); t != nil {
		for _, p := range t.all {
			p.close()
		}
	}
	if r.node != nil {
		r.node.close()
	}
	r.collections.Close()
}

// apply takes over a list of partitions.
func (r *Router) apply(all []origin.Partition) error {
	old := r.table.Load()
	t, err := r.newTable(old, all)
	if err != nil {
		return err
	}
	switch {
	case t.alone && old == nil:
		err = r.collections.Alone(t.home.Partition)
	case t.alone:
		return nil
	case old == nil:
		err = r.collections.Begin(t.partitions())
	default:
		err = r.replace(old, t)
		err = errors.Join(err, r.join(old, t))
	}
	r.table.Store(t)
	if old == nil {
		return err
	}
	if old.alone {
		r.endWatches()
	}
	for _, p := range old.all {
		now := t.byName[p.Name]
		if now != nil && now.guard != p.guard {
			p.close() // another one has its name
		}
		if now == nil {
			err = errors.Join(err, r.collections.Leave(p.Name))
			p.close()
			r.o.Log.Infof("partition %s has left; its pods end", p.Name)
		}
	}
	return err
}

// replace takes away the partitions of old whose names others have in t, before those join.
func (r *Router) replace(old, t *table) error {
	var err error
	for _, p := range old.all {
		now := t.byName[p.Name]
		switch {
		case now == nil || old.alone:
		case now.guard != p.guard:
			r.o.Log.Infof("partition %s has left, and another one has its name; its pods end", p.Name)
			err = errors.Join(err, r.collections.Leave(p.Name))
		case now != p:
			err = errors.Join(err, r.collections.Identify(now.Partition))
		}
	}
	return err
}

// join adds the partitions that are in t and were not in old.
func (r *Router) join(old, t *table) error {
	var err error
	if old.alone {
		err = r.collections.Begin([]origin.Partition{old.home.Partition})
	}
	for _, p := range t.all {
		if was := old.byName[p.Name]; was == nil || was.guard != p.guard {
			r.o.Log.Infof("partition %s has joined", p.Name)
			err = errors.Join(err, r.collections.Join(p.Partition, true))
		}
	}
	return err
}

// CloseIdleConnections implements origin.Uplink.
func (r *Router) CloseIdleConnections() {
	if r.node != nil {
		r.node.CloseIdleConnections()
	}
	if t := r.table.Load(); t != nil {
		for _, p := range t.all {
			p.CloseIdleConnections()
		}
	}
}

// Send implements origin.Uplink.
func (r *Router) Send(q *origin.Request) (*http.Response, error) { return r.send(q, nil, &r.nodes) }

// Through is the router for clients that have a way of their own to the partition of the node. While
// there is one partition, and for the node itself, they use that.
func (r *Router) Through(own http.RoundTripper) origin.Uplink { return through{r, own, &nodeLists{}} }

type through struct {
	*Router
	own   http.RoundTripper
	nodes *nodeLists
}

// Send implements origin.Uplink.
func (u through) Send(q *origin.Request) (*http.Response, error) { return u.send(q, u.own, u.nodes) }

// CloseIdleConnections implements origin.Uplink.
func (u through) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(u.own) }

// send sends a request. own is the client's way to the partition of the node, nil if it has none.
func (r *Router) send(q *origin.Request, own http.RoundTripper, nodes *nodeLists) (*http.Response, error) {
	t := r.table.Load()
	if t != nil && t.alone {
		return r.sendAlone(t, q, own, nodes)
	}
	switch {
	case q.HTTP.URL.RawPath != "":
		return refuse(q, http.StatusBadRequest, metav1.StatusReasonBadRequest,
			"the path has characters that no name has")
	case q.Resource.Resource == "watch":
		return refuse(q, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			"watch by ?watch=true; a path of its own is of the past")
	case t == nil && r.node != nil && ofNode(q) && !asksForNodes(q):
		return orElse(own, r.node).RoundTrip(q.HTTP)
	case t == nil:
		return unavailable(q, "the tenant partitions of the cluster are not known yet")
	case asksForNodes(q):
		return t.allNodes(q, own, nodes)
	case ofNode(q):
		return t.aboutNode(q, own)
	case q.Namespace != "":
		return t.namespaced(q)
	}
	return t.clusterScoped(q)
}

// nodeResources are those that the resource partition has, and that the kubelet asks
// for without a namespace.
var nodeResources = []string{
	"/nodes", "storage.k8s.io/csinodes", "resource.k8s.io/resourceslices",
	"certificates.k8s.io/certificatesigningrequests", "authorization.k8s.io/selfsubjectaccessreviews",
	"authorization.k8s.io/selfsubjectrulesreviews", "authentication.k8s.io/selfsubjectreviews",
}

// leaseNamespace has the heartbeats of the nodes.
const leaseNamespace = "kube-node-lease"

// ofNode reports whether a request is about the node, or about the API itself.
func ofNode(q *origin.Request) bool {
	if q.Namespace != "" {
		return q.Namespace == leaseNamespace && q.Resource.Group == "coordination.k8s.io" &&
			q.Resource.Resource == "leases"
	}
	return q.Resource.Resource == "" || slices.Contains(nodeResources, q.Resource.Group+"/"+q.Resource.Resource)
}

func refuse(q *origin.Request, code int32, reason metav1.StatusReason, message string) (*http.Response, error) {
	return codec.Refuse(q.HTTP, q.Accept, code, reason, message)
}

func unavailable(q *origin.Request, message string) (*http.Response, error) {
	return refuse(q, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, message)
}

// streams reports whether an answer may last without an end, so that it says nothing
// about the partition.
func streams(q *origin.Request) bool {
	first, _, _ := strings.Cut(q.Subresource, "/")
	switch first {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	return false
}

// do sends a request to a partition. A partition that cannot be reached is an answer:
// the kubelet repeats a broken connection for two minutes before it says the next
// event, of whatever partition.
func (p *partition) do(q *origin.Request) (*http.Response, error) {
	if q.Verb == origin.VerbWatch || streams(q) {
		return p.RoundTrip(q.HTTP)
	}
	resp, err := p.guard.do(q.HTTP)
	if err != nil && q.HTTP.Context().Err() == nil {
		return unavailable(q, err.Error())
	}
	return resp, err
}

// sendAlone sends a request to the only partition. A watch of a collection that is
// merged when there are more ends then.
func (r *Router) sendAlone(
	t *table, q *origin.Request, own http.RoundTripper, nodes *nodeLists,
) (*http.Response, error) {
	rt := orElse(own, t.home)
	if q.Verb != origin.VerbWatch || !r.collections.Has(q) {
		return rt.RoundTrip(q.HTTP)
	}
	ctx, cancel := context.WithCancel(q.HTTP.Context())
	r.mu.Lock()
	if r.table.Load() != t {
		r.mu.Unlock()
		cancel()
		return r.send(q, own, nodes)
	}
	r.watches[&cancel] = struct{}{}
	r.mu.Unlock()
	end := func() {
		r.mu.Lock()
		delete(r.watches, &cancel)
		r.mu.Unlock()
		cancel()
	}
	resp, err := rt.RoundTrip(q.HTTP.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &aloneBody{ReadCloser: resp.Body, end: end}
	return resp, nil
}

func orElse(rt, other http.RoundTripper) http.RoundTripper {
	if rt != nil {
		return rt
	}
	return other
}

// endWatches ends the watches that one partition answered alone. Their clients list
// again, for the versions that they have are of that partition.
func (r *Router) endWatches() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.watches {
		(*cancel)()
	}
}
