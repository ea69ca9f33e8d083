package wire

import (
	"strings"

	"github.com/a4s-io/a4s/internal/references"
)

// Table is the reference table, compiled for lookups.
type Table struct {
	nodes  map[[2]string]*Node
	protos protoPlans
}

// NewTable compiles the rows.
func NewTable() *Table {
	t := &Table{nodes: map[[2]string]*Node{}}
	for _, r := range references.Rows() {
		key := [2]string{r.Group, r.Kind}
		if t.nodes[key] == nil {
			t.nodes[key] = &Node{}
		}
		t.nodes[key].add(segments(r), r.Op)
	}
	for _, n := range t.nodes {
		n.compile()
	}
	return t
}

// Node is the tree of a kind, nil if it has no references.
func (t *Table) Node(group, kind string) *Node { return t.nodes[[2]string{group, kind}] }

// segments are the names on the path.
func segments(r references.Row) []string {
	path, key, ok := strings.Cut(strings.TrimSuffix(r.Path, "]"), "[")
	names := strings.Split(path, ".")
	if ok {
		names = append(names, key)
	}
	return names
}

// add puts an operation at a path below n.
func (n *Node) add(path []string, op references.Op) {
	for _, name := range path {
		if n.Fields == nil {
			n.Fields = map[string]*Node{}
		}
		if n.Fields[name] == nil {
			n.Fields[name] = &Node{}
		}
		n = n.Fields[name]
	}
	n.Op = op
}
