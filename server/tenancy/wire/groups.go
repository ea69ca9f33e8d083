package wire

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The endpoints of the API say of each subset which service group its servers are of
// (seed: data-partition, "API Changes"). Upstream's type has no field for that, so the
// groups stand in an annotation of that one object, and what is sent has them where the
// seed says.

const (
	apiEndpoints = "kubernetes" // in the namespace default
	groupField   = "serviceGroupId"
)

// Numbers of fields of Endpoints, EndpointsList and ObjectMeta, and that of the group in
// a subset.
const (
	endpointsMeta    = 1
	endpointsSubsets = 2
	listItems        = 2
	metaAnnotations  = 12
	subsetGroup      = 4
)

// endpointsIdentity is what is known of an object before its subsets are shown.
type endpointsIdentity struct {
	namespace, name, groups string
	subsets                 int
}

// of are the groups of its subsets, nil if it is another object or does not say so
// for each.
func (e endpointsIdentity) of() []string {
	if e.namespace != metav1.NamespaceDefault || e.name != apiEndpoints || e.subsets == 0 {
		return nil
	}
	groups := strings.Split(e.groups, ",")
	if len(groups) != e.subsets {
		return nil
	}
	return groups
}

// groupedJSON adds the groups to JSON; annotation says them.
type groupedJSON struct {
	*scanner
	annotation string
}

// document goes over Endpoints, or a list of them.
func (t groupedJSON) document(top bool) {
	if t.peek() != '{' {
		t.skip()
		return
	}
	begin := t.here()
	groups := t.identity().of()
	if t.err != nil {
		return // where it ends too early, there is more to come
	}
	t.back(begin)
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch begins := t.peek(); {
		case groups != nil && string(key) == "subsets" && begins == '[':
			for n := 0; t.element(n); n++ {
				t.subset(groups[min(n, len(groups)-1)])
			}
		case top && string(key) == "items" && begins == '[':
			for n := 0; t.element(n); n++ {
				t.document(false)
			}
		default:
			t.skip()
		}
	}
}

// subset adds the group to the subset that begins here.
func (t groupedJSON) subset(group string) {
	if t.peek() != '{' {
		t.skip()
		return
	}
	m := t.open()
	for _, ok := t.next(&m); ok; _, ok = t.next(&m) {
		t.skip()
	}
	if t.err != nil || group == "" {
		return
	}
	m.insert(t.scanner)
	t.dst = append(t.dst, `"`+groupField+`":`...)
	t.dst = appendJSONString(t.dst, group)
}

// endpointsIdentity reads which object begins here.
func (t groupedJSON) identity() (e endpointsIdentity) {
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch begins := t.peek(); {
		case string(key) == "subsets" && begins == '[':
			for t.element(e.subsets) {
				t.skip()
				e.subsets++
			}
		case string(key) == "metadata" && begins == '{':
			t.meta(&e)
		default:
			t.skip()
		}
	}
	return e
}

func (t groupedJSON) meta(e *endpointsIdentity) {
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch begins := t.peek(); {
		case string(key) == "name" && begins == '"':
			e.name = t.text()
		case string(key) == "namespace" && begins == '"':
			e.namespace = t.text()
		case string(key) == "annotations" && begins == '{':
			a := t.open()
			for key, ok := t.next(&a); ok; key, ok = t.next(&a) {
				if string(key) == t.annotation && t.peek() == '"' {
					e.groups = t.text()
				} else {
					t.skip()
				}
			}
		default:
			t.skip()
		}
	}
}

// appendGrouped appends a message in Kubernetes' envelope, with the groups if it is of
// Endpoints or a list of them. annotation says them.
func appendGrouped(dst, body []byte, at int, annotation string) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte(protoMagic)) {
		return nil, malformed(at, "it does not begin with the prefix of Kubernetes' protobuf")
	}
	message, at := body[len(protoMagic):], at+len(protoMagic)
	typeMeta, typeAt, err := typeMetaOf(message, at)
	if err != nil {
		return nil, err
	}
	var e envelope
	if err := e.parseTypeMeta(typeMeta, typeAt); err != nil {
		return nil, err
	}
	object := func(dst []byte, f protoValue) ([]byte, error) {
		return appendEndpoints(dst, f.value, f.at, annotation)
	}
	switch {
	case e.apiVersion == "v1" && e.kind == "Endpoints":
		return appendEach(append(dst, protoMagic...), message, at, unknownRaw, object)
	case e.apiVersion == "v1" && e.kind == "EndpointsList":
		list := func(dst []byte, f protoValue) ([]byte, error) {
			return appendEach(dst, f.value, f.at, listItems, object)
		}
		return appendEach(append(dst, protoMagic...), message, at, unknownRaw, list)
	}
	return append(dst, body...), nil
}

// appendEndpoints appends Endpoints, with their groups.
func appendEndpoints(dst, b []byte, at int, annotation string) ([]byte, error) {
	e, err := protoEndpoints(b, at, annotation)
	if err != nil {
		return nil, err
	}
	groups := e.of()
	if groups == nil {
		return append(dst, b...), nil
	}
	n := 0
	return appendEach(dst, b, at, endpointsSubsets, func(dst []byte, f protoValue) ([]byte, error) {
		dst = append(dst, f.value...)
		if group := groups[n]; group != "" {
			dst = protowire.AppendString(protowire.AppendTag(dst, subsetGroup, protowire.BytesType), group)
		}
		n++
		return dst, nil
	})
}

// appendEach appends a message with all fields of one number translated.
func appendEach(
	dst, b []byte, at int, number protowire.Number, value func([]byte, protoValue) ([]byte, error),
) ([]byte, error) {
	for s := newScanner(b, at); ; {
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		switch {
		case !ok:
			return dst, nil
		case f.number != number || f.kind != protowire.BytesType:
			dst = append(dst, f.all...)
			continue
		}
		var n nesting
		dst, n = nest(dst, f)
		if dst, err = value(dst, f); err != nil {
			return nil, err
		}
		dst = n.end(dst)
	}
}

// protoEndpoints reads which object it is.
func protoEndpoints(b []byte, at int, annotation string) (e endpointsIdentity, err error) {
	err = eachBytes(b, at, func(f protoValue) error {
		switch f.number {
		case endpointsSubsets:
			e.subsets++
		case endpointsMeta:
			return e.readMeta(f, annotation)
		}
		return nil
	})
	return e, err
}

func (e *endpointsIdentity) readMeta(meta protoValue, annotation string) error {
	return eachBytes(meta.value, meta.at, func(f protoValue) error {
		switch f.number {
		case metaName:
			e.name = string(f.value)
		case metaNamespace:
			e.namespace = string(f.value)
		case metaAnnotations:
			var key, value []byte
			err := eachBytes(f.value, f.at, func(f protoValue) error {
				switch f.number {
				case entryKey:
					key = f.value
				case entryValue:
					value = f.value
				}
				return nil
			})
			if string(key) == annotation {
				e.groups = string(value)
			}
			return err
		}
		return nil
	})
}

// eachBytes goes over the fields of a message that hold bytes.
func eachBytes(b []byte, at int, do func(protoValue) error) error {
	for s := newScanner(b, at); ; {
		f, ok, err := s.next()
		if err != nil || !ok {
			return err
		}
		if f.kind != protowire.BytesType {
			continue
		}
		if err := do(f); err != nil {
			return err
		}
	}
}
