package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
)

// Numbers of the fields of metav1.ObjectMeta, which can never change.
const (
	metaName            = 1
	metaNamespace       = 3
	metaSelfLink        = 4
	metaLabels          = 11
	metaOwnerReferences = 13
	// listMetaSelfLink is one of metav1.ListMeta.
	listMetaSelfLink = 1
)

// Numbers of the fields of a map's entry, of metav1.LabelSelector and of its
// requirements.
const (
	entryKey                 = 1
	entryValue               = 2
	selectorMatchLabels      = 1
	selectorMatchExpressions = 2
	requirementKey           = 1
	requirementValues        = 3
)

const namespaceNameLabel = "kubernetes.io/metadata.name"

// Numbers of the fields of metav1.Status and metav1.StatusDetails.
const (
	statusDetails = 5
	detailsName   = 1
	detailsKind   = 3
)

// ownerRef are the numbers of metav1.OwnerReference.
func ownerRef() *protoRef { return &protoRef{kind: 1, name: 3, apiVersion: 5} }

// identity reads the namespace and the name of an object. Its metadata comes
// once, or the object is refused later.
func (p *protoPlan) identity(b []byte, at int) (namespace, name []byte, err error) {
	for s := newScanner(b, at); ; {
		s.skipTo(p.some)
		f, ok, err := s.next()
		if err != nil || !ok {
			return nil, nil, err
		}
		if field := p.field(f.number); field == nil || !field.meta {
			continue
		}
		for s := newScanner(f.value, f.at); ; {
			s.skipTo(1<<metaName | 1<<metaNamespace)
			f, ok, err := s.next()
			if err != nil || !ok {
				return namespace, name, err
			}
			switch f.number {
			case metaName:
				name = f.value
			case metaNamespace:
				namespace = f.value
			}
		}
	}
}

// owner is the tenant whose object it is, by its composite namespace and name,
// or ErrForeign if the view does not show them.
func (t *protoTranslator) owner(namespace, name string) (string, error) {
	viewer := t.v.Tenant
	if viewer == space.All || viewer == "" {
		viewer = space.System
	}
	tenant := viewer
	switch {
	case name == "" && namespace == "":
		// A bookmark, or a review: an answer that is no stored object.
		return viewer, nil
	case namespace != "":
		tenant, _ = space.SplitNamespace(namespace)
	case t.r.Namespaced:
	case t.group == "" && t.kind == "Namespace":
		tenant, _ = space.SplitNamespace(name)
	case t.group == rbacGroup && t.kind == "ClusterRole" && t.v.SharedClusterRole(name):
		tenant = space.System
	case t.v.ClusterScoped(t.group, t.kind):
		tenant, _ = space.SplitClusterName(name)
	case t.r.MayBeSystem:
		tenant = space.System
	}
	switch {
	case t.v.Tenant == space.All, tenant == viewer, tenant == space.System && t.r.MayBeSystem:
		return tenant, nil
	}
	return "", fmt.Errorf("%w: %s", ErrForeign, t.kind)
}

// path is the full path of an object of tenant as t.v shows it.
func (t *protoTranslator) path(tenant, namespace, name string) (string, error) {
	r := t.r
	if name == "" || r.Version == "" || r.Resource == "" || r.Namespaced && namespace == "" {
		return "", nil
	}
	native, err := t.v.Namespace(Out, namespace)
	if err != nil {
		return "", err
	}
	if name, err = t.v.Name(Out, t.group, t.kind, name); err != nil {
		return "", err
	}
	return r.path(tenant, native) + "/" + name, nil
}

// appendMeta appends the ObjectMeta of an object. More says what the table has
// on it beyond the rules for all objects.
func (t *protoTranslator) appendMeta(dst, b []byte, at int, more *protoPlan) ([]byte, error) {
	const numbers = 1<<metaName | 1<<metaNamespace | 1<<metaSelfLink | 1<<metaLabels | 1<<metaOwnerReferences
	for s := newScanner(b, at); ; {
		start := s.position
		s.skipTo(numbers | more.numbers())
		dst = append(dst, b[start:s.position]...)
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		p := more.field(f.number)
		switch f.number {
		case metaName, metaNamespace, metaSelfLink, metaLabels, metaOwnerReferences:
			if f.kind != protowire.BytesType {
				return nil, malformed(f.at, "a field of the metadata has the wrong type")
			}
		default:
			if p != nil && f.kind != protowire.BytesType {
				return nil, malformed(f.at, "a field of the metadata has the wrong type")
			}
		}
		switch f.number {
		case metaName:
			if !t.renames {
				dst = append(dst, f.all...)
				continue
			}
			name, err := t.v.Name(t.d, t.group, t.kind, string(f.value))
			if err != nil {
				return nil, err
			}
			dst = appendString(dst, f, name)
		case metaNamespace:
			namespace, err := t.v.Namespace(t.d, t.namespaces.of(f.value))
			if err != nil {
				return nil, err
			}
			dst = appendString(dst, f, namespace)
		case metaSelfLink:
		case metaLabels:
			namespaces := t.group == "" && t.kind == "Namespace" || p != nil && p.op == references.NamespaceLabels
			dst, err = t.appendLabel(dst, f, namespaces, true)
		case metaOwnerReferences:
			dst, err = t.appendRef(dst, f, ownerRef())
		default:
			if p == nil {
				dst = append(dst, f.all...)
				continue
			}
			dst, err = t.appendField(dst, f, p)
		}
		if err != nil {
			return nil, err
		}
	}
	if t.selfLink != "" {
		dst = protowire.AppendString(protowire.AppendTag(dst, metaSelfLink, protowire.BytesType), t.selfLink)
	}
	return dst, nil
}

// appendListMeta appends the ListMeta of a list, which gets a selfLink unless that is empty.
func appendListMeta(dst, b []byte, at int, link string) ([]byte, error) {
	for s := newScanner(b, at); ; {
		start := s.position
		s.skipTo(1 << listMetaSelfLink)
		dst = append(dst, b[start:s.position]...)
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if f.number != listMetaSelfLink {
			dst = append(dst, f.all...)
		}
	}
	if link != "" {
		dst = protowire.AppendString(protowire.AppendTag(dst, listMetaSelfLink, protowire.BytesType), link)
	}
	return dst, nil
}

// appendRef appends a reference. What its name is depends on fields that may
// come after it, so it is read twice.
func (t *protoTranslator) appendRef(dst []byte, f protoValue, ref *protoRef) ([]byte, error) {
	if t.v.plain() {
		return append(dst, f.all...), nil
	}
	kind, group, err := t.readRef(ref, f)
	if err != nil {
		return nil, err
	}
	if group == "" && kind == "ClusterRole" && t.r.Group == rbacGroup {
		group = rbacGroup // the API server fills it in
	}
	return t.appendStrings(dst, f, 1<<ref.name|1<<ref.namespace,
		func(number protowire.Number, s string) (string, error) {
			switch number {
			case ref.name:
				return t.v.Name(t.d, group, kind, s)
			case ref.namespace:
				return t.v.Namespace(t.d, s)
			}
			return s, nil
		})
}

// appendSubject appends an RBAC subject.
func (t *protoTranslator) appendSubject(dst []byte, f protoValue, ref *protoRef) ([]byte, error) {
	kind, _, err := t.readRef(ref, f)
	if err != nil {
		return nil, err
	}
	return t.appendStrings(dst, f, 1<<ref.name|1<<ref.namespace,
		func(number protowire.Number, s string) (string, error) {
			switch {
			case number == ref.namespace:
				return t.v.Namespace(t.d, s)
			case number == ref.name && kind == "User":
				return t.v.User(t.d, s)
			case number == ref.name && kind == "Group":
				return t.v.Group(t.d, s)
			}
			return s, nil
		})
}

// readRef finds out what a reference is to.
func (t *protoTranslator) readRef(r *protoRef, f protoValue) (kind, group string, err error) {
	var rawKind, apiVersion, apiGroup []byte
	for s := newScanner(f.value, f.at); ; {
		s.skipTo(1<<r.kind | 1<<r.apiVersion | 1<<r.apiGroup)
		f, ok, err := s.next()
		if err != nil {
			return "", "", err
		}
		if !ok {
			break
		}
		switch f.number {
		case r.kind:
			rawKind = f.value
		case r.apiVersion:
			apiVersion = f.value
		case r.apiGroup:
			apiGroup = f.value
		default:
			continue
		}
		if f.kind != protowire.BytesType {
			return "", "", malformed(f.at, "a string of a reference has the wrong type")
		}
	}
	if group = string(apiGroup); group == "" && len(apiVersion) > 0 {
		group = t.apiVersions.of(apiVersion)
	}
	return t.kinds.of(rawKind), group, nil
}

// appendDetails appends the details of a Status.
func (t *protoTranslator) appendDetails(dst []byte, f protoValue, p *protoField) ([]byte, error) {
	plan := p.message
	var kind, name string
	for s := newScanner(f.value, f.at); ; {
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		switch f.number {
		case detailsName:
			name = string(f.value)
		case detailsKind:
			kind = string(f.value)
		}
	}
	// The kind is a plural or a kind, as whoever made it liked.
	if kind == "namespaces" || kind == "Namespace" || strings.HasSuffix(name, space.Suffix) {
		plan = p.named
	}
	return t.appendNested(dst, f, plan)
}

// appendStrings appends a message with its strings of some numbers translated.
func (t *protoTranslator) appendStrings(
	dst []byte, f protoValue, numbers uint64, translate func(protowire.Number, string) (string, error),
) ([]byte, error) {
	dst, n := nest(dst, f)
	for s := newScanner(f.value, f.at); ; {
		start := s.position
		s.skipTo(numbers)
		dst = append(dst, s.b[start:s.position]...)
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return n.end(dst), nil
		}
		if f.kind != protowire.BytesType {
			dst = append(dst, f.all...)
			continue
		}
		text, err := translate(f.number, string(f.value))
		if err != nil {
			return nil, err
		}
		dst = appendString(dst, f, text)
	}
}

// entry reads an entry of a map.
func entry(f protoValue) (key, value []byte, err error) {
	for s := newScanner(f.value, f.at); ; {
		f, ok, err := s.next()
		if err != nil || !ok {
			return key, value, err
		}
		switch f.number {
		case entryKey:
			key = f.value
		case entryValue:
			value = f.value
		default:
			continue
		}
		// The readers that are generated for Kubernetes do not look at the
		// type here, so another one would mean something else to them.
		if f.kind != protowire.BytesType {
			return nil, nil, malformed(f.at, "an entry of a map has the wrong type")
		}
	}
}

// appendEntry appends an entry of a map that the table has keys of.
func (t *protoTranslator) appendEntry(dst []byte, f protoValue, p *protoField) ([]byte, error) {
	key, _, err := entry(f)
	if err != nil {
		return nil, err
	}
	of := p.keys[string(key)]
	if of == nil {
		of = p.keys["*"]
	}
	if of == nil {
		return append(dst, f.all...), nil
	}
	plan := &protoPlan{}
	plan.set(entryValue, of)
	return t.appendNested(dst, f, plan)
}

// appendLabel appends an entry of labels, or of the matchLabels of a selector.
// Nobody but the storage layer has a say in the tenant's label.
func (t *protoTranslator) appendLabel(dst []byte, f protoValue, namespaces, strip bool) ([]byte, error) {
	key, _, err := entry(f)
	if err != nil {
		return nil, err
	}
	switch {
	case strip && string(key) == space.Label:
		return dst, nil
	case namespaces && string(key) == namespaceNameLabel && !t.v.plain():
		return t.appendStrings(dst, f, 1<<entryValue, func(number protowire.Number, s string) (string, error) {
			if number != entryValue {
				return s, nil
			}
			return t.v.Namespace(t.d, s)
		})
	}
	return append(dst, f.all...), nil
}

// appendSelector appends a LabelSelector over namespaces.
func (t *protoTranslator) appendSelector(dst, b []byte, at int) ([]byte, error) {
	for s := newScanner(b, at); ; {
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		switch {
		case f.number != selectorMatchLabels && f.number != selectorMatchExpressions:
			dst = append(dst, f.all...)
		case f.kind != protowire.BytesType:
			return nil, malformed(f.at, "a field of a selector has the wrong type")
		case f.number == selectorMatchLabels:
			dst, err = t.appendLabel(dst, f, true, true)
		default:
			dst, err = t.appendRequirement(dst, f)
		}
		if err != nil {
			return nil, err
		}
	}
	if t.d == In {
		label := protowire.AppendString(protowire.AppendTag(nil, entryKey, protowire.BytesType), space.Label)
		label = protowire.AppendString(protowire.AppendTag(label, entryValue, protowire.BytesType), t.v.Tenant)
		dst = protowire.AppendBytes(protowire.AppendTag(dst, selectorMatchLabels, protowire.BytesType), label)
	}
	return dst, nil
}

func (t *protoTranslator) appendRequirement(dst []byte, f protoValue) ([]byte, error) {
	var key []byte
	for s := newScanner(f.value, f.at); ; {
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if f.number == requirementKey {
			key = f.value
		}
	}
	if string(key) != namespaceNameLabel {
		return append(dst, f.all...), nil
	}
	return t.appendStrings(dst, f, 1<<requirementValues, func(number protowire.Number, s string) (string, error) {
		if number != requirementValues {
			return s, nil
		}
		return t.v.Namespace(t.d, s)
	})
}

// appendExtra appends the entry that says whose user it is. It comes last, and
// of two entries with one key the last counts.
func (t *protoTranslator) appendExtra(dst []byte, number protowire.Number) []byte {
	value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), t.v.Tenant)
	b := protowire.AppendString(protowire.AppendTag(nil, entryKey, protowire.BytesType), space.Extra)
	b = protowire.AppendBytes(protowire.AppendTag(b, entryValue, protowire.BytesType), value)
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}
