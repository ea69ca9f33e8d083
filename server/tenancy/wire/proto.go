package wire

import (
	"bytes"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
)

// protoMagic begins every message of Kubernetes.
const protoMagic = "k8s\x00"

// Numbers of the fields of runtime.Unknown and runtime.TypeMeta.
const (
	unknownTypeMeta    = 1
	unknownRaw         = 2
	typeMetaAPIVersion = 1
	typeMetaKind       = 2
)

// rawExtensionRaw is the number of the one field of runtime.RawExtension.
const rawExtensionRaw = 1

// Proto translates one message in Kubernetes' protobuf envelope ("k8s\0" and
// a runtime.Unknown). Objects, the items of lists too, and lists get a selfLink.
func (p *Projector) Proto(d Direction, r Resource, body []byte) ([]byte, error) {
	return p.AppendProto(make([]byte, 0, Room(len(body))), d, r, body)
}

// AppendProto appends to dst what Proto returns. After an error dst may be
// overwritten up to its capacity.
func (p *Projector) AppendProto(dst []byte, d Direction, r Resource, body []byte) ([]byte, error) {
	return (&protoEnvelopes{p: p, d: d, r: r}).append(dst, body, 0)
}

// protoEnvelopes translates whole messages. Most often one has the type of the
// one before, as in a watch.
type protoEnvelopes struct {
	p *Projector
	d Direction
	r Resource
	// typeMeta is what the last envelope said, kind and t are made for that.
	typeMeta []byte
	kind     *protoKind
	t        *protoTranslator
}

// of prepares for what an envelope says of its type.
func (c *protoEnvelopes) of(typeMeta []byte, at int) error {
	if c.t != nil && bytes.Equal(typeMeta, c.typeMeta) {
		return nil
	}
	c.t = nil
	var e envelope
	err := e.parseTypeMeta(typeMeta, at)
	if err != nil {
		return err
	}
	if c.kind, err = c.p.protoKindOf(e.apiVersion, e.kind, c.r); err != nil {
		return err
	}
	c.t = c.p.translator(c.d, c.r, e.apiVersion, e.kind)
	c.typeMeta = append(c.typeMeta[:0], typeMeta...)
	return nil
}

// append appends the translation of a whole message; at is where it lies in
// what was received, for errors.
func (c *protoEnvelopes) append(dst, body []byte, at int) ([]byte, error) {
	if c.p.Groups != "" {
		return appendGrouped(dst, body, at, c.p.Groups)
	}
	if !bytes.HasPrefix(body, []byte(protoMagic)) {
		return nil, malformed(at, "it does not begin with the prefix of Kubernetes' protobuf")
	}
	body, at = body[len(protoMagic):], at+len(protoMagic)
	typeMeta, typeAt, err := typeMetaOf(body, at)
	if err != nil {
		return nil, err
	}
	if err := c.of(typeMeta, typeAt); err != nil {
		return nil, err
	}
	if c.d == In && c.kind.list {
		return nil, malformed(typeAt, fmt.Sprintf("a list is no object of the kind %s", c.r.Kind))
	}
	dst = append(dst, protoMagic...)
	for s := newScanner(body, at); ; {
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return dst, nil
		}
		if f.number != unknownRaw {
			dst = append(dst, f.all...)
			continue
		}
		var n nesting
		dst, n = nest(dst, f)
		if dst, err = c.t.appendTop(dst, f.value, f.at, c.kind); err != nil {
			return nil, err
		}
		dst = n.end(dst)
	}
}

// envelope is what has to be known of a runtime.Unknown beforehand.
type envelope struct {
	apiVersion, kind string
}

// typeMetaOf finds what an envelope says of its type. It refuses fields that come
// twice: which of them counts would be up to whoever reads it.
func typeMetaOf(b []byte, at int) (typeMeta []byte, typeAt int, err error) {
	var seen uint64
	for s := newScanner(b, at); ; {
		f, ok, err := s.next()
		if err != nil || !ok {
			return typeMeta, typeAt, err
		}
		if f.number > 4 {
			continue
		}
		if seen&(1<<f.number) != 0 {
			return nil, 0, malformed(f.at, "a field of the envelope comes twice")
		}
		seen |= 1 << f.number
		if f.kind != protowire.BytesType {
			return nil, 0, malformed(f.at, "a field of the envelope has the wrong type")
		}
		if f.number == unknownTypeMeta {
			typeMeta, typeAt = f.value, f.at
		}
	}
}

func (e *envelope) parseTypeMeta(b []byte, at int) error {
	for s := newScanner(b, at); ; {
		f, ok, err := s.next()
		if err != nil || !ok {
			return err
		}
		switch {
		case f.number != typeMetaAPIVersion && f.number != typeMetaKind:
		case f.kind != protowire.BytesType:
			return malformed(f.at, "a string has the wrong type")
		case f.number == typeMetaAPIVersion:
			e.apiVersion = string(f.value)
		default:
			e.kind = string(f.value)
		}
	}
}

// protoTranslator applies the plan of a kind to messages of it.
type protoTranslator struct {
	projector *Projector
	d         Direction
	r         Resource
	// group and kind are those of the objects, for their own names.
	group, kind string
	// v is how the object is seen that is being translated.
	v *View
	// selfLink is what the object's metadata gets.
	selfLink string
	// renames says that the names of the objects themselves are translated.
	renames bool
	// What often comes again.
	namespaces, names, kinds lastText
	apiVersions              lastGroup
	// bounded says that nothing may get longer. Only a text can, when what
	// stands for a hidden name is longer than the name.
	bounded bool
}

func (p *Projector) translator(d Direction, r Resource, apiVersion, kind string) *protoTranslator {
	t := &protoTranslator{projector: p, d: d, r: r, group: r.Group, kind: r.Kind, v: p.View}
	if r.Kind == "" {
		gv, _ := schema.ParseGroupVersion(apiVersion) //nolint:errcheck // it was parsed for the plan
		t.group, t.kind = gv.Group, kind
	}
	t.renames = !r.Namespaced && (t.group == "" && t.kind == "Namespace" || t.v.ClusterScoped(t.group, t.kind))
	return t
}

// lastGroup spares reading an apiVersion that is the same as the one before.
type lastGroup struct{ apiVersion, group string }

func (l *lastGroup) of(raw []byte) string {
	if string(raw) != l.apiVersion {
		l.apiVersion = string(raw)
		gv, _ := schema.ParseGroupVersion(l.apiVersion) //nolint:errcheck // what cannot be read names no kind of ours
		l.group = gv.Group
	}
	return l.group
}

// appendTop appends what the envelope holds.
func (t *protoTranslator) appendTop(dst, b []byte, at int, k *protoKind) ([]byte, error) {
	if t.d == In && k.shape != nil {
		if err := k.shape.limit(b, at, maxMessages); err != nil {
			return nil, err
		}
	}
	switch {
	case k.list:
		return t.appendMessage(dst, b, at, k.object)
	case k.status:
		t.selfLink = ""
		return t.appendMessage(dst, b, at, k.object)
	default:
		return t.appendObject(dst, b, at, k.object, true)
	}
}

// appendObject appends an object. Outwards it finds out first whose it is.
func (t *protoTranslator) appendObject(dst, b []byte, at int, plan *protoPlan, selfLink bool) ([]byte, error) {
	t.selfLink, t.v = "", t.projector.View
	if t.d == Out {
		rawNamespace, rawName, err := plan.identity(b, at)
		if err != nil {
			return nil, err
		}
		namespace, name := t.namespaces.of(rawNamespace), t.names.of(rawName)
		tenant, err := t.owner(namespace, name)
		if err != nil {
			return nil, err
		}
		if t.v.Tenant == space.All && (namespace != "" || name != "") {
			own := *t.v
			own.Tenant = tenant
			t.v = &own
		}
		if selfLink {
			if t.selfLink, err = t.path(tenant, namespace, name); err != nil {
				return nil, err
			}
		}
	}
	return t.appendMessage(dst, b, at, plan)
}

// appendMessage appends a message, field by field: runs of fields that are not
// in the plan are copied at once.
func (t *protoTranslator) appendMessage(dst, b []byte, at int, plan *protoPlan) ([]byte, error) {
	var seen uint64
	copied := 0
	s, numbers := newScanner(b, at), plan.numbers()
	for {
		s.skipTo(numbers)
		start := s.position
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		p := plan.field(f.number)
		if p == nil {
			continue
		}
		if f.kind != protowire.BytesType {
			return nil, malformed(f.at, "a field has the wrong type")
		}
		// Parts of one message would be merged by who reads them, but be
		// translated apart here.
		if !p.repeated && (p.message != nil || p.ref != nil || p.meta || p.listMeta ||
			p.op == references.NamespaceSelector) {
			if f.number < 64 && seen&(1<<f.number) != 0 || f.number >= 64 {
				return nil, malformed(f.at, "a message comes twice")
			}
			seen |= 1 << f.number
		}
		dst = append(dst, b[copied:start]...)
		copied = s.position
		if dst, err = t.appendField(dst, f, p); err != nil {
			return nil, err
		}
	}
	dst = append(dst, b[copied:]...)
	if t.d == In && !t.v.plain() {
		for _, number := range plan.extras {
			dst = t.appendExtra(dst, number)
		}
	}
	return dst, nil
}

// appendField appends one field that is in the plan.
func (t *protoTranslator) appendField(dst []byte, f protoValue, p *protoField) ([]byte, error) {
	var err error
	switch {
	case p.item != nil:
		dst, n := nest(dst, f)
		if dst, err = t.appendObject(dst, f.value, f.at, p.item, true); err != nil {
			return nil, err
		}
		return n.end(dst), nil
	case p.listMeta:
		dst, n := nest(dst, f)
		if dst, err = appendListMeta(dst, f.value, f.at, t.r.listLink(t.d, t.projector.View.Tenant)); err != nil {
			return nil, err
		}
		return n.end(dst), nil
	case p.meta:
		dst, n := nest(dst, f)
		if dst, err = t.appendMeta(dst, f.value, f.at, p.message); err != nil {
			return nil, err
		}
		return n.end(dst), nil
	case t.v.plain():
		return append(dst, f.all...), nil
	case p.named != nil:
		return t.appendDetails(dst, f, p)
	case p.message != nil:
		return t.appendNested(dst, f, p.message)
	case p.keys != nil:
		return t.appendEntry(dst, f, p)
	case p.json != nil:
		return t.appendJSON(dst, f, p.json)
	}
	switch p.op {
	case references.Ref:
		return t.appendRef(dst, f, p.ref)
	case references.Subject:
		return t.appendSubject(dst, f, p.ref)
	case references.NamespaceSelector:
		dst, n := nest(dst, f)
		if dst, err = t.appendSelector(dst, f.value, f.at); err != nil {
			return nil, err
		}
		return n.end(dst), nil
	case references.NamespaceLabels:
		return t.appendLabel(dst, f, true, false)
	case references.Extra:
		key, _, err := entry(f)
		if err != nil || string(key) == space.Extra {
			return dst, err
		}
		return append(dst, f.all...), nil
	}
	if p.op == references.Text && bytes.IndexByte(f.value, '.') < 0 {
		return append(dst, f.all...), nil // it mentions no composite name
	}
	s, err := t.text(p.op, f.value)
	if err != nil {
		return nil, err
	}
	return appendString(dst, f, s), nil
}

// appendJSON appends a field whose value is an object in JSON.
func (t *protoTranslator) appendJSON(dst []byte, f protoValue, node *Node) ([]byte, error) {
	j := t.projector.json(t.d, t.r)
	j.v, j.src = t.v, f.value
	j.value(node)
	if j.err == nil && j.peek() != 0 {
		j.malformed("something follows the object")
	}
	value, err := j.result()
	if err != nil {
		return nil, err
	}
	return appendString(dst, f, string(value)), nil
}

// text translates a string.
func (t *protoTranslator) text(op references.Op, value []byte) (string, error) {
	s := string(value)
	switch op {
	case references.Namespace:
		return t.v.Namespace(t.d, s)
	case references.ClusterName:
		return t.v.ClusterName(t.d, s)
	case references.User:
		return t.v.User(t.d, s)
	case references.Group:
		return t.v.Group(t.d, s)
	case references.Text:
		if t.d != Out {
			return s, nil
		}
		shown := t.v.Text(s)
		if t.bounded && len(shown) > len(s) {
			shown = strings.ToValidUTF8(shown[:len(s)], "")
		}
		return shown, nil
	}
	return s, nil
}

// appendNested appends a message that is a field.
func (t *protoTranslator) appendNested(dst []byte, f protoValue, plan *protoPlan) ([]byte, error) {
	dst, n := nest(dst, f)
	dst, err := t.appendMessage(dst, f.value, f.at, plan)
	if err != nil {
		return nil, err
	}
	return n.end(dst), nil
}

// nesting is where the length of a field is to be, and how many bytes there are
// for it.
type nesting struct{ begin, reserved int }

// nest begins a field whose value is appended next, in place of that of f.
func nest(dst []byte, f protoValue) ([]byte, nesting) {
	dst = protowire.AppendTag(dst, f.number, protowire.BytesType)
	n := nesting{begin: len(dst), reserved: protowire.SizeVarint(uint64(len(f.value)))}
	return append(dst, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:n.reserved]...), n
}

// end puts the length before the value.
func (n nesting) end(dst []byte) []byte {
	length := len(dst) - n.begin - n.reserved
	if size := protowire.SizeVarint(uint64(length)); size != n.reserved {
		if size > n.reserved {
			dst = append(dst, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:size-n.reserved]...)
		}
		copy(dst[n.begin+size:], dst[n.begin+n.reserved:n.begin+n.reserved+length])
		dst = dst[:n.begin+size+length]
	}
	protowire.AppendVarint(dst[:n.begin], uint64(length))
	return dst
}

// appendString appends a field with another string, or as it was.
func appendString(dst []byte, f protoValue, s string) []byte {
	if string(f.value) == s {
		return append(dst, f.all...)
	}
	return protowire.AppendString(protowire.AppendTag(dst, f.number, protowire.BytesType), s)
}
