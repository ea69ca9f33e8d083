package tenancy

import "github.com/a4s-io/a4s/internal/space"

// Held is what this server caches for its service group.
type Held struct {
	// Revision is that of the newest change of the configurations that all caches have
	// met, and Moves how many since the start brought or took tenants.
	Revision int64
	Moves    int
	// Tenants are held, the system aside, and have these Objects.
	Tenants int
	Objects int64
}

// Held tells what the service group holds; ok is false while that is not known.
func (m *Spaces) Held(group string) (h Held, ok bool) {
	p, ok := m.connections.Progress()
	if !ok {
		return h, false
	}
	h.Revision, h.Moves = p.Revision, p.Moves
	for _, tenant := range m.directory.Names() {
		if tenant != space.System && p.Table.Holds(group, tenant) {
			h.Tenants++
			h.Objects += m.Limits.Objects(tenant)
		}
	}
	return h, true
}

// Applied is the revision of the newest change of the configurations of service groups
// that all caches have met, 0 if that is not known.
func (m *Spaces) Applied() int64 {
	p, _ := m.connections.Progress()
	return p.Revision
}
