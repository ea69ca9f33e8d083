package wire

import (
	"bytes"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
// a runtime.Unknown). Objects get a selfLink, items of a list do not: they
// must not grow, see protostream.go.
func (p *Projector) Proto(d Direction, r Resource, body []byte) ([]byte, error) {
	return p.appendEnvelope(make([]byte, 0, len(body)+len(body)/8+256), d, r, body, 0)
}

// appendEnvelope appends the translation of a whole message; at is where it
// lies in what was received, for errors.
func (p *Projector) appendEnvelope(dst []byte, d Direction, r Resource, body []byte, at int) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte(protoMagic)) {
		return nil, malformed(at, "it does not begin with the prefix of Kubernetes' protobuf")
	}
	e, err := parseEnvelope(body[len(protoMagic):], at+len(protoMagic))
	if err != nil {
		return nil, err
	}
	kind, err := p.protoKindOf(e.apiVersion, e.kind, r)
	if err != nil {
		return nil, err
	}
	t := p.translator(d, r, e.apiVersion, e.kind)
	dst = append(dst, protoMagic...)
	for s := newScanner(body[len(protoMagic):], at+len(protoMagic)); ; {
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
		dst, err = t.appendNested(dst, f, func(dst []byte) ([]byte, error) { return t.appendTop(dst, f.value, f.at, kind) })
		if err != nil {
			return nil, err
		}
	}
}

// envelope is what has to be known of a runtime.Unknown beforehand.
type envelope struct {
	apiVersion, kind string
}

// parseEnvelope refuses fields that come twice: which of them counts would be
// up to whoever reads it.
func parseEnvelope(b []byte, at int) (envelope, error) {
	var e envelope
	seen := map[protowire.Number]bool{}
	for s := newScanner(b, at); ; {
		f, ok, err := s.next()
		if err != nil || !ok {
			return e, err
		}
		if f.number > 4 {
			continue
		}
		if seen[f.number] {
			return e, malformed(f.at, "a field of the envelope comes twice")
		}
		seen[f.number] = true
		if f.kind != protowire.BytesType {
			return e, malformed(f.at, "a field of the envelope has the wrong type")
		}
		if f.number == unknownTypeMeta {
			if err := e.parseTypeMeta(f.value, f.at); err != nil {
				return e, err
			}
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
	return t
}

// appendTop appends what the envelope holds.
func (t *protoTranslator) appendTop(dst, b []byte, at int, k *protoKind) ([]byte, error) {
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
		namespace, name, err := plan.identity(b, at)
		if err != nil {
			return nil, err
		}
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
	s := newScanner(b, at)
	for {
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
		if !p.repeated && (p.message != nil || p.ref != nil || p.meta || p.op == NamespaceSelector) {
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
	if t.d == In && !t.plain() {
		for _, number := range plan.extras {
			dst = t.appendExtra(dst, number)
		}
	}
	return dst, nil
}

// appendField appends one field that is in the plan.
func (t *protoTranslator) appendField(dst []byte, f protoValue, p *protoField) ([]byte, error) {
	switch {
	case p.item != nil:
		return t.appendNested(dst, f, func(dst []byte) ([]byte, error) {
			return t.appendObject(dst, f.value, f.at, p.item, false)
		})
	case p.meta:
		return t.appendNested(dst, f, func(dst []byte) ([]byte, error) { return t.appendMeta(dst, f.value, f.at, p.message) })
	case t.plain():
		return append(dst, f.all...), nil
	case p.named != nil:
		return t.appendDetails(dst, f, p)
	case p.message != nil:
		return t.appendNested(dst, f, func(dst []byte) ([]byte, error) { return t.appendMessage(dst, f.value, f.at, p.message) })
	case p.keys != nil:
		return t.appendEntry(dst, f, p)
	case p.json != nil:
		return t.appendJSON(dst, f, p.json)
	}
	switch p.op {
	case Ref:
		return t.appendRef(dst, f, p.ref)
	case Subject:
		return t.appendSubject(dst, f, p.ref)
	case NamespaceSelector:
		return t.appendNested(dst, f, func(dst []byte) ([]byte, error) { return t.appendSelector(dst, f.value, f.at) })
	case NamespaceLabels:
		return t.appendLabel(dst, f, true, false)
	case Extra:
		key, _, err := entry(f)
		if err != nil || string(key) == space.Extra {
			return dst, err
		}
		return append(dst, f.all...), nil
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
func (t *protoTranslator) text(op Op, value []byte) (string, error) {
	s := string(value)
	switch op {
	case Namespace:
		return t.v.Namespace(t.d, s)
	case ClusterName:
		return t.v.ClusterName(t.d, s)
	case User:
		return t.v.User(t.d, s)
	case Group:
		return t.v.Group(t.d, s)
	case Text:
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

// appendNested appends a field whose value f makes, with the right length.
func (t *protoTranslator) appendNested(dst []byte, f protoValue, value func([]byte) ([]byte, error)) ([]byte, error) {
	dst = protowire.AppendTag(dst, f.number, protowire.BytesType)
	reserved := protowire.SizeVarint(uint64(len(f.value)))
	begin := len(dst)
	dst = append(dst, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:reserved]...)
	dst, err := value(dst)
	if err != nil {
		return nil, err
	}
	n := len(dst) - begin - reserved
	if size := protowire.SizeVarint(uint64(n)); size != reserved {
		if size > reserved {
			dst = append(dst, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:size-reserved]...)
		}
		copy(dst[begin+size:], dst[begin+reserved:begin+reserved+n])
		dst = dst[:begin+size+n]
	}
	protowire.AppendVarint(dst[:begin], uint64(n))
	return dst, nil
}

// appendString appends a field with another string, or as it was.
func appendString(dst []byte, f protoValue, s string) []byte {
	if string(f.value) == s {
		return append(dst, f.all...)
	}
	return protowire.AppendString(protowire.AppendTag(dst, f.number, protowire.BytesType), s)
}

// protoValue is one field of a message.
type protoValue struct {
	number protowire.Number
	kind   protowire.Type
	// value is the content of a field of bytes, all the field with its tag.
	value, all []byte
	// at is where the value lies in what was received.
	at int
}

// protoScanner goes over the fields of a message.
type protoScanner struct {
	b            []byte
	at, position int
}

func newScanner(b []byte, at int) *protoScanner { return &protoScanner{b: b, at: at} }

// next is the next field; ok is false at the end.
func (s *protoScanner) next() (f protoValue, ok bool, err error) {
	if s.position == len(s.b) {
		return f, false, nil
	}
	rest := s.b[s.position:]
	number, kind, n := protowire.ConsumeTag(rest)
	if n < 0 {
		return f, false, malformed(s.at+s.position, "a tag cannot be read")
	}
	f = protoValue{number: number, kind: kind, at: s.at + s.position}
	var m int
	switch kind {
	case protowire.VarintType:
		_, m = protowire.ConsumeVarint(rest[n:])
	case protowire.Fixed32Type:
		_, m = protowire.ConsumeFixed32(rest[n:])
	case protowire.Fixed64Type:
		_, m = protowire.ConsumeFixed64(rest[n:])
	case protowire.BytesType:
		f.value, m = protowire.ConsumeBytes(rest[n:])
		f.at += n + m - len(f.value)
	default:
		// Nothing in Kubernetes has groups.
		m = -1
	}
	if m < 0 {
		return f, false, malformed(s.at+s.position, "a field cannot be read")
	}
	f.all = rest[:n+m]
	s.position += n + m
	return f, true, nil
}

func malformed(at int, what string) error {
	return fmt.Errorf("%w: protobuf at byte %d: %s", ErrMalformed, at, what)
}
