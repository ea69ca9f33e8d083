package tenancy

import (
	"context"

	"github.com/a4s-io/a4s/server/groups/ranged"
)

// Progress is how far the caches of a server of a service group are with its configurations; ok
// is false if there is none.
func (m *Spaces) Progress() (p ranged.Progress, ok bool) { return m.connections.Progress() }

// Tenants are the names of all tenants.
func (m *Spaces) Tenants() []string { return m.directory.Names() }

// FollowHosts follows the hosts that Ingresses of tenants may have, see directory.Directory.
func (m *Spaces) FollowHosts(
	ctx context.Context, changed func(tenant string, hosts []string),
) (stop func(), known bool) {
	return m.directory.FollowHosts(ctx, changed)
}

// KeptFrom reports whether a node with these labels is for other tenants alone, see nodes.Rules. It does not wait:
// from a tenant that is not known here, such nodes are kept.
func (m *Spaces) KeptFrom(tenant string, node map[string]string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the tenant is not asked for
	return m.nodes.KeptFrom(ctx, tenant, node)
}

// KeptVersion changes with what KeptFrom says.
func (m *Spaces) KeptVersion() uint64 { return m.nodes.Version() }

// Objects are how many a tenant has.
func (m *Spaces) Objects(tenant string) int64 { return m.Limits.Objects(tenant) }
