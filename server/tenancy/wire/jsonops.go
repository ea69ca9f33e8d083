package wire

import (
	"bytes"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
)

// values translates what is in objects, by the operations of their nodes.
type values struct {
	scanner
	d Direction
	r Resource
	// v is how the object is seen that is being translated.
	v *View
	// emptied says that an object had members, and all of them were taken
	// out: then it is taken out itself.
	emptied bool
	// verbatim is a text that is no text: the name of a namespaced object in
	// a table.
	verbatim string
	// What often comes again.
	kinds, groups, names lastText
}

// child translates the value of a member of an object by the node of the
// object.
func (t *values) child(m *members, n *Node, key []byte, seen *keys) {
	if n == nil || t.v.plain() {
		t.skip()
		return
	}
	c := n.field(key)
	if c == nil {
		c = directive(n, key)
	}
	if c == nil {
		// Directives of a patch are no keys of a map.
		if c = n.wildcard(); c == nil || len(key) > 0 && key[0] == '$' {
			t.skip()
			return
		}
	} else if t.d == In && !seen.add(&t.scanner, key) {
		return
	}
	t.walk(c)
	if t.emptied {
		t.emptied = false
		m.drop(&t.scanner)
	}
}

// directive is the node of $deleteFromPrimitiveList/<field> in a strategic
// merge patch, which has the same content as the field.
func directive(n *Node, key []byte) *Node {
	if len(key) == 0 || key[0] != '$' {
		return nil
	}
	if field, ok := bytes.CutPrefix(key, []byte("$deleteFromPrimitiveList/")); ok {
		return n.Fields[string(field)]
	}
	return nil
}

// walk translates the value that begins here, or each element of the list.
func (t *values) walk(n *Node) {
	if t.peek() != '[' {
		t.value(n)
		return
	}
	for count := 0; t.element(count); count++ {
		t.value(n)
	}
}

// value translates a value that is no list.
func (t *values) value(n *Node) {
	switch c := t.peek(); {
	case c == '"':
		t.stringValue(n.Op)
	case c == 'n' && n.Op == references.Extra && t.d == In && !t.v.plain():
		at := t.pos
		t.skip()
		t.flush(at)
		t.dst = append(t.dst, '{')
		t.appendExtra()
		t.dst = append(t.dst, '}')
		t.copied = t.pos
	case c != '{' || t.v.plain():
		t.skip()
	case n.Op == references.Ref || n.Op == references.Subject:
		t.reference(n)
	case n.Op == references.NamespaceSelector:
		t.selector()
	case n.Op == references.NamespaceLabels:
		t.labels(true)
	case n.Op == references.Extra:
		t.extra()
	case len(n.Fields) == 0:
		t.skip()
	default:
		t.fields(n)
	}
}

func (t *values) fields(n *Node) {
	var seen keys
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		t.child(&m, n, key, &seen)
	}
	if t.d == In {
		t.missingExtra(n, &seen, &m)
	}
}

// stringValue translates a string.
func (t *values) stringValue(op references.Op) {
	if t.v.plain() {
		t.skip()
		return
	}
	var translate func(*View, Direction, string) (string, error)
	switch op {
	case references.Namespace:
		translate = (*View).Namespace
	case references.ClusterName:
		translate = (*View).ClusterName
	case references.User:
		translate = (*View).User
	case references.Group:
		translate = (*View).Group
	case references.Text:
		if t.d == Out {
			translate = viewText
		}
	}
	if translate == nil {
		t.skip()
		return
	}
	at := t.pos
	raw := t.rawText()
	if t.err != nil || op == references.Text &&
		(bytes.IndexByte(raw, '.') < 0 || t.verbatim != "" && string(raw) == t.verbatim) {
		return
	}
	text := string(raw)
	out, err := translate(t.v, t.d, text)
	if err != nil {
		t.fail(err)
		return
	}
	if out != text {
		t.replace(at, out)
	}
}

func viewText(v *View, _ Direction, s string) (string, error) { return v.Text(s), nil }

// reference translates an object reference or a subject of RBAC. Its kind may
// come behind its name, so it is read twice.
func (t *values) reference(n *Node) {
	begin := t.here()
	var kind, group string
	var seen keys
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch string(key) {
		case "kind", "apiVersion", "apiGroup", "name", "namespace":
			if t.d == In && !seen.add(&t.scanner, key) {
				return
			}
		}
		if t.peek() != '"' {
			t.skip()
			continue
		}
		switch string(key) {
		case "kind":
			kind = t.kinds.of(t.rawText())
		case "apiVersion":
			if g := groupBytes(t.rawText()); group == "" {
				group = t.groups.of(g)
			}
		case "apiGroup":
			if g := t.text(); g != "" {
				group = g
			}
		default:
			t.skip()
		}
	}
	if t.err != nil {
		return
	}
	t.back(begin)
	if group == "" && n.Op == references.Ref {
		group = t.refGroup(kind)
	}
	seen = keys{}
	m = t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		at := t.pos
		if name := string(key) == "name"; t.peek() == '"' && (name || string(key) == "namespace") {
			text := t.names.of(t.rawText())
			if out := t.referred(n.Op, group, kind, name, text); out != text {
				t.replace(at, out)
			}
			continue
		}
		t.child(&m, n, key, &seen)
	}
}

// refGroup is the group of a reference that does not say one: the API server
// fills in that of the object for roles.
func (t *values) refGroup(kind string) string {
	if t.r.Group == rbacGroup && kind == "ClusterRole" {
		return rbacGroup
	}
	return ""
}

// referred translates the name or the namespace of a reference.
func (t *values) referred(op references.Op, group, kind string, name bool, text string) string {
	var out string
	var err error
	switch {
	case !name:
		out, err = t.v.Namespace(t.d, text)
	case op == references.Ref:
		out, err = t.v.Name(t.d, group, kind, text)
	case kind == "User":
		out, err = t.v.User(t.d, text)
	case kind == "Group":
		out, err = t.v.Group(t.d, text)
	default:
		return text
	}
	if err != nil {
		t.fail(err)
		return text
	}
	return out
}

// selector translates a LabelSelector over namespaces: inwards it selects
// among those of the tenant.
func (t *values) selector() {
	var seen keys
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch string(key) {
		case "matchLabels":
			if t.d == In && !seen.add(&t.scanner, key) {
				return
			}
			t.matchLabels()
			if t.emptied {
				t.emptied = false
				m.drop(&t.scanner)
			}
		case "matchExpressions":
			if t.d == In && !seen.add(&t.scanner, key) {
				return
			}
			t.expressions()
		case patchDirective:
			t.keepTenant()
		default:
			t.skip()
		}
	}
	if t.d == In && t.err == nil && !seen.has("matchLabels") {
		m.insert(&t.scanner)
		t.dst = append(t.dst, `"matchLabels":{`...)
		t.appendTenant()
		t.dst = append(t.dst, '}')
	}
}

// patchDirective says in a strategic merge patch what becomes of an object.
const patchDirective = "$patch"

// keepTenant makes the directive that deletes a selector, or its labels, one
// that leaves nothing but the tenant: without it every space would be selected.
func (t *values) keepTenant() {
	at := t.pos
	if t.peek() != '"' {
		t.skip()
		return
	}
	if string(t.rawText()) == "delete" && t.d == In {
		t.replace(at, "replace")
	}
}

func (t *values) appendTenant() {
	t.dst = append(t.dst, `"`+space.Label+`":`...)
	t.dst = appendJSONString(t.dst, t.v.Tenant)
}

func (t *values) matchLabels() {
	at := t.pos
	if t.peek() != '{' {
		null := t.peek() == 'n'
		if t.skip(); null && t.d == In {
			t.flush(at)
			t.dst = append(t.dst, '{')
			t.appendTenant()
			t.dst = append(t.dst, '}')
			t.copied = t.pos
		}
		return
	}
	kept := 0
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		switch string(key) {
		case space.Label:
			t.skip()
			m.drop(&t.scanner)
			continue
		case namespaceNameLabel:
			t.value(&Node{Op: references.Namespace})
		case patchDirective:
			t.keepTenant()
		default:
			t.skip()
		}
		kept++
	}
	if t.d == In && t.err == nil {
		m.insert(&t.scanner)
		t.appendTenant()
		return
	}
	t.emptied = kept == 0 && m.count > 0
}

// expressions translates the requirements of a selector.
func (t *values) expressions() {
	if t.peek() != '[' {
		t.skip()
		return
	}
	for count := 0; t.element(count); count++ {
		if t.peek() != '{' {
			t.skip()
			continue
		}
		begin := t.here()
		names := false
		var seen keys
		m := t.open()
		for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
			if t.d == In && (string(key) == "key" || string(key) == "values") && !seen.add(&t.scanner, key) {
				return
			}
			if string(key) == "key" && t.peek() == '"' {
				names = string(t.rawText()) == namespaceNameLabel
				continue
			}
			t.skip()
		}
		if !names || t.err != nil {
			continue
		}
		t.back(begin)
		m = t.open()
		for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
			if string(key) == "values" {
				t.walk(&Node{Op: references.Namespace})
				continue
			}
			t.skip()
		}
	}
}

// extra translates the extra attributes of a user.
func (t *values) extra() {
	kept := 0
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		t.skip()
		if string(key) == space.Extra {
			m.drop(&t.scanner)
			continue
		}
		kept++
	}
	if t.d == In && t.err == nil {
		m.insert(&t.scanner)
		t.appendExtra()
		return
	}
	t.emptied = kept == 0 && m.count > 0
}

func (t *values) appendExtra() {
	t.dst = append(t.dst, `"`+space.Extra+`":[`...)
	t.dst = appendJSONString(t.dst, t.v.Tenant)
	t.dst = append(t.dst, ']')
}

// missingExtra adds the extra attributes to a user who has none: without them
// they would be one of the system.
func (t *values) missingExtra(n *Node, seen *keys, m *members) {
	if t.err != nil || t.v.plain() {
		return
	}
	for key, c := range n.Fields {
		if c.Op != references.Extra || seen.has(key) {
			continue
		}
		m.insert(&t.scanner)
		t.dst = appendJSONString(t.dst, key)
		t.dst = append(t.dst, ":{"...)
		t.appendExtra()
		t.dst = append(t.dst, '}')
	}
}
