package apply

import (
	"hash/maphash"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// marks know objects as they are when nobody has changed what the template says of them.
type marks struct {
	seed    maphash.Seed
	mu      sync.Mutex
	tenants map[string]map[tenantapi.TemplateObject]*mark
}

// mark is what is known of one object. The watch can be before the answer to the application
// that it shows, and behind it.
type mark struct {
	// uid is that of the object that the last application made or found, until it is dropped.
	uid types.UID
	// dropped is one whose end was our doing.
	dropped bool
	// applied is the version that the last application made or found.
	applied string
	// fields is a hash of those that our manager has in that version, if it is known.
	fields uint64
	known  bool
	// seen is the version that the watch showed last, with their hash there.
	seen  string
	shown uint64
}

func newMarks() *marks {
	return &marks{seed: maphash.MakeSeed(), tenants: map[string]map[tenantapi.TemplateObject]*mark{}}
}

// of is the mark of an object; it is locked.
func (m *marks) of(tenant string, ref tenantapi.TemplateObject) *mark {
	ref = ref.Named()
	objects := m.tenants[tenant]
	if objects == nil {
		objects = map[tenantapi.TemplateObject]*mark{}
		m.tenants[tenant] = objects
	}
	if objects[ref] == nil {
		objects[ref] = &mark{}
	}
	return objects[ref]
}

// applied notes the version that an application made or found.
func (m *marks) applied(tenant string, ref tenantapi.TemplateObject, uid types.UID, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of(tenant, ref)
	k.uid, k.dropped = uid, false
	if k.applied != version {
		k.applied, k.known = version, false
	}
	if k.seen == version {
		k.fields, k.known = k.shown, true
	}
}

// changed reports whether what the watch shows of an object may differ from what the template says. What
// was not applied yet since the start will be.
func (m *marks) changed(tenant string, ref tenantapi.TemplateObject, is *metav1.PartialObjectMetadata) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of(tenant, ref)
	k.seen, k.shown = is.ResourceVersion, m.fields(is)
	if k.seen == k.applied {
		k.fields, k.known = k.shown, true
	}
	return k.applied != "" && (!k.known || k.shown != k.fields)
}

// fields is a hash of the fields that our manager has.
func (m *marks) fields(is *metav1.PartialObjectMetadata) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, entry := range is.ManagedFields {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.FieldsV1 != nil {
			_, _ = h.Write(entry.FieldsV1.GetRawBytes()) //nolint:errcheck // it never fails
		}
	}
	return h.Sum64()
}

// made is the UID of the object that was made, empty if none was since the start.
func (m *marks) made(tenant string, ref tenantapi.TemplateObject) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.tenants[tenant][ref.Named()]; k != nil {
		return k.uid
	}
	return ""
}

// uid is that of the object that was made last: that it was may not have been written.
func (m *marks) uid(tenant string, ref tenantapi.TemplateObject) types.UID {
	if uid := m.made(tenant, ref); uid != "" {
		return uid
	}
	return ref.UID
}

// dropped notes that an object is about to be dropped.
func (m *marks) dropped(tenant string, ref tenantapi.TemplateObject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of(tenant, ref)
	*k = mark{dropped: true}
}

// ended reports whether the end of an object is one that the template does not want: not if it was dropped,
// which would have the tenant get a changed template before its turn, and not if another one is in its place.
func (m *marks) ended(tenant string, ref tenantapi.TemplateObject, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.tenants[tenant][ref.Named()]
	if k == nil {
		return true
	}
	if k.dropped {
		delete(m.tenants[tenant], ref.Named())
		return false
	}
	return k.uid == "" || k.uid == uid
}

// forget drops what is known of a tenant.
func (m *marks) forget(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tenants, tenant)
}

// keep drops what is known of other objects of a tenant, but for those of which the watch has yet to say that
// they are gone.
func (m *marks) keep(tenant string, objects []tenantapi.TemplateObject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[tenantapi.TemplateObject]*mark{}
	for ref, k := range m.tenants[tenant] {
		if k.dropped || slices.ContainsFunc(objects, named(ref)) {
			kept[ref] = k
		}
	}
	m.tenants[tenant] = kept
}
