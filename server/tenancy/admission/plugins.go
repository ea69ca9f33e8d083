package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/reach"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// readyWithin is how long a request waits for the configurations of a tenant
// to be known, as upstream's plugins wait for theirs.
const readyWithin = 10 * time.Second

// Tenants says of the life of tenants.
type Tenants interface {
	// Exists reports whether there is a Tenant of this name, and whether it is
	// being deleted.
	Exists(ctx context.Context, name string) (exists bool, err error)
	Terminating(name string) bool
	// Synced reports whether those are known that all servers have to know.
	Synced() bool
	// Allowance is what holds of one for a tenant, as it stands in an annotation; "" if nobody
	// says it.
	Allowance(ctx context.Context, tenant, key string) (string, error)
	// Scheduling is what holds of the nodes for a tenant, nil for all, and the template that says
	// it, "" if the Tenant does.
	Scheduling(ctx context.Context, tenant string) (s *tenantapi.TenantScheduling, template string, err error)
	// Images are the registries of its images, none for all.
	Images(ctx context.Context, tenant string) ([]string, error)
	// Hosts are those that its Ingresses may have, none if no list says it.
	Hosts(ctx context.Context, tenant string) ([]string, error)
	// Keeper is the template that an object of a tenant is of, by its composite name, and what the
	// object is called in there; template is "" if it is of none.
	Keeper(ctx context.Context, tenant string, r schema.GroupResource, namespace, name string) (
		template, object string, err error)
}

// Nodes says which nodes run pods of tenants.
type Nodes interface {
	// Anywhere reports whether all do.
	Anywhere(ctx context.Context, tenant string) (bool, error)
	// Refusal is why a node with these labels does not, after its name; "" if it does.
	Refusal(ctx context.Context, tenant string, node map[string]string) (string, error)
	// Conflict is what a selector asks for that none of them has, "" for nothing.
	Conflict(ctx context.Context, tenant string, selector map[string]string) (string, error)
}

// Options configures the admission of tenants.
type Options struct {
	// Projector translates between the native and the composite form.
	Projector func(tenant string) *wire.Projector
	Tenants   Tenants
	Nodes     Nodes
	// System is a client of the system with all rights, by certificate: the
	// API server's client of itself does not come through the edge.
	System *rest.Config
	// Inside are the addresses of the cluster, and Tunnel leads to its pods; nil for
	// a server in the pod network.
	Inside *inside.Cluster
	Tunnel reach.Tunnel
	// LoadBalancers are the ports that Services do not get at addresses of
	// nodes; nil where they get no addresses.
	LoadBalancers *servicelb.Rules
	// NodePorts refuses what takes more node ports than the tenant may have.
	NodePorts func(ctx context.Context, tenant string, service, old *core.Service) error
	// Pool is where informers share what they keep with others.
	Pool *interning.Pool
	Log  *logrus.Entry
}

// Admission runs the plugins of tenants.
type Admission struct {
	opts      Options
	kinds     *kinds.Table
	presence  *presence
	guard     *guard
	authz     authorizer.Authorizer
	services  webhook.ServiceResolver
	authInfo  webhook.AuthenticationInfoResolverWrapper
	instances instances
	standings standings
}

// New makes it; its methods are the admission seam of the API server, called
// in the order Informers, Decorate (for each plugin), Webhooks, Run.
func New(o Options) (*Admission, error) {
	g, err := newGuard(o.Tenants, o.Nodes)
	if err != nil {
		return nil, err
	}
	g.balancers = o.LoadBalancers
	return &Admission{opts: o, kinds: kinds.New(), presence: newPresence(), guard: g}, nil
}

// Informers narrows what upstream's plugins know to the system space. loopback
// is the API server's client of itself, authz decides what CEL expressions of
// tenants ask.
func (a *Admission) Informers(
	loopback *rest.Config, authz authorizer.Authorizer, f informers.SharedInformerFactory,
) (informers.SharedInformerFactory, error) {
	a.authz = authz
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return nil, fmt.Errorf("making the client of the admission plugins: %w", err)
	}
	if a.guard.reach, err = reach.New(f, a.opts.Inside, a.opts.Tunnel); err != nil {
		return nil, err
	}
	a.guard.places.lister, a.guard.places.client = f.Core().V1().Nodes().Lister(), client.CoreV1().Nodes()
	a.guard.services = f.Core().V1().Services().Lister()
	a.guard.classes = f.Scheduling().V1().PriorityClasses().Lister()
	a.guard.devices.classes = f.Resource().V1().DeviceClasses().Lister()
	a.guard.runtimes = runtimes{a.guard.permits, runtimeClasses{f.Node().V1().RuntimeClasses().Lister(),
		client.NodeV1().RuntimeClasses()}}
	return narrow(f, client, a.opts.Pool), nil
}

// Webhooks says how webhooks are reached.
func (a *Admission) Webhooks(services webhook.ServiceResolver, authInfo webhook.AuthenticationInfoResolverWrapper) {
	a.services, a.authInfo = services, authInfo
}

// Decorate adds the tenants' part to the plugins that have one.
func (a *Admission) Decorate(handler admission.Interface, name string) admission.Interface {
	switch name {
	case mutatingwebhook.PluginName, validatingwebhook.PluginName, mutatingpolicy.PluginName,
		validatingpolicy.PluginName:
		return &plugin{Interface: handler, name: name, admission: a}
	case "NamespaceLifecycle":
		return &lifecycle{Interface: handler, admission: a}
	case subjectrestriction.PluginName:
		return subjects{handler}
	default:
		return handler
	}
}

// plugin is one of upstream's for the system with that of a tenant behind it.
type plugin struct {
	admission.Interface
	name      string
	admission *Admission
}

// work is what the plugin computes for.
func (p *plugin) work() fairqueue.Work {
	switch p.name {
	case mutatingpolicy.PluginName, validatingpolicy.PluginName:
		return ledger.Policies
	}
	return ledger.Hooks
}

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if m, ok := p.Interface.(admission.MutationInterface); ok {
		if err := m.Admit(ctx, attr, o); err != nil {
			return err
		}
	}
	q, err := p.question(ctx, attr)
	if err != nil || q == nil {
		return err
	}
	err = q.ask(ctx, func(ctx context.Context, own admission.Interface) error {
		if m, ok := own.(admission.MutationInterface); ok {
			return m.Admit(ctx, q.native, o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := q.native.writeBack(); err != nil {
		return err
	}
	return p.admission.checkNodePorts(ctx, p.admission.tenantOf(ctx, attr), attr)
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if v, ok := p.Interface.(admission.ValidationInterface); ok {
		if err := v.Validate(ctx, attr, o); err != nil {
			return err
		}
	}
	q, err := p.question(ctx, attr)
	if err != nil || q == nil {
		return err
	}
	return q.ask(ctx, func(ctx context.Context, own admission.Interface) error {
		if v, ok := own.(admission.ValidationInterface); ok {
			return v.Validate(ctx, q.native, o)
		}
		return nil
	})
}

// tenantOf is the tenant of the object that a request is about.
func (a *Admission) tenantOf(ctx context.Context, attr admission.Attributes) string {
	namespace := attr.GetNamespace()
	resource := attr.GetResource().GroupResource()
	if resource == (schema.GroupResource{Resource: "namespaces"}) && attr.GetName() != "" {
		namespace = attr.GetName()
	}
	if namespace != "" {
		tenant, _ := space.SplitNamespace(namespace)
		return tenant
	}
	if tenant, _ := space.SplitClusterName(attr.GetName()); tenant != space.System {
		return tenant
	}
	if tenant, ok := space.FromContext(ctx); ok && attr.GetName() == "" {
		return tenant
	}
	return space.System
}
