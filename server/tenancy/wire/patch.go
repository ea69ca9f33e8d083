package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
)

// Patch translates a patch of a media type inwards.
func (p *Projector) Patch(media string, r Resource, body []byte) ([]byte, error) {
	switch types.PatchType(media) {
	case types.JSONPatchType:
		return (&jsonPatch{p: p, r: r, root: p.patchRoot(r)}).translate(body)
	case types.StrategicMergePatchType:
		if err := limitLists(body); err != nil {
			return nil, err
		}
		return p.objectPatch(r, body)
	case types.MergePatchType:
		return p.objectPatch(r, body)
	case types.ApplyYAMLPatchType:
		asJSON, err := FromYAML(body)
		if err != nil {
			return nil, err
		}
		return p.objectPatch(r, asJSON) // JSON is YAML, too
	default:
		return nil, fmt.Errorf("patches of the type %q are not possible in the space of a tenant", media)
	}
}

// objectPatch translates a patch that has the form of the object. What it says
// of its kind does not matter: the object that is patched has one.
func (p *Projector) objectPatch(r Resource, body []byte) ([]byte, error) {
	if err := Limit(body); err != nil {
		return nil, err
	}
	out, err := p.objectPatched(r, body)
	if errors.Is(err, errTwice) {
		if body, err = lastOfEach(body, false); err == nil {
			out, err = p.objectPatched(r, body)
		}
	}
	return out, err
}

func (p *Projector) objectPatched(r Resource, body []byte) ([]byte, error) {
	t := p.json(In, r)
	t.src, t.dst = body, make([]byte, 0, Room(len(body)))
	t.ofResource()
	if t.err == nil && t.peek() != 0 {
		t.malformed("something follows the patch")
	}
	return t.result()
}

// ofResource translates a document of the resource's own kind.
func (t *translation) ofResource() {
	if t.peek() != '{' {
		t.skip()
		return
	}
	t.object(docKind{t.r.Group, t.r.Kind}, true, true, true)
}

const (
	// maxOperations is how many operations upstream takes in one patch.
	maxOperations = 10_000
	// maxPath and maxSegments bound the path of an operation.
	maxPath     = 64 << 10
	maxSegments = 1000
)

// operation is one of RFC 6902. Of two members with one key the last one counts, as
// for the API server; it finds the others, and those that mean nothing.
type operation struct {
	counts map[string]json.RawMessage
	all    []opMember
}

type opMember struct {
	name       string
	key, value json.RawMessage
}

// appendTo appends an operation that may have been changed.
func (o *operation) appendTo(dst []byte) []byte {
	last := map[string]int{}
	for i, m := range o.all {
		last[m.name] = i
	}
	dst = append(dst, '{')
	comma := func() {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
	}
	for i, m := range o.all {
		value := m.value
		if now, ok := o.counts[m.name]; ok {
			if value = now; i != last[m.name] {
				value = json.RawMessage("null")
			}
		}
		comma()
		dst = append(append(append(dst, m.key...), ':'), value...)
	}
	for _, name := range []string{"op", "path", "from", "value"} {
		if _, there := last[name]; !there && o.counts[name] != nil {
			comma()
			dst = append(append(appendJSONString(dst, name), ':'), o.counts[name]...)
		}
	}
	return append(dst, '}')
}

// operations reads a patch. Upstream reads null as a list of none.
func operations(body []byte) ([]operation, error) {
	if err := Limit(body); err != nil {
		return nil, err
	}
	s := &scanner{src: body}
	if !json.Valid(body) {
		s.malformed("it cannot be read")
	}
	if s.err == nil && s.peek() != '[' {
		if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
			return nil, nil
		}
		s.malformed("a list of operations was expected")
	}
	if s.err != nil {
		return nil, s.err
	}
	var all []operation
	for n := 0; s.element(n); n++ {
		if n == maxOperations {
			return nil, fmt.Errorf("%w: a patch has %d operations at most", ErrTooLarge, maxOperations)
		}
		if s.peek() != '{' {
			s.malformed("an operation was expected")
			break
		}
		o := operation{counts: map[string]json.RawMessage{}}
		m := s.open()
		for key, ok := s.next(&m); ok; key, ok = s.next(&m) {
			begin, name := s.pos, string(key)
			s.skip()
			written := body[m.at:begin]
			written = written[:bytes.LastIndexByte(written, '"')+1]
			o.all = append(o.all, opMember{name, written, body[begin:s.pos]})
			switch name {
			case "op", "path", "from", "value":
				o.counts[name] = body[begin:s.pos]
			}
		}
		all = append(all, o)
	}
	return all, s.err
}

// jsonPatch translates the operations of RFC 6902 on a resource.
type jsonPatch struct {
	p    *Projector
	r    Resource
	root *Node
}

func (j *jsonPatch) translate(body []byte) ([]byte, error) {
	all, err := operations(body)
	if err != nil {
		return nil, fmt.Errorf("JSON patch: %w", err)
	}
	out := append(make([]byte, 0, Room(len(body))), '[')
	for i, o := range all {
		keep, err := j.operation(o.counts)
		if err != nil {
			return nil, fmt.Errorf("operation %d of the patch: %w", i, err)
		}
		if keep {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = o.appendTo(out)
		}
	}
	return append(out, ']'), nil
}

// patchRoot is the tree of a kind with the metadata that every object has.
func (p *Projector) patchRoot(r Resource) *Node {
	meta := map[string]*Node{
		"name":            {Op: references.ClusterName},
		"namespace":       {Op: references.Namespace},
		"tenant":          {Op: references.Namespace},
		"selfLink":        {Op: references.Text},
		"ownerReferences": {Op: references.Ref},
		"labels": {Fields: map[string]*Node{
			space.Label:        {Op: references.Text},
			namespaceNameLabel: {Op: references.Namespace},
		}},
	}
	root := &Node{Fields: map[string]*Node{}}
	if p.Table != nil {
		if n := p.Table.Node(r.Group, r.Kind); n != nil {
			for key, c := range n.Fields {
				root.Fields[key] = c
			}
			if m := n.Fields["metadata"]; m != nil {
				for key, c := range m.Fields {
					if meta[key] == nil {
						meta[key] = c
					}
				}
			}
		}
	}
	root.Fields["metadata"] = &Node{Fields: meta}
	return root
}

// target is what the table has at a path.
type target struct {
	node *Node // nil if nothing is translated there
	// within is the node that the path goes into: a reference, a subject or a
	// selector, that can be judged as a whole only. field is where in it.
	within *Node
	field  []string
}

// locate walks down a path. Places in lists are passed over.
func locate(root *Node, path []string) target {
	n := root
	for i, segment := range path {
		switch n.Op {
		case references.Ref, references.Subject, references.NamespaceSelector, references.Extra,
			references.NamespaceLabels:
			if i > 0 && isIndex(segment) {
				continue
			}
			return target{node: n, within: n, field: path[i:]}
		}
		next := n.Fields[segment]
		if next == nil && isIndex(segment) {
			continue
		}
		if next == nil {
			next = n.Fields["*"]
		}
		if next == nil {
			return target{}
		}
		n = next
	}
	return target{node: n}
}

func isIndex(segment string) bool {
	_, err := strconv.Atoi(segment)
	return err == nil || segment == "-"
}

// operation translates one operation in place; keep is false if nothing is
// left of it.
func (j *jsonPatch) operation(o map[string]json.RawMessage) (keep bool, err error) {
	path, err := pointer(o, "path")
	if err != nil {
		return false, err
	}
	at := locate(j.root, path)
	var op string
	if err := json.Unmarshal(o["op"], &op); err != nil {
		return false, fmt.Errorf("%w: op: %w", ErrMalformed, err)
	}
	switch op {
	case "remove":
		return j.removal(o, path, at), nil
	case "copy", "move":
		from, err := pointer(o, "from")
		if err != nil {
			return false, err
		}
		source := locate(j.root, from)
		if source.within != nil || at.within != nil || source.node != at.node {
			return false,
				fmt.Errorf("%w: %s between %q and %q is not possible in the space of a tenant, set the value instead",
					ErrMalformed, op, from, path)
		}
		return true, nil
	case "add", "replace", "test":
	default:
		return true, nil // unknown, upstream says so
	}
	value, ok := o["value"]
	if !ok {
		return true, nil
	}
	if at.within != nil && (at.within.Op == references.Ref || at.within.Op == references.Subject) && op != "test" {
		switch at.field[0] {
		case "kind", "apiGroup", "apiVersion":
			return false, fmt.Errorf("%w: the %s of a reference cannot be changed alone in the space of a tenant, "+
				"replace the whole reference", ErrMalformed, at.field[0])
		}
	}
	composed, err := j.value(path, value)
	if errors.Is(err, errTwice) {
		if value, err = lastOfEach(value, false); err == nil {
			composed, err = j.value(path, value)
		}
	}
	value = composed
	if err != nil || value == nil {
		return false, err
	}
	o["value"] = value
	return true, nil
}

// removal changes the removal of the labels of a selector: the tenant's stays.
func (j *jsonPatch) removal(o map[string]json.RawMessage, path []string, at target) (keep bool) {
	if len(path) == 2 && path[0] == "metadata" && (path[1] == "tenant" || path[1] == "selfLink") {
		return false
	}
	last := ""
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	if last == space.Label && (at.within != nil || len(path) == 3 && path[0] == "metadata") {
		return false
	}
	if at.within != nil && at.within.Op == references.NamespaceSelector && len(at.field) == 1 &&
		last == "matchLabels" &&
		!space.IsSystem(j.p.View.Tenant) {
		label, err := json.Marshal(map[string]string{space.Label: j.p.View.Tenant})
		if err == nil {
			o["op"], o["value"] = json.RawMessage(`"replace"`), label
		}
	}
	return true
}

// pointer reads a JSON pointer.
func pointer(o map[string]json.RawMessage, key string) ([]string, error) {
	var path string
	if err := json.Unmarshal(o[key], &path); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrMalformed, key, err)
	}
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' {
		return nil, fmt.Errorf("%w: the %s %q does not begin with a slash", ErrMalformed, key,
			path[:min(len(path), 100)])
	}
	if len(path) > maxPath || strings.Count(path, "/") > maxSegments {
		return nil, fmt.Errorf("%w: the %s is longer than %d segments or %d bytes", ErrMalformed, key,
			maxSegments, maxPath)
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		if strings.IndexByte(s, '~') >= 0 {
			segments[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
		}
	}
	return segments, nil
}

// value translates the value at a path: as an object that has nothing but
// this value, which may be taken out of it.
func (j *jsonPatch) value(path []string, value json.RawMessage) (json.RawMessage, error) {
	t := j.p.json(In, j.r)
	depth := 0
	for _, segment := range path {
		if !isIndex(segment) {
			t.src = append(appendJSONString(append(t.src, '{'), segment), ':')
			depth++
		}
	}
	t.src = append(append(t.src, value...), strings.Repeat("}", depth)...)
	t.ofResource()
	doc, err := t.result()
	if err != nil {
		return nil, err
	}
	// What is added stands behind the member that is asked for.
	s := &scanner{src: doc}
	for _, segment := range path {
		if isIndex(segment) {
			continue
		}
		if s.peek() != '{' {
			return nil, nil
		}
		m := s.open()
		key, ok := s.next(&m)
		for ; ok && string(key) != segment; key, ok = s.next(&m) {
			s.skip()
		}
		if !ok {
			return nil, s.err
		}
	}
	begin := s.pos
	s.skip()
	return s.src[begin:s.pos], s.err
}
