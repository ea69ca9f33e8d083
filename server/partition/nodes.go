package partition

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/datastore/restored"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/checks"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/partition/nodeidentity"
	"github.com/a4s-io/a4s/server/partition/nodewrites"
	"github.com/a4s-io/a4s/server/partition/notready"
	"github.com/a4s-io/a4s/server/partition/overview"
	"github.com/a4s-io/a4s/server/partition/partial"
	"github.com/a4s-io/a4s/server/partition/shares"
)

// Nodes is what this server has to do with the nodes of all partitions. Nothing of it
// works until the directory shows a second partition.
type Nodes struct {
	of     *Own
	parts  *Set
	health *health.Registry // nil without a monitor
	life   func() time.Duration
	log    *logrus.Entry
	// kubelet is the API server at kubelets.
	kubelet rest.TLSClientConfig

	// Overview tells administrators how the partitions are, and Guard judges nodes.
	Overview *overview.Overview
	Guard    *nodeidentity.Guard
	lives    *nodelife.Records
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

// NodesOptions are what Nodes work with.
type NodesOptions struct {
	// Life is how long certificates are good that the server signs.
	Life func() time.Duration
	// Kubelet is the API server at kubelets.
	Kubelet rest.TLSClientConfig
	Lives   *nodelife.Records
	// Authenticated is the user who sent the request of a context, whomever they impersonate;
	// nil if that is not known.
	Authenticated func(context.Context) user.Info
}

// NewNodes makes them when the partitions of a server are known.
func NewNodes(parts *Set, with NodesOptions) (*Nodes, error) {
	r := &Nodes{of: parts.of, parts: parts, life: with.Life, health: parts.health, kubelet: with.Kubelet,
		log: logrus.WithField("component", "partition-nodes"), clients: map[string]*resourceClients{}}
	record, err := restored.Read(r.of.server.Dir)
	if err != nil {
		return nil, err
	}
	r.sharesUnknown.Store(r.of.Has(partitionapi.RoleResource) &&
		(record.Shares || r.of.Name() == "" && !record.Shared))
	r.podsUnknown.Store(r.of.Has(partitionapi.RoleTenant) && record.Shares)
	r.Overview = overview.New(overview.Options{Partitions: r.parts.Partitions, Placements: r.parts.Placements,
		Ping: r.parts.peers.Ping, Nodes: r.countNodes})
	o := nodeidentity.Options{Self: r.of.Self(), Several: r.mayBeSeveral, Alive: with.Lives.Alive,
		Authenticated: with.Authenticated}
	r.lives = with.Lives
	if !r.of.Has(partitionapi.RoleTenant) {
		o.Ask = r.ask
	}
	r.Guard = nodeidentity.New(o)
	with.Lives.OnChange(r.Guard.Look)
	if !r.of.Has(partitionapi.RoleTenant) {
		return r, nil
	}
	own := r.of.server.API(r.of.server.PKI.Partition)
	own.QPS = -1
	client, err := nodesClient(own)
	if err != nil {
		return nil, err
	}
	r.importer = nodecopies.New(nodecopies.Options{Client: client, Sources: r.sources, Left: r.left,
		Health: r.health, Log: logrus.WithField("component", nodecopies.Name)})
	return r, nil
}

// Watch has a monitor look at the partitions, and at what this one knows of their nodes.
func (r *Nodes) Watch(m *health.Monitor) {
	if m == nil {
		return
	}
	m.Add("partitions", checks.Options{Self: r.of.Self(), Partitions: r.parts.Partitions, Ping: r.Overview.Ping,
		Version: r.version, Own: version.Kubernetes}.Check)
	if r.importer != nil {
		m.Add("copies of nodes", r.importer.Check)
	}
}

// version is the version of Kubernetes of another partition.
func (r *Nodes) version(ctx context.Context, partition string) (string, error) {
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

// SharesUnknown says that this server does not know what is on its nodes.
func (r *Nodes) SharesUnknown() bool { return r.sharesUnknown.Load() }

// mayBeSeveral reports whether the cluster has several partitions, or may have: a server of
// home that starts does not know it at once, and lets no node in that it does not know.
func (r *Nodes) mayBeSeveral() bool { return !r.parts.Settled() || r.parts.Several() }

// Importer is the user that writes copies of nodes.
func (r *Nodes) Importer() string { return partitionapi.UserPrefix + r.of.Self() }

// Behind sends what users change of copies to where the nodes are, and tells people of lists that
// other partitions have more.
func (r *Nodes) Behind(next http.Handler) http.Handler {
	next = partial.Handler(next, r.of.Self(), r.parts.Several)
	if !r.of.Has(partitionapi.RoleTenant) {
		return next
	}
	return nodewrites.Handler(next, nodewrites.Options{Self: r.of.Self(), Importer: r.Importer(),
		Elsewhere: r.Guard.Elsewhere, Forward: r.parts.Forward})
}

// Start starts what there is to do once there is a second partition.
func (r *Nodes) Start(
	ctx context.Context, group *component.Group, o controllers.Options, leader *election.Election,
) error {
	if err := r.startSigner(ctx, group, leader); err != nil {
		return err
	}
	if err := r.startSharing(ctx, group); err != nil {
		return err
	}
	group.Start(ctx, component.Running("partition-nodes", func(ctx context.Context) error {
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
func (r *Nodes) startSigner(ctx context.Context, group *component.Group, leader *election.Election) error {
	ca, err := pki.LoadCA(r.of.server.PKI.ClientCA)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(r.of.server.API(r.of.server.PKI.Supervisor))
	if err != nil {
		return fmt.Errorf("making the client of the signer: %w", err)
	}
	group.Start(ctx, leader.Only(nodeidentity.Signer(nodeidentity.SignerOptions{
		Partition: r.of.Self(), Client: client, CA: ca, Life: r.life(), Lives: r.lives, Log: r.log,
	})))
	return nil
}

// startSharing finds out what is on the nodes: after a restore what all partitions have there,
// and what home has when there is a second partition, before that can place anything.
func (r *Nodes) startSharing(ctx context.Context, group *component.Group) error {
	if !r.sharesUnknown.Load() {
		return nil
	}
	supervisor := r.of.server.API(r.of.server.PKI.Supervisor)
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
			if err := restored.SharesKnown(r.of.server.Dir, true); err != nil {
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
func (r *Nodes) sharers(ctx context.Context) ([]string, error) {
	if !r.parts.Await(ctx, r.parts.Synced) {
		return nil, ctx.Err()
	}
	record, err := restored.Read(r.of.server.Dir)
	if err != nil {
		return nil, err
	}
	if !r.parts.Several() {
		// Those that come later are new ones, or registered again.
		if err := restored.SharesKnown(r.of.server.Dir, false); err != nil {
			return nil, err
		}
		if !r.parts.Await(ctx, r.parts.Several) {
			return nil, ctx.Err()
		}
		record.Shares = false
	}
	var out []string
	for _, p := range r.parts.Partitions() {
		own := p.Name == r.of.Self()
		if p.Has(partitionapi.RoleTenant) && (record.Shares || own) && !(own && r.of.server.Config.DisableScheduler) {
			out = append(out, p.Name) // without its scheduler it would never say anything
		}
	}
	return out, nil
}

// begin starts all of it, or nothing.
func (r *Nodes) begin(
	ctx context.Context, group *component.Group, o controllers.Options, leader *election.Election,
) error {
	supervisor := r.of.server.API(r.of.server.PKI.Supervisor)
	supervisor.QPS = -1
	var start []component.Component
	if r.of.Has(partitionapi.RoleResource) {
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
func (r *Nodes) left(ctx context.Context, partition string) (bool, error) {
	_, left, err := r.parts.Left(ctx, partition)
	return left, err
}

// sources are the other resource partitions.
func (r *Nodes) sources() ([]nodecopies.Source, <-chan struct{}) {
	changes := r.parts.Changes()
	var out []nodecopies.Source
	for _, p := range r.parts.Partitions() {
		if p.Name == r.of.Self() || !p.Has(partitionapi.RoleResource) {
			continue
		}
		if c := r.client(p.Name, p.Spec.Identity); c != nil {
			out = append(out, nodecopies.Source{Name: p.Name, Client: c.nodes})
		}
	}
	return out, changes
}

// shared are all resource partitions, whose nodes several schedulers give out.
func (r *Nodes) shared() ([]shares.ResourcePartition, <-chan struct{}) {
	changes := r.parts.Changes()
	var out []shares.ResourcePartition
	add := func(name, identity string) {
		if c := r.client(name, identity); c != nil {
			out = append(out, shares.ResourcePartition{Name: name, Client: c.allocations})
		}
	}
	if r.of.Has(partitionapi.RoleResource) {
		add(r.of.Self(), "")
	}
	for _, p := range r.parts.Partitions() {
		if p.Name != r.of.Self() && p.Has(partitionapi.RoleResource) {
			add(p.Name, p.Spec.Identity)
		}
	}
	return out, changes
}

// Plugins are those of a scheduler that shares nodes with others.
func (r *Nodes) Plugins() []scheduler.Plugin {
	if !r.parts.Several() {
		return nil
	}
	o := shares.Options{Partition: r.of.Self(), Partitions: r.shared, Health: r.health,
		Log: logrus.WithField("component", shares.Name)}
	if r.of.Has(partitionapi.RoleResource) {
		o.Local = r.of.Self()
	}
	if r.podsUnknown.Load() {
		o.Unknown = func() {
			r.podsUnknown.Store(false)
			if r.of.Has(partitionapi.RoleResource) {
				return // the record is of the shares of its nodes, too, and goes when these are known
			}
			if err := restored.SharesKnown(r.of.server.Dir, false); err != nil {
				r.log.WithError(err).Warn("after the next start room is given out a minute later")
			}
		}
	}
	return []scheduler.Plugin{shares.Plugin(o)}
}

// Sharing runs the scheduler, and anew with its plugin once there is a second partition.
func (r *Nodes) Sharing(c component.Component) component.Component {
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

// MayCollect waits until pods may be taken for lost whose nodes are not there: until all
// nodes of all partitions have had their copies.
func (r *Nodes) MayCollect(ctx context.Context) bool {
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
