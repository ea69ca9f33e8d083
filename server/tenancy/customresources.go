package tenancy

import (
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/tenancy/crd"
	"github.com/a4s-io/a4s/server/tenancy/crd/serving"
	"github.com/a4s-io/a4s/server/tenancy/storage"
)

// customResources makes what serves the custom resources of tenants.
func (m *Spaces) customResources(of apiserver.CRDServer) (apiserver.CustomResources, error) {
	m.crds.Reset()
	m.crds.Watch(of.System)
	served, err := serving.New(serving.Options{
		Catalog: m.crds,
		Generic: *of.Config.GenericConfig,
		Options: of.Options,
		Bound: func(g generic.RESTOptionsGetter, tenant string) generic.RESTOptionsGetter {
			return m.Limits.Storage(storage.Bound(m.connections.Shared(g), tenant, m.crds.Defines(tenant)))
		},
		Mapped: func(g generic.RESTOptionsGetter) generic.RESTOptionsGetter {
			return storage.Decorate(storage.Uncached(g), storage.Options{})
		},
		CRDs:      of.CRDs,
		Reach:     m.admission.ReachConversions,
		Projector: m.edge.Projector,
		Bounds: func(tenant string) crd.Bounds {
			return crd.BoundsFor(m.Limits.CRDs(m.directory.Known(tenant)))
		},
		MasterCount: of.Config.ExtraConfig.MasterCount,
		NotFound:    of.NotFound,
		Pool:        m.pool,
		Client:      m.system,
		Composite:   of.Composite,
		Log:         m.log,
	})
	if err != nil {
		return nil, err
	}
	return served, nil
}
