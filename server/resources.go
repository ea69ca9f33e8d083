package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/server/addons/deploy"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/datastore/restored"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/checks"
	"github.com/a4s-io/a4s/server/partition/kubelets"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/partition/nodeidentity"
	"github.com/a4s-io/a4s/server/partition/nodewrites"
	"github.com/a4s-io/a4s/server/partition/notready"
	"github.com/a4s-io/a4s/server/partition/overview"
	"github.com/a4s-io/a4s/server/partition/partial"
	"github.com/a4s-io/a4s/server/partition/shares"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// resources is what this server has to do with the nodes of all partitions. Nothing of it
// works until the directory shows a second partition.
type resources struct {
	of     *partition
	parts  *partitionSet
	files  *files
	health *health.Registry // nil without a monitor
	life   func() time.Duration
	log    *logrus.Entry
	// kubelet is the API server at kubelets.
	kubelet rest.TLSClientConfig

	overview *overview.Overview
	lives    *nodelife.Records
	guard    *nodeidentity.Guard
	importer *nodecopies.Importer
	// sharesUnknown says that this server does not know what is on its nodes: the partition was
	// restored from a snapshot, or had nobody to share with so far.
	sharesUnknown atomic.Bool
	// podsUnknown says that this server was restored, and nodes may run pods that it does not
	// know.
	podsUnknown atomic.Bool

	mu sync.Mutex
	// clients are by the name of the partition.
	clients map[string]*resourceClients
}

// resourceClients are of one resource partition.
type resourceClients struct {
	identity    string
	nodes       kubernetes.Interface
	allocations *allocations.Client
	// failed is when a request failed last that was not answered, in nanoseconds.
	failed atomic.Int64
}

// noting takes note of requests that are not answered.
func (c *resourceClients) noting(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(q *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(q)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.failed.Store(time.Now().UnixNano())
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// newResources makes them when the partitions of a server are known.
func newResources(s *Server) (*resources, error) {
	r := &resources{of: s.partition, parts: s.parts, files: s.files, life: s.renewal.life,
		health: s.health.registry(), kubelet: s.kubeletClient(), log: logrus.WithField("component", "partition-nodes"),
		clients: map[string]*resourceClients{}}
	record, err := restored.Read(r.files.dir)
	if err != nil {
		return nil, err
	}
	r.sharesUnknown.Store(r.of.has(partitionapi.RoleResource) &&
		(record.Shares || r.of.name() == "" && !record.Shared))
	r.podsUnknown.Store(r.of.has(partitionapi.RoleTenant) && record.Shares)
	r.overview = overview.New(overview.Options{Partitions: r.parts.Partitions, Placements: r.parts.Placements,
		Ping: r.parts.peers.Ping, Nodes: r.countNodes})
	o := nodeidentity.Options{Self: r.of.self(), Several: r.mayBeSeveral, Alive: s.lives.Alive,
		Authenticated: authn.Authenticated}
	r.lives = s.lives
	if !r.of.has(partitionapi.RoleTenant) {
		o.Ask = r.ask
	}
	r.guard = nodeidentity.New(o)
	s.lives.OnChange(r.guard.Look)
	if !r.of.has(partitionapi.RoleTenant) {
		return r, nil
	}
	own := r.files.restConfig(r.files.pki.Partition)
	own.QPS = -1
	client, err := nodesClient(own)
	if err != nil {
		return nil, err
	}
	r.importer = nodecopies.New(nodecopies.Options{Client: client, Sources: r.sources, Left: r.left,
		Health: r.health, Log: logrus.WithField("component", nodecopies.Name)})
	return r, nil
}

// watch has a monitor look at the partitions, and at what this one knows of their nodes.
func (r *resources) watch(m *health.Monitor) {
	if m == nil {
		return
	}
	m.Add("partitions", checks.Options{Self: r.of.self(), Partitions: r.parts.Partitions, Ping: r.overview.Ping,
		Version: r.version, Own: version.Kubernetes}.Check)
	if r.importer != nil {
		m.Add("copies of nodes", r.importer.Check)
	}
}

// version is the version of Kubernetes of another partition.
func (r *resources) version(ctx context.Context, partition string) (string, error) {
	p := r.parts.Partition(partition)
	if p == nil {
		return "", fmt.Errorf("there is no partition %s any more", partition)
	}
	c := r.client(partition, p.Spec.Identity)
	if c == nil {
		return "", fmt.Errorf("there is no client of partition %s", partition)
	}
	data, err := c.nodes.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return "", err
	}
	var info apiversion.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return "", fmt.Errorf("reading the version of partition %s: %w", partition, err)
	}
	return info.GitVersion, nil
}

// nodesClient is a client of what there is one of for each node.
func nodesClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of nodes: %w", err)
	}
	return client, nil
}

// mayBeSeveral reports whether the cluster has several partitions, or may have: a server of
// home that starts does not know it at once, and lets no node in that it does not know.
func (r *resources) mayBeSeveral() bool { return !r.parts.Settled() || r.parts.Several() }

// manifests are what the manifests that this server carries are filled in with.
func (r *resources) manifests(dns string) deploy.Values {
	return deploy.Values{ClusterDNS: dns, NodeImporter: r.importerName()}
}

// importerName is the user that writes copies of nodes.
func (r *resources) importerName() string { return partitionapi.UserPrefix + r.of.self() }

// behind sends what users change of copies to where the nodes are, and tells people of lists that
// other partitions have more.
func (r *resources) behind(next http.Handler) http.Handler {
	next = partial.Handler(next, r.of.self(), r.parts.Several)
	if !r.of.has(partitionapi.RoleTenant) {
		return next
	}
	return nodewrites.Handler(next, nodewrites.Options{Self: r.of.self(), Importer: r.importerName(),
		Elsewhere: r.guard.Elsewhere, Forward: r.parts.Forward})
}

// start starts what there is to do once there is a second partition.
func (r *resources) start(
	ctx context.Context, group *component.Group, o controllers.Options, leader *election.Election,
) error {
	if err := r.startSigner(ctx, group, leader); err != nil {
		return err
	}
	if err := r.startSharing(ctx, group); err != nil {
		return err
	}
	group.Start(ctx, running("partition-nodes", func(ctx context.Context) error {
		if !r.parts.Await(ctx, func() bool { return r.parts.Settled() && r.parts.Several() }) {
			return nil
		}
		if err := r.begin(ctx, group, o, leader); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}))
	return nil
}

// startSigner starts what signs the certificates of kubelets in place of upstream.
func (r *resources) startSigner(ctx context.Context, group *component.Group, leader *election.Election) error {
	ca, err := pki.LoadCA(r.files.pki.ClientCA)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(r.files.restConfig(r.files.pki.Supervisor))
	if err != nil {
		return fmt.Errorf("making the client of the signer: %w", err)
	}
	group.Start(ctx, leader.Only(nodeidentity.Signer(nodeidentity.SignerOptions{
		Partition: r.of.self(), Client: client, CA: ca, Life: r.life(), Lives: r.lives, Log: r.log,
	})))
	return nil
}

// startSharing finds out what is on the nodes: after a restore what all partitions have there,
// and what home has when there is a second partition, before that can place anything.
func (r *resources) startSharing(ctx context.Context, group *component.Group) error {
	if !r.sharesUnknown.Load() {
		return nil
	}
	supervisor := r.files.restConfig(r.files.pki.Supervisor)
	supervisor.QPS = -1
	nodes, err := nodesClient(supervisor)
	if err != nil {
		return err
	}
	client, err := allocations.NewClient(supervisor, nil)
	if err != nil {
		return err
	}
	group.Start(ctx, shares.Restored(shares.RestoredOptions{Nodes: nodes, Client: client, Log: r.log,
		Tenants: r.sharers,
		Done: func() error {
			if err := restored.SharesKnown(r.files.dir, true); err != nil {
				return err
			}
			r.sharesUnknown.Store(false)
			return nil
		}}))
	return nil
}

// sharers are the partitions that may have pods on the nodes of this one when it begins to share
// them: all tenant partitions after a restore, as home says now, and else only home. It waits
// until there is another partition.
func (r *resources) sharers(ctx context.Context) ([]string, error) {
	if !r.parts.Await(ctx, r.parts.Synced) {
		return nil, ctx.Err()
	}
	record, err := restored.Read(r.files.dir)
	if err != nil {
		return nil, err
	}
	if !r.parts.Several() {
		// Those that come later are new ones, or registered again.
		if err := restored.SharesKnown(r.files.dir, false); err != nil {
			return nil, err
		}
		if !r.parts.Await(ctx, r.parts.Several) {
			return nil, ctx.Err()
		}
		record.Shares = false
	}
	var out []string
	for _, p := range r.parts.Partitions() {
		own := p.Name == r.of.self()
		if p.Has(partitionapi.RoleTenant) && (record.Shares || own) && !(own && r.of.cfg.DisableScheduler) {
			out = append(out, p.Name) // without its scheduler it would never say anything
		}
	}
	return out, nil
}

// begin starts all of it, or nothing.
func (r *resources) begin(
	ctx context.Context, group *component.Group, o controllers.Options, leader *election.Election,
) error {
	supervisor := r.files.restConfig(r.files.pki.Supervisor)
	supervisor.QPS = -1
	var start []component.Component
	if r.of.has(partitionapi.RoleResource) {
		client, err := allocations.NewClient(supervisor, nil)
		if err != nil {
			return err
		}
		start = append(start, shares.Departed(shares.DepartedOptions{Client: client, Left: r.parts.Left,
			Changes: r.parts.Changes, Log: r.log}))
	}
	if r.importer != nil {
		if err := controllers.Apart(o); err != nil && o.Copies != "" {
			return err
		}
		client, err := nodesClient(supervisor)
		if err != nil {
			return err
		}
		start = append(start, r.importer.Component(), notready.Component(notready.Options{Client: client,
			Silent: r.silent, Reached: r.reached, Log: logrus.WithField("component", notready.Name)}))
	}
	for _, c := range start {
		group.Start(ctx, leader.Only(c))
	}
	return nil
}

// left says that a partition has left the cluster.
func (r *resources) left(ctx context.Context, partition string) (bool, error) {
	_, left, err := r.parts.Left(ctx, partition)
	return left, err
}

// sources are the other resource partitions.
func (r *resources) sources() ([]nodecopies.Source, <-chan struct{}) {
	changes := r.parts.Changes()
	var out []nodecopies.Source
	for _, p := range r.parts.Partitions() {
		if p.Name == r.of.self() || !p.Has(partitionapi.RoleResource) {
			continue
		}
		if c := r.client(p.Name, p.Spec.Identity); c != nil {
			out = append(out, nodecopies.Source{Name: p.Name, Client: c.nodes})
		}
	}
	return out, changes
}

// shared are all resource partitions, whose nodes several schedulers give out.
func (r *resources) shared() ([]shares.ResourcePartition, <-chan struct{}) {
	changes := r.parts.Changes()
	var out []shares.ResourcePartition
	add := func(name, identity string) {
		if c := r.client(name, identity); c != nil {
			out = append(out, shares.ResourcePartition{Name: name, Client: c.allocations})
		}
	}
	if r.of.has(partitionapi.RoleResource) {
		add(r.of.self(), "")
	}
	for _, p := range r.parts.Partitions() {
		if p.Name != r.of.self() && p.Has(partitionapi.RoleResource) {
			add(p.Name, p.Spec.Identity)
		}
	}
	return out, changes
}

// client are the clients of a resource partition, the same ones until it is another one;
// nil if they cannot be made.
func (r *resources) client(name, identity string) *resourceClients {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[name]; c != nil && c.identity == identity {
		return c
	}
	config := r.parts.peers.Config(name)
	if name == r.of.self() {
		config = r.files.restConfig(r.files.pki.Partition)
		config.QPS = -1
	}
	c := &resourceClients{identity: identity}
	c.failed.Store(time.Now().UnixNano()) // it was not heard of so far
	config = rest.CopyConfig(config)
	config.Wrap(c.noting)
	var err error
	if c.nodes, err = nodesClient(config); err == nil {
		c.allocations, err = allocations.NewClient(config, nil)
	}
	if err != nil {
		r.log.WithError(err).Errorf("cannot make the clients of partition %s", name)
		return nil
	}
	r.clients[name] = c
	return c
}

// silent is when a resource partition did not answer last.
func (r *resources) silent(partition string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[partition]; c != nil {
		return time.Unix(0, c.failed.Load())
	}
	return time.Time{}
}

// reached asks the kubelet of a node, and returns an error if it does not answer.
func (r *resources) reached(ctx context.Context, node *corev1.Node) error {
	return kubelets.Answers(ctx, r.kubelet, node)
}

// askTimeout bounds how long home may take to say which partition has a node.
const askTimeout = 2 * time.Second

// ask asks home, which has copies of all nodes, which partition has a node.
func (r *resources) ask(ctx context.Context, node string) string {
	// With the identity that it is known by, or its clients would be made again for each who asks.
	identity := ""
	if home := r.parts.Partition(partitionapi.Home); home != nil {
		identity = home.Spec.Identity
	}
	c := r.client(partitionapi.Home, identity)
	if c == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	n, err := c.nodes.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "" // there is none, or nobody to ask
	}
	if partition, copied := n.Labels[nodecopies.Label]; copied {
		return partition
	}
	return partitionapi.Home
}

// plugins are those of a scheduler that shares nodes with others.
func (r *resources) plugins() []scheduler.Plugin {
	if !r.parts.Several() {
		return nil
	}
	o := shares.Options{Partition: r.of.self(), Partitions: r.shared, Health: r.health,
		Log: logrus.WithField("component", shares.Name)}
	if r.of.has(partitionapi.RoleResource) {
		o.Local = r.of.self()
	}
	if r.podsUnknown.Load() {
		o.Unknown = func() {
			r.podsUnknown.Store(false)
			if r.of.has(partitionapi.RoleResource) {
				return // the record is of the shares of its nodes, too, and goes when these are known
			}
			if err := restored.SharesKnown(r.files.dir, false); err != nil {
				r.log.WithError(err).Warn("after the next start room is given out a minute later")
			}
		}
	}
	return []scheduler.Plugin{shares.Plugin(o)}
}

// sharing runs the scheduler, and anew with its plugin once there is a second partition.
func (r *resources) sharing(c component.Component) component.Component {
	run := c.Run
	c.Run = func(ctx context.Context, ready func()) error {
		if !r.parts.Await(ctx, r.parts.Settled) {
			return nil
		}
		if r.parts.Several() {
			return run(ctx, ready)
		}
		alone, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			if r.parts.Await(alone, r.parts.Several) {
				cancel()
			}
		}()
		if err := run(alone, ready); ctx.Err() != nil || alone.Err() == nil {
			return err
		}
		r.log.Info("The cluster has a second partition: the scheduler shares nodes from now on")
		return run(ctx, ready)
	}
	return c
}

// mayCollect waits until pods may be taken for lost whose nodes are not there: until all
// nodes of all partitions have had their copies.
func (r *resources) mayCollect(ctx context.Context) bool {
	const poll = time.Second
	if !r.parts.Await(ctx, r.parts.Settled) {
		return false
	}
	for r.parts.Several() && r.importer != nil && !r.importer.Complete() {
		if component.Sleep(ctx, poll) != nil {
			return false
		}
	}
	return true
}
