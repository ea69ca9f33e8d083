package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/addons/resourcemetrics"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/nodeapi/bootstrap"
	"github.com/a4s-io/a4s/server/tenancy/admission"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/authn/tokenreview"
	"github.com/a4s-io/a4s/server/tenancy/authz"
	"github.com/a4s-io/a4s/server/tenancy/crd"
	"github.com/a4s-io/a4s/server/tenancy/edge"
	"github.com/a4s-io/a4s/server/tenancy/fairness"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/limits"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/server/tenancy/storage/events"
	"github.com/a4s-io/a4s/server/tenancy/tenants/directory"
	"github.com/a4s-io/a4s/server/tenancy/tenants/registry"
)

// multitenancy is what makes the API server one of tenants: everything that
// stands in its seams.
type multitenancy struct {
	directory   *directory.Directory
	crds        *crd.Catalog
	system      *restclient.Config
	log         *logrus.Entry
	edge        *edge.Edge
	admission   *admission.Admission
	limits      *limits.Limits
	roles       *authz.Listers // set when the API server is made
	byRoles     bool           // whether users are judged by roles; set with them
	pool        *interning.Pool
	connections *storage.Connections
	grown       *growth // by new tenants
	// metrics are what nodes and pods use, nil for no such API.
	metrics *resourcemetrics.Metrics
	// persisted lets nodes persist the pods that they ran without a server.
	persisted *bootstrap.Pods
}

// newMultitenancy wires the parts. system is a client of the system space with
// all rights, which is used once the API serves.
func newMultitenancy(
	cfg *config.Server, f *files, a *addresses, store *store, pool *interning.Pool, log *logrus.Entry,
	system *restclient.Config,
) (*multitenancy, error) {
	tenants, err := directory.New(system, pool)
	if err != nil {
		return nil, err
	}
	tokens, err := tokenFile(cfg)
	if err != nil {
		return nil, err
	}
	m := &multitenancy{directory: tenants, system: system, pool: pool, log: log, crds: crd.NewCatalog(tenants, log),
		persisted: bootstrap.New()}
	m.connections = store.connections()
	m.grown = newGrowth()
	tenants.OnChange(func(old, t *tenantapi.Tenant) {
		m.crds.TenantChanged(old, t)
		if old != nil && old.Spec.Nodes != t.Spec.Nodes {
			m.edge.NodesChanged(t.Name)
		}
		if old == nil && time.Since(t.CreationTimestamp.Time) < time.Minute { // and was not there at the start
			m.grown.tenant()
		}
	})
	defaults, err := tenantapi.ParseLimits(cfg.TenantDefaultLimits)
	if err != nil {
		return nil, fmt.Errorf("reading the default limits of tenants: %w", err)
	}
	m.limits = limits.New(limits.Options{Tenants: tenants, Defaults: defaults, Fill: store.fill(), Log: log})
	tenants.OnGone(func(name string) {
		m.limits.Forget(name)
		m.crds.TenantGone(name)
		m.admission.Forget(name)
	})
	m.edge = edge.New(edge.Options{
		DefaultTenant:   cfg.DefaultTenant,
		Tenants:         tenants,
		CustomResources: m.crds,
		TokenFile:       tokens,
		Queue:           fairqueue.New(fairqueue.ForProcessors(goruntime.GOMAXPROCS(0))),
		Limits:          m.limits,
		Log:             log,
	})
	tenants.OnGone(m.edge.TenantGone)
	if m.admission, err = admission.New(admission.Options{Projector: m.edge.Projector, Tenants: tenants,
		System: system, Ranges: a.ranges(), LoadBalancers: loadBalancerRules(cfg), Pool: pool, Log: log}); err != nil {
		return nil, err
	}
	if cfg.Disabled(config.AddonMetricsServer) {
		return m, nil
	}
	m.metrics, err = resourcemetrics.New(resourcemetrics.Options{
		Kubelet: restclient.TLSClientConfig{CAFile: f.pki.ServerCA.Cert, CertFile: f.pki.APIServerKubeletClient.Cert,
			KeyFile: f.pki.APIServerKubeletClient.Key},
	})
	return m, err
}

// seams are the places in the API server where the parts go. outer is what
// stands before the edge.
func (m *multitenancy) seams(outer func(http.Handler) http.Handler) apiserver.Seams {
	s := apiserver.Seams{
		Storage: func(g generic.RESTOptionsGetter) generic.RESTOptionsGetter {
			return m.limits.Storage(storage.Decorate(m.connections.Builtin(g), m.pool))
		},
		Handler: func(h http.Handler, audited func(http.Handler) http.Handler) http.Handler {
			return outer(bootstrap.Mark(admission.Allow(m.edge.Handler(h, audited))))
		},
		Authenticator: m.edge.Authenticator,
		Access:        m.access,
		Admission:     m.persisted.Admission(m.admission),
		Kept:          m.pool.Transform,
		CRDs: func(informer crdinformers.CustomResourceDefinitionInformer) {
			m.limits.Watch(informer)
		},
		CustomResources: m.customResources,
		APIServices:     m.crds.WatchAPIServices,
		SystemSpace:     tenantapi.InSpace(m.system, space.System),
		Fairness: func(f utilflowcontrol.Interface) utilflowcontrol.Interface {
			return limits.Fairness(fairness.Wrap(f))
		},
		Groups:      m.groups(),
		Definitions: registry.Definitions,
	}
	if m.metrics != nil {
		s.Install, s.Schemes = m.metrics.Install, []*runtime.Scheme{resourcemetrics.Scheme()}
		s.Definitions = func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			all := registry.Definitions(ref)
			maps.Copy(all, resourcemetrics.Definitions(ref))
			return all
		}
	}
	return s
}

// components are what runs besides the API server.
func (m *multitenancy) components() []component.Component {
	list := []component.Component{
		{Name: "tenant-directory", Run: m.directory.Run},
		{Name: "tenant-admission", Run: func(ctx context.Context, ready func()) error {
			ready()
			return m.admission.Run(ctx)
		}},
		{Name: "tenant-limits", Run: func(ctx context.Context, ready func()) error {
			ready()
			m.limits.Run(ctx)
			m.limits.Close()
			return nil
		}},
	}
	if m.metrics != nil {
		list = append(list, m.metrics.Component())
	}
	return list
}

// access judges every user by the roles of their space.
func (m *multitenancy) access(
	f informers.SharedInformerFactory, a authorizer.Authorizer, r authorizer.RuleResolver, rbac bool,
) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	var err error
	if m.roles, err = authz.NewListers(f); err != nil {
		return nil, nil, err
	}
	m.byRoles = rbac
	o := authz.Options{Roles: m.roles, SystemRBAC: rbac, ReadsNodes: m.directory.ReadsNodes}
	bordered, err := authz.Wrap(a, o)
	if err != nil {
		return nil, nil, err
	}
	return limits.Authorizer(bordered), authz.WrapRules(r, o), nil
}

// groups are the changes to the storage of upstream's groups.
func (m *multitenancy) groups() map[string]apiserver.Group {
	return map[string]apiserver.Group{
		"": func(getter generic.RESTOptionsGetter, _ apiserver.GroupConfig, v1 map[string]rest.Storage) error {
			extra, err := registry.Storage(getter, m.limits.Usage)
			maps.Copy(v1, extra)
			return errors.Join(err, m.persisted.Store(v1), m.admission.GuardProxies(v1), events.Judge(v1))
		},
		"events.k8s.io": func(_ generic.RESTOptionsGetter, _ apiserver.GroupConfig, v1 map[string]rest.Storage) error {
			return events.Judge(v1)
		},
		"authentication.k8s.io": func(
			_ generic.RESTOptionsGetter, c apiserver.GroupConfig, v1 map[string]rest.Storage,
		) error {
			v1["tokenreviews"] = tokenreview.New(c.Authenticator, c.Audiences)
			return nil
		},
		"rbac.authorization.k8s.io": func(
			_ generic.RESTOptionsGetter, c apiserver.GroupConfig, v1 map[string]rest.Storage,
		) error {
			return authz.GuardStorage(v1, c.Authorizer, m.roles)
		},
	}
}

// tokenFile reads the tenants in the file of --token-auth-file, which upstream
// reads too but without their column.
func tokenFile(cfg *config.Server) (authenticator.Token, error) {
	path := ""
	for _, arg := range cfg.KubeAPIServerArgs {
		if value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "token-auth-file="); ok {
			path = value
		}
	}
	if path == "" {
		return nil, nil
	}
	return authn.NewTokenFile(path)
}
