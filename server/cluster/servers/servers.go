package servers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

const (
	// GroupLabel is on the Lease of a server, with its service group.
	GroupLabel = partitionapi.GroupLabel
	// addressAnnotation is on it, with the address at which others reach it.
	addressAnnotation = "a4s.io/server-address"
	// appliedAnnotation is on it, with the revision of the newest DataPartitionConfig
	// that the server has applied.
	appliedAnnotation = "a4s.io/applied-revision"
	// noMemberAnnotation is on the Lease of a server without a member of embedded etcd.
	noMemberAnnotation = "a4s.io/no-datastore-member"
	// prefix begins the names of the Leases.
	prefix = "a4s-server-"
	// lasts is how long a server counts as ready without a renewal, and renewEvery how
	// often it renews.
	lasts      = 10 * time.Second
	renewEvery = 3 * time.Second
)

// Server is one of the cluster.
type Server struct {
	// Name is that of its node.
	Name string
	// Group is its service group.
	Group string
	// Address is "host:port", of its API.
	Address string
	// NoMember is set if it has no member of embedded etcd and uses those of others.
	NoMember bool
	// Ready is set while it renews its Lease.
	Ready bool
	// Applied is the revision of the newest change of DataPartitionConfigs that its caches
	// have met, NoGroup if the server does not say.
	Applied int64
}

// NoGroup is what a server has applied that is of no service group: it holds all tenants.
const NoGroup = -1

// LeaseName is the name of the Lease of a server.
func LeaseName(server string) string { return prefix + server }

// Registry knows the servers of the cluster.
type Registry struct {
	client  kubernetes.Interface
	own     Server
	applied func() int64

	mu     sync.Mutex
	leases map[string]seen // by name
}

// seen is a Lease and when it was last renewed, as this server saw it.
type seen struct {
	server  Server
	renewed time.Time // what the Lease says
	at      time.Time // when this server learned of it
}

// New makes the registry of a server. applied is what Server.Applied is at that moment,
// nil for NoGroup. One without a name only follows the others.
func New(client kubernetes.Interface, own Server, applied func() int64) *Registry {
	return &Registry{client: client, own: own, applied: applied, leases: map[string]seen{}}
}

// Component keeps the Lease of this server and follows those of the others. It is ready
// when it has read them.
func (r *Registry) Component() component.Component {
	return component.Component{Name: "servers", Run: r.run}
}

func (r *Registry) run(ctx context.Context, ready func()) error {
	factory := informers.NewSharedInformerFactoryWithOptions(r.client, 0,
		informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = GroupLabel }))
	defer factory.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Shutdown, which waits for the informer
	informer := factory.Coordination().V1().Leases().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.see, UpdateFunc: func(_, obj any) { r.see(obj) }, DeleteFunc: r.forget,
	})
	if err != nil {
		return fmt.Errorf("watching the servers: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	ready()
	if r.own.Name == "" {
		<-ctx.Done()
		return nil
	}
	lease.NewController(clock.RealClock{}, r.client, r.own.Name, int32(lasts.Seconds()), nil, renewEvery,
		LeaseName(r.own.Name), metav1.NamespaceSystem, r.describe).Run(ctx)
	return nil
}

// describe says on the Lease which server it is.
func (r *Registry) describe(l *coordinationv1.Lease) error {
	l.Labels = labels.Merge(l.Labels, labels.Set{GroupLabel: r.own.Group})
	l.Annotations = labels.Merge(l.Annotations, labels.Set{addressAnnotation: r.own.Address})
	delete(l.Annotations, appliedAnnotation)
	if r.applied != nil {
		l.Annotations[appliedAnnotation] = strconv.FormatInt(r.applied(), 10)
	}
	if delete(l.Annotations, noMemberAnnotation); r.own.NoMember {
		l.Annotations[noMemberAnnotation] = "true"
	}
	return nil
}

// Read is the server whose Lease it is, ready by the clock of the caller.
func Read(l *coordinationv1.Lease) (s Server, ok bool) {
	if l.Spec.HolderIdentity == nil || l.Spec.RenewTime == nil {
		return s, false
	}
	applied, err := strconv.ParseInt(l.Annotations[appliedAnnotation], 10, 64)
	if err != nil {
		applied = NoGroup // or it is a server of another version
	}
	return Server{Name: *l.Spec.HolderIdentity, Group: l.Labels[GroupLabel], Applied: applied,
		Address: l.Annotations[addressAnnotation], NoMember: l.Annotations[noMemberAnnotation] != "",
		Ready: time.Since(l.Spec.RenewTime.Time) < lasts}, true
}

// List reads the servers of the cluster, by name, ready by the clock of the caller.
func List(ctx context.Context, client kubernetes.Interface) ([]Server, error) {
	leases, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: GroupLabel})
	if err != nil {
		return nil, fmt.Errorf("reading which servers there are: %w", err)
	}
	var all []Server
	for i := range leases.Items {
		if s, ok := Read(&leases.Items[i]); ok {
			all = append(all, s)
		}
	}
	return all, nil
}

func (r *Registry) see(obj any) {
	l, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return
	}
	s, ok := Read(l)
	if !ok {
		return
	}
	s.Ready = false // All says, by when it was seen
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.leases[l.Name]
	now := seen{server: s, renewed: l.Spec.RenewTime.Time, at: was.at}
	if !known || !was.renewed.Equal(now.renewed) {
		now.at = time.Now()
	}
	r.leases[l.Name] = now
}

func (r *Registry) forget(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	l, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, l.Name)
}

// All are the servers of the cluster by name, this one among them once it has its Lease.
func (r *Registry) All() []Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Server, 0, len(r.leases))
	for _, l := range r.leases {
		s := l.server
		s.Ready = time.Since(l.at) < lasts
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
