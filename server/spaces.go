package server

import (
	"errors"
	"maps"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/informers"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/addons"
	"github.com/a4s-io/a4s/server/addons/charts/confined"
	"github.com/a4s-io/a4s/server/addons/resourcemetrics"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	configs "github.com/a4s-io/a4s/server/groups/registry"
	"github.com/a4s-io/a4s/server/nodeapi/bootstrap"
	"github.com/a4s-io/a4s/server/nodeapi/nodebounds"
	"github.com/a4s-io/a4s/server/partition"
	allocations "github.com/a4s-io/a4s/server/partition/allocations/registry"
	"github.com/a4s-io/a4s/server/partition/kubelets"
	copies "github.com/a4s-io/a4s/server/partition/nodecopies/storage"
	"github.com/a4s-io/a4s/server/partition/proxy"
	partitions "github.com/a4s-io/a4s/server/partition/registry"
	"github.com/a4s-io/a4s/server/tenancy"
	"github.com/a4s-io/a4s/server/tenancy/edge"
	"github.com/a4s-io/a4s/server/tenancy/reach"
)

// newSpaces makes what the API server has for tenants. inside has all rights.
func (s *Server) newSpaces(inside *restclient.Config, parts *partition.Set) (*tenancy.Spaces, error) {
	rootCA, err := s.files.serverCA()
	if err != nil {
		return nil, err
	}
	return tenancy.New(tenancy.Options{
		DefaultTenant: s.cfg.DefaultTenant, DefaultLimits: s.cfg.TenantDefaultLimits,
		Groups:        s.cfg.TenantGroups,
		APIServerArgs: s.cfg.KubeAPIServerArgs, ClusterDomain: s.cfg.ClusterDomain,
		System: inside, Group: s.cfg.ServiceGroupID,
		Partitions: atEdge{parts}, Placer: parts.Placer,
		Load: s.groups.Load(), Gated: controllers.Gated(),
		Connections: s.store.connections(), Fill: s.store.fill(),
		Inside: s.inside, Tunnel: s.tunnel(), LoadBalancers: addons.LoadBalancerRules(s.cfg, parts),
		RootCA: string(rootCA), Pool: s.pool,
		Log: s.log,
	})
}

// forTenant connects to what a tenant names, from when the API is served on.
func (s *Server) forTenant(tenant string) confined.Dial {
	return confined.Dial(s.spaces.Dialer(tenant))
}

// atEdge are the partitions in the words of the edge.
type atEdge struct{ *partition.Set }

// Received implements edge.Partitions.
func (p atEdge) Received(req *http.Request) *edge.Mark { return (*edge.Mark)(p.Proxy.Received(req)) }

// Forward implements edge.Partitions.
func (p atEdge) Forward(w http.ResponseWriter, req *http.Request, to edge.Target) {
	p.Proxy.Forward(w, req, proxy.Target(to))
}

// tunnel leads to pods through their nodes, nil on a server that is a node.
func (s *Server) tunnel() reach.Tunnel {
	if !s.cfg.DisableAgent {
		return nil
	}
	return &kubelets.Forwarder{Kubelet: s.kubeletClient(), Partition: s.partition.Name()}
}

// kubeletClient is the API server at kubelets.
func (s *Server) kubeletClient() restclient.TLSClientConfig {
	t := s.files.pki
	return restclient.TLSClientConfig{CAFile: t.ServerCA.Cert, CertFile: t.APIServerKubeletClient.Cert,
		KeyFile: t.APIServerKubeletClient.Key}
}

// newBounds makes what keeps nodes to what they may say.
func newBounds(s *Server) (*nodebounds.Bounds, error) {
	o := nodebounds.Options{
		Pods: s.addresses.pods, PodsInRanges: s.cfg.FlannelBackend != config.FlannelNone,
		Restored: s.parts.Restored,
		Joined:   s.lives.Joined, Known: s.lives.Known, End: s.lives.End,
		Mark: func(node string) (string, bool) {
			record, there, err := s.lives.Of(node)
			return record.Mark(), there && err == nil
		},
	}
	if s.partition.Has(partitionapi.RoleResource) {
		var err error
		if o.Ranges, err = controllers.NodeRanges(s.upstream.controllers(nil)); err != nil {
			return nil, err
		}
	}
	bounds := nodebounds.New(o)
	if m := s.health.monitor; m != nil {
		m.Add("ranges of nodes", bounds.Check)
	}
	return bounds, nil
}

// newMetrics makes the API of what nodes and pods use; it is nil if that is left out.
func (s *Server) newMetrics() (*resourcemetrics.Metrics, error) {
	if s.cfg.Disabled(config.AddonMetricsServer) {
		return nil, nil
	}
	return resourcemetrics.New(resourcemetrics.Options{Partition: s.partition.Name(), Kubelet: s.kubeletClient()})
}

// seams are those of the spaces, with what nodes need before and behind them: api is
// what nodes call, and own the name of the partition of the server, empty
// for home.
func seams(
	spaces *tenancy.Spaces, api func(http.Handler) http.Handler, metrics *resourcemetrics.Metrics,
	nodes *partition.Nodes, bounds *nodebounds.Bounds, own string,
) apiserver.Seams {
	out := spaces.Seams()
	out.Behind = nodes.Behind
	access := out.Access
	out.Access = func(
		f informers.SharedInformerFactory, a authorizer.Authorizer, rules authorizer.RuleResolver, rbac bool,
	) (authorizer.Authorizer, authorizer.RuleResolver, error) {
		if err := nodes.Guard.Follow(f.Core().V1().Nodes()); err != nil {
			return nil, nil, err
		}
		a, rules, err := access(f, a, rules, rbac)
		if err != nil {
			return nil, nil, err
		}
		return nodes.Guard.Authorizer(a), rules, nil
	}
	edge := out.Handler
	out.Handler = func(h http.Handler, audited func(http.Handler) http.Handler) http.Handler {
		return api(bootstrap.Mark(edge(nodes.Guard.Handler(h), audited)))
	}
	// Nodes persist the pods that they ran without a server.
	persisted := bootstrap.New()
	out.Admission = bounds.Seam(persisted.Admission(out.Admission))
	core := out.Groups[""]
	out.Groups[""] = func(g generic.RESTOptionsGetter, c apiserver.GroupConfig, v1 map[string]rest.Storage) error {
		ranges, err := configs.Storage(g)
		maps.Copy(v1, ranges)
		directory, directoryErr := partitions.Storage(g)
		maps.Copy(v1, directory)
		shares, sharesErr := allocations.Storage(g, nodes.SharesUnknown)
		maps.Copy(v1, shares)
		return errors.Join(err, directoryErr, sharesErr, copies.Extend(v1, nodes.Importer()), bounds.Store(v1),
			persisted.Store(v1),
			kubelets.Qualify(own, v1), core(g, c, v1))
	}
	out.Definitions = withDefinitions(withDefinitions(out.Definitions, configs.Definitions),
		withDefinitions(partitions.Definitions, allocations.Definitions))
	if metrics == nil {
		return out
	}
	out.Install, out.Schemes = metrics.Install, []*runtime.Scheme{resourcemetrics.Scheme()}
	out.Definitions = withDefinitions(out.Definitions, resourcemetrics.Definitions)
	return out
}

// withDefinitions are the models of two parts.
func withDefinitions(a, b common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := a(ref)
		maps.Copy(all, b(ref))
		return all
	}
}
