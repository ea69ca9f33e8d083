package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
)

const metaGroup = "meta.k8s.io"

// JSON translates one JSON document of resource r: an object, a list, a
// Status, a Table, or a PartialObjectMetadata or list of these.
func (p *Projector) JSON(d Direction, r Resource, body []byte) ([]byte, error) {
	return p.AppendJSON(make([]byte, 0, Room(len(body))), d, r, body)
}

// AppendJSON appends to dst what JSON returns. After an error dst may be
// overwritten up to its capacity.
func (p *Projector) AppendJSON(dst []byte, d Direction, r Resource, body []byte) ([]byte, error) {
	out, err := p.appendJSON(dst, d, r, body)
	if errors.Is(err, errTwice) {
		if body, err = lastOfEach(body, r.Merges); err == nil {
			out, err = p.appendJSON(dst, d, r, body)
		}
	}
	return out, err
}

func (p *Projector) appendJSON(dst []byte, d Direction, r Resource, body []byte) ([]byte, error) {
	t := p.json(d, r)
	t.src, t.dst = body, dst
	t.document(true)
	if t.err == nil && t.peek() != 0 {
		t.malformed("something follows the document")
	}
	return t.result()
}

// Room is what the translation of so many bytes usually needs.
func Room(n int) int { return n + n/8 + 256 }

// translation translates JSON of one resource: documents, and with what it embeds
// their metadata and values.
type translation struct {
	objectMeta
	// node is that of the resource's own kind.
	node *Node
}

// lastText spares a copy of a text that is the same as the one before.
type lastText struct{ text string }

func (l *lastText) of(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if string(raw) != l.text {
		l.text = string(raw)
	}
	return l.text
}

func (p *Projector) json(d Direction, r Resource) *translation {
	t := &translation{}
	t.p, t.d, t.r, t.v = p, d, r, p.View
	t.node = t.lookup(r.Group, r.Kind)
	t.keepLines = d == In
	return t
}

// begin makes the translation ready for another document, which is appended
// to dst.
func (t *translation) begin(src, dst []byte) {
	t.scanner = scanner{src: src, dst: dst}
	t.v = t.p.View
	t.emptied, t.verbatim = false, ""
}

func (t *translation) result() ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	t.flush(len(t.src))
	return t.dst, nil
}

func (t *translation) lookup(group, kind string) *Node {
	if t.p.Table == nil || kind == "" {
		return nil
	}
	return t.p.Table.Node(group, kind)
}

// docKind is what is known of the kind of a document.
type docKind struct{ group, kind string }

// form is how a document is built.
type form int

const (
	formObject form = iota
	formList
	formTable
	formStatus
)

// shape is how a document is translated.
type shape struct {
	form form
	node *Node
}

// shape finds out how a document is translated; what it does not say of itself
// is taken from the resource.
func (t *translation) shape(k docKind, said bool) shape {
	switch {
	case k.kind == "":
		return shape{formObject, t.node}
	case !said:
		k.group = t.r.Group
	}
	switch {
	case k.kind == t.r.Kind && k.group == t.r.Group:
		return shape{formObject, t.node}
	case k.kind == "Status" && (k.group == "" || !said):
		return shape{form: formStatus}
	case k.kind == "Table" && k.group == metaGroup:
		return shape{form: formTable}
	case strings.HasSuffix(k.kind, "List") && k.kind != t.r.Kind:
		return shape{form: formList}
	}
	return shape{formObject, t.lookup(k.group, k.kind)}
}

// document translates the object that begins here. Outwards one at the top may be
// a list or a Table of others; those are followed no further, so that the work
// does not grow with the depth.
func (t *translation) document(top bool) {
	if t.p.Groups != "" {
		groupedJSON{&t.scanner, t.p.Groups}.document(top)
		return
	}
	if t.peek() != '{' || t.p.Composite && !top {
		t.skip()
		return
	}
	all := t.p.View
	if t.d == Out && all.Tenant == space.All {
		t.v = t.ownView()
	}
	begin := t.here()
	if top {
		k, said := t.saysType()
		if t.err != nil {
			return
		}
		t.back(begin)
		if t.p.Composite && t.shape(k, said).form != formTable {
			t.skip()
			return
		}
		t.object(k, said, true, true)
	} else if k, said, again := t.object(docKind{}, false, false, false); again && t.err == nil {
		// Items of lists have their kind first, or that of the resource and
		// don't say it, with rare exceptions: those are translated again.
		t.back(begin)
		t.object(k, said, true, false)
	}
	t.v = all
}

// saysType reads the kind and the group of the object that begins here, and
// whether it says a group. What comes first counts: inwards nothing may come
// twice, and nothing does outwards.
func (t *translation) saysType() (k docKind, said bool) {
	m := t.open()
	for key, ok := t.next(&m); ok && (k.kind == "" || !said); key, ok = t.next(&m) {
		switch {
		case t.peek() != '"':
			t.skip()
		case string(key) == "kind":
			raw := t.rawText()
			if k.kind = t.r.Kind; string(raw) != k.kind {
				k.kind = string(raw)
			}
		case string(key) == "apiVersion":
			// Without a version the API server takes that of the resource.
			if raw := t.rawText(); len(raw) > 0 && string(raw) != "/" {
				k.group, said = t.groups.of(groupBytes(raw)), true
			}
		default:
			t.skip()
		}
	}
	return k, said
}

// notType refuses inwards keys that the API server takes for kind or apiVersion
// although they are written otherwise: it would read another kind than this
// package.
func (t *translation) notType(key []byte) {
	for _, is := range []string{"kind", "apiVersion"} {
		if len(key) >= len(is) && len(key) <= len(is)+2 && bytes.EqualFold(key, []byte(is)) {
			t.malformed(fmt.Sprintf("%q is the key %s, which is written so", key, is))
		}
	}
}

// ownView is how its own tenant sees the object that begins here.
func (t *translation) ownView() *View {
	begin := t.here()
	namespace, name := t.identity()
	t.back(begin)
	if name == "" && namespace == "" {
		return t.p.View
	}
	own := *t.p.View
	own.Tenant = t.owner(docKind{t.r.Group, t.r.Kind}, namespace, name)
	return &own
}

// identity reads the namespace and the name of the object that begins here.
func (t *translation) identity() (namespace, name string) {
	if t.peek() != '{' {
		return "", ""
	}
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		if string(key) != "metadata" || t.peek() != '{' {
			t.skip()
			continue
		}
		meta := t.open()
		for key, ok := t.next(&meta); ok; key, ok = t.next(&meta) {
			switch {
			case t.peek() != '"':
				t.skip()
			case string(key) == "name":
				name = t.text()
			case string(key) == "namespace":
				namespace = t.text()
			default:
				t.skip()
			}
		}
	}
	return namespace, name
}

// object goes over the document that begins here, which is of the kind k and
// says its group or not. Unless that is final, another kind may turn up after
// what depends on it, and again is true.
func (t *translation) object(k docKind, said, final, top bool) (own docKind, saidIt, again bool) {
	cur := t.shape(k, said)
	t.follow(cur, k, top)
	own = k
	touched := false
	var seen keys
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch string(key) {
		case "kind", "apiVersion":
			if t.d == In && !seen.add(&t.scanner, key) {
				continue
			}
			if t.peek() != '"' {
				t.skip()
				continue
			}
			isKind := string(key) == "kind"
			value := t.rawText()
			if final {
				continue
			}
			if isKind {
				if own.kind = t.r.Kind; string(value) != own.kind {
					own.kind = string(value)
				}
			} else {
				own.group, said = t.groups.of(groupBytes(value)), true
			}
			if is := t.shape(own, said); is != cur {
				again = again || touched
				cur = is
				if own.kind != "" && said {
					t.follow(cur, own, top)
				}
			}
		case "metadata":
			if t.d == In && !seen.add(&t.scanner, key) {
				continue
			}
			touched = true
			t.topMetadata(cur, own, said)
		default:
			touched = true
			if t.d == In {
				t.notType(key)
			}
			t.member(&m, &cur, top && own.kind == "" && t.d == Out, key, &seen)
		}
	}
	t.follow(cur, own, top)
	if t.d == In && cur.form == formObject && cur.node != nil {
		t.missingExtra(cur.node, &seen, &m)
	}
	return own, said, again
}

// follow refuses lists and Tables where there can be none: in what tenants send,
// and in other lists.
func (t *translation) follow(is shape, k docKind, top bool) {
	if (is.form == formList || is.form == formTable) && (t.d == In || !top) {
		t.malformed(fmt.Sprintf("a %s is no object of the kind %s", k.kind, t.r.Kind))
	}
}

// member translates a member of a document that is not its type or metadata.
// One of which the kind cannot be known may be a list.
func (t *translation) member(m *members, cur *shape, maybeList bool, key []byte, seen *keys) {
	begins := t.peek()
	switch {
	case string(key) == "items" && begins == '[' && (cur.form == formList || maybeList):
		if cur.form != formList {
			*cur = shape{form: formList}
		}
		for n := 0; t.element(n); n++ {
			t.document(false)
		}
	case string(key) == "rows" && begins == '[' && cur.form == formTable:
		for n := 0; t.element(n); n++ {
			t.row()
		}
	case string(key) == "columnDefinitions" && begins == '[' && cur.form == formTable && t.p.Tenants != NoColumn:
		t.columns()
	case cur.form == formStatus:
		t.statusMember(key)
	case cur.form != formObject:
		t.skip()
	default:
		t.child(m, cur.node, key, seen)
	}
}

// groupOf is the group of an apiVersion.
func groupOf(apiVersion []byte) string { return string(groupBytes(apiVersion)) }

func groupBytes(apiVersion []byte) []byte {
	return apiVersion[:max(0, bytes.IndexByte(apiVersion, '/'))]
}

// row translates a row of a Table. The object comes behind the cells that are
// about it.
func (t *translation) row() {
	if t.peek() != '{' {
		t.skip()
		return
	}
	all := t.v
	begin := t.here()
	m := t.open()
	var namespace, name string
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		if string(key) == "object" {
			namespace, name = t.identity()
			break
		}
		t.skip()
	}
	if t.err != nil {
		return
	}
	t.back(begin)
	if t.d == Out && t.p.View.Tenant == space.All && name != "" {
		own := *t.p.View
		own.Tenant = t.owner(docKind{t.r.Group, t.r.Kind}, namespace, name)
		t.v = &own
	}
	cells, tenant := t.v, ""
	if name != "" {
		tenant = t.v.Tenant
	}
	if t.r.Namespaced {
		t.verbatim = name
	}
	m = t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch string(key) {
		case "cells":
			t.v = cells
			t.cells(tenant)
		case "object":
			verbatim := t.verbatim
			t.verbatim = ""
			t.document(false)
			t.verbatim = verbatim
		default:
			t.skip()
		}
	}
	t.v, t.verbatim = all, ""
}

// statusMember translates a member of a Status.
func (t *translation) statusMember(key []byte) {
	text := Node{Op: references.Text}
	switch string(key) {
	case "message":
		t.walk(&text)
	case "details":
		if t.peek() != '{' {
			t.skip()
			return
		}
		begin := t.here()
		var kind string
		m := t.open()
		for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
			if string(key) == "kind" && t.peek() == '"' {
				kind = t.text()
				continue
			}
			t.skip()
		}
		t.back(begin)
		m = t.open()
		for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
			switch {
			case string(key) == "name" && t.peek() == '"' && t.d == Out:
				at := t.pos
				name := t.text()
				if native := t.statusName(kind, name); native != name {
					t.replace(at, native)
				}
			case string(key) == "causes":
				t.walk(&Node{Fields: map[string]*Node{"message": &text}})
			default:
				t.skip()
			}
		}
	default:
		t.skip()
	}
}

// statusName translates the name that a Status is about. Its kind is a plural
// or a kind, as whoever made it liked.
func (t *translation) statusName(kind, name string) string {
	if strings.HasSuffix(name, space.Suffix) || kind == "namespaces" || kind == "Namespace" {
		quoted := t.v.Text(`"` + name + `"`)
		return quoted[1 : len(quoted)-1]
	}
	return name
}
