package wire

import (
	"fmt"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
)

// objectMeta translates the metadata of objects and lists.
type objectMeta struct {
	values
	p *Projector
	// What often comes again.
	namespaces lastText
}

// topMetadata translates the metadata of a document.
func (t *objectMeta) topMetadata(cur shape, own docKind, said bool) {
	switch {
	case t.peek() != '{' || cur.form == formStatus || t.p.Composite:
		t.skip()
	case cur.form != formObject:
		t.listMetadata()
	default:
		var more *Node
		if cur.node != nil {
			more = cur.node.Fields["metadata"]
		}
		if t.r.Kind != "" {
			own = docKind{t.r.Group, t.r.Kind}
		} else if !said {
			own.group = t.r.Group
		}
		t.metadata(own, more)
	}
}

// listMetadata translates a ListMeta, in which there is a selfLink only.
func (t *objectMeta) listMetadata() {
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		t.skip()
		if string(key) == "selfLink" {
			m.drop(&t.scanner)
		}
	}
	if link := t.r.collection(t.p.View.Tenant); t.d == Out && link != "" && t.err == nil {
		m.insert(&t.scanner)
		t.dst = append(t.dst, `"selfLink":`...)
		t.dst = appendJSONString(t.dst, link)
	}
}

// metadata translates an ObjectMeta. The kind is that of the object itself, as
// the name of a subresource is the name of the object. More are the fields
// that the table has on it.
func (t *objectMeta) metadata(k docKind, more *Node) {
	var seen keys
	var namespace, name, native, nativeName string
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch string(key) {
		case "name", "namespace", "labels", "ownerReferences", "tenant", "selfLink":
			if t.d == In && !seen.add(&t.scanner, key) {
				continue
			}
		}
		isString := t.peek() == '"'
		switch at := t.pos; {
		case string(key) == "name" && isString:
			name = t.text()
			nativeName = name
			if !t.r.Namespaced {
				nativeName = t.ownName(k, name)
			}
			if nativeName != name {
				t.replace(at, nativeName)
			}
		case string(key) == "namespace" && isString:
			namespace = t.namespaces.of(t.rawText())
			native = t.ownNamespace(namespace)
			if native != namespace {
				t.replace(at, native)
			}
		case string(key) == "labels":
			t.labels(k.group == "" && k.kind == "Namespace")
			if t.emptied {
				t.emptied = false
				m.drop(&t.scanner)
			}
		case string(key) == "ownerReferences":
			t.walk(&Node{Op: references.Ref})
		case string(key) == "tenant":
			t.tenant(isString)
			m.drop(&t.scanner)
		case string(key) == "selfLink":
			if t.d == In && isString && t.p.Named != nil {
				if err := t.p.Named("selfLink", t.text()); err != nil {
					t.fail(err)
				}
			} else {
				t.skip()
			}
			m.drop(&t.scanner)
		default:
			t.child(&m, more, key, &seen)
		}
	}
	if t.d == Out && t.err == nil && (name != "" || namespace != "") {
		t.shown(&m, k, namespace, name, native, nativeName)
	}
}

// ownName translates the name of a cluster-scoped object.
func (t *objectMeta) ownName(k docKind, name string) string {
	if t.d == In {
		out, err := t.p.View.Name(In, k.group, k.kind, name)
		if err != nil {
			t.fail(err)
		}
		return out
	}
	tenant := t.nameOwner(k, name)
	if tenant == space.System || tenant != t.v.Tenant {
		return name // if it is foreign, shown finds out
	}
	out, err := t.v.Name(Out, k.group, k.kind, name)
	if err != nil {
		t.fail(err)
	}
	return out
}

func (t *objectMeta) ownNamespace(namespace string) string {
	if t.d == In {
		return space.Namespace(t.p.View.Tenant, namespace)
	}
	tenant, native := space.SplitNamespace(namespace)
	if tenant == space.System || tenant != t.v.Tenant {
		return namespace
	}
	return native
}

// tenant checks a metadata.tenant that the scanner stands before.
func (t *objectMeta) tenant(isString bool) {
	if t.d == Out || !isString {
		if t.d == In && t.peek() != 'n' {
			t.malformed("metadata.tenant must be a string")
		}
		t.skip()
		return
	}
	name := t.text()
	viewer := t.viewer()
	switch {
	case name == "" || name == viewer:
	case t.p.Named != nil:
		if err := t.p.Named("tenant", name); err != nil {
			t.fail(err)
		}
	default:
		t.fail(fmt.Errorf("%w: the object names %q, the request is for %q", ErrTenant, name, viewer))
	}
}

// viewer is the tenant of the view by name.
func (t *objectMeta) viewer() string {
	if t.v.Tenant == "" {
		return space.System
	}
	return t.v.Tenant
}

// nameOwner is whose cluster-scoped object it is by its composite name. Names
// of kinds that are never composed, like reviews, say nothing.
func (t *objectMeta) nameOwner(k docKind, name string) string {
	var tenant string
	switch {
	case k.group == "" && k.kind == "Namespace":
		tenant, _ = space.SplitNamespace(name)
	case k.group == rbacGroup && k.kind == "ClusterRole" && t.v.SharedClusterRole(name):
		tenant = space.System
	case t.v.ClusterScoped(k.group, k.kind):
		tenant, _ = space.SplitClusterName(name)
	case t.r.MayBeSystem || t.v.Tenant == space.All:
		tenant = space.System
	default:
		tenant = t.viewer()
	}
	return tenant
}

// owner is whose object it is by its composite namespace and name.
func (t *objectMeta) owner(k docKind, namespace, name string) string {
	switch {
	case namespace != "":
		tenant, _ := space.SplitNamespace(namespace)
		return tenant
	case t.r.Namespaced:
		return t.viewer()
	default:
		return t.nameOwner(k, name)
	}
}

// shown checks that an object may be seen, and says whose it is and where.
func (t *objectMeta) shown(m *members, k docKind, namespace, name, native, nativeName string) {
	tenant := t.owner(k, namespace, name)
	if tenant != t.viewer() && (tenant != space.System || !t.r.MayBeSystem) {
		t.fail(fmt.Errorf("%w: %s", ErrForeign, k.kind))
		return
	}
	if name == "" || tenant == space.All {
		return
	}
	m.insert(&t.scanner)
	t.dst = append(t.dst, `"tenant":`...)
	t.dst = appendJSONString(t.dst, tenant)
	if t.r.Version == "" || t.r.Resource == "" || t.r.Namespaced && namespace == "" {
		return
	}
	t.dst = append(t.dst, `,"selfLink":"/api`...)
	if t.r.Group != "" {
		t.dst = append(append(t.dst, "s/"...), t.r.Group...)
	}
	t.dst = append(append(t.dst, '/'), t.r.Version...)
	t.dst = append(append(t.dst, "/tenants/"...), tenant...)
	if native != "" {
		t.dst = append(append(t.dst, "/namespaces/"...), native...)
	}
	t.dst = append(append(t.dst, '/'), t.r.Resource...)
	t.dst = append(t.dst, '/')
	// The name goes on in the same string.
	at := len(t.dst)
	t.dst = appendJSONString(t.dst, nativeName)
	t.dst = append(t.dst[:at], t.dst[at+1:]...)
}

// labels translates labels. The tenant's label is for the storage layer alone
// to set and to see.
func (t *values) labels(ofNamespace bool) {
	if t.peek() != '{' {
		t.skip()
		return
	}
	kept, dropped := 0, 0
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch {
		case string(key) == space.Label:
			t.skip()
			m.drop(&t.scanner)
			dropped++
			continue
		case ofNamespace && string(key) == namespaceNameLabel:
			t.walk(&Node{Op: references.Namespace})
		default:
			t.skip()
		}
		kept++
	}
	t.emptied = dropped > 0 && kept == 0
}
