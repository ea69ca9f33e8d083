package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	webhookinit "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	controlplaneadmission "k8s.io/kubernetes/pkg/controlplane/apiserver/admission"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// running counts them: only tenants that have configurations, and a request
// since the server started, have plugins.
var running = func() *metrics.Gauge {
	g := metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "a4s_admission_tenants",
		Help:           "Tenants whose webhooks and admission policies are running.",
		StabilityLevel: metrics.ALPHA,
	})
	legacyregistry.MustRegister(g)
	return g
}()

// instances are the running sets of plugins.
type instances struct {
	mu     sync.Mutex
	ctx    context.Context // of Run; nil before
	byName map[string]*instance
}

// Run watches which tenants have configurations until ctx ends.
func (a *Admission) Run(ctx context.Context) error {
	a.instances.mu.Lock()
	a.instances.ctx = ctx
	a.instances.byName = map[string]*instance{}
	a.instances.mu.Unlock()
	a.presence.gone = a.stop
	return a.presence.run(ctx, a.opts.System)
}

// instance returns the tenant's plugins, and makes them at the first need.
func (a *Admission) instance(tenant string) *instance {
	a.instances.mu.Lock()
	defer a.instances.mu.Unlock()
	i := a.instances.byName[tenant]
	if i == nil {
		ctx, cancel := context.WithCancel(a.instances.ctx)
		i = &instance{admission: a, tenant: tenant, ctx: ctx, cancel: cancel,
			plugins: map[string]admission.Interface{}, known: map[string]bool{}}
		a.instances.byName[tenant] = i
		running.Set(float64(len(a.instances.byName)))
	}
	return i
}

// stop ends the plugins of a tenant that has no configurations any more.
func (a *Admission) stop(tenant string) {
	a.instances.mu.Lock()
	defer a.instances.mu.Unlock()
	if i := a.instances.byName[tenant]; i != nil {
		i.cancel()
		delete(a.instances.byName, tenant)
		running.Set(float64(len(a.instances.byName)))
	}
}

// instance is the plugins of one tenant.
type instance struct {
	admission *Admission
	tenant    string
	ctx       context.Context
	cancel    context.CancelFunc

	mu          sync.Mutex
	plugins     map[string]admission.Interface
	known       map[string]bool // the plugins that know their configurations
	initializer admission.PluginInitializers
	factory     informers.SharedInformerFactory
}

// plugin returns the tenant's plugin of a name, started.
func (i *instance) plugin(name string) (admission.Interface, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p, ok := i.plugins[name]; ok {
		return p, nil
	}
	if i.initializer == nil {
		if err := i.connect(); err != nil {
			return nil, fmt.Errorf("connecting the admission plugins of tenant %s: %w", i.tenant, err)
		}
	}
	p, err := makePlugin(name)
	if err != nil {
		return nil, fmt.Errorf("making the plugin %s of tenant %s: %w", name, i.tenant, err)
	}
	i.initializer.Initialize(p)
	if v, ok := p.(admission.InitializationValidator); ok {
		if err := v.ValidateInitialization(); err != nil {
			return nil, fmt.Errorf("setting up the plugin %s of tenant %s: %w", name, i.tenant, err)
		}
	}
	i.factory.Start(i.ctx.Done())
	i.plugins[name] = p
	return p, nil
}

var (
	// errEnded says that the tenant had no configurations any more, for a time at least.
	errEnded    = errors.New("the admission plugins of the tenant have ended")
	errNotReady = errors.New("not yet ready to handle request")
)

// wait returns when a plugin knows its configurations, which it never does if
// the instance ends before. Upstream's plugin itself waits for that in vain.
func (i *instance) wait(ctx context.Context, name string, p admission.Interface) error {
	waits, ok := p.(interface{ WaitForReady() bool })
	i.mu.Lock()
	known := i.known[name]
	i.mu.Unlock()
	if !ok || known {
		return nil
	}
	ready := make(chan bool, 1)
	go func() { ready <- waits.WaitForReady() }()
	select {
	case ok := <-ready:
		if !ok {
			return errNotReady
		}
		i.mu.Lock()
		i.known[name] = true
		i.mu.Unlock()
		return nil
	case <-i.ctx.Done():
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func makePlugin(name string) (admission.Interface, error) {
	switch name {
	case mutatingwebhook.PluginName:
		return mutatingwebhook.NewMutatingWebhook(nil)
	case validatingwebhook.PluginName:
		return validatingwebhook.NewValidatingAdmissionWebhook(nil)
	case mutatingpolicy.PluginName:
		return mutatingpolicy.NewPlugin(nil)
	case validatingpolicy.PluginName:
		return validatingpolicy.NewPlugin(nil)
	default:
		return nil, fmt.Errorf("no such plugin: %s", name)
	}
}

// connect makes what the plugins work with, all of it in the tenant's view.
func (i *instance) connect() error {
	cfg := tenantapi.InSpace(i.admission.opts.System, i.tenant)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	i.factory = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(func(obj any) (any, error) {
			i.admission.opts.Pool.Object(obj)
			return obj, nil
		}))
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	services, authInfo := i.admission.Reach(i.tenant)
	i.initializer = admission.PluginInitializers{
		initializer.New(client, dyn, i.factory,
			authorizer.AuthorizerFunc(composing{i.admission.authz, i.admission.kinds, i.tenant}.Authorize),
			utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), i.ctx.Done(), mapper),
		webhookinit.NewPluginInitializer(authInfo, services),
		controlplaneadmission.NewPluginInitializer(nil, exclusion.Excluded()),
	}
	return nil
}
