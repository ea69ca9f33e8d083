package wire

import (
	"fmt"
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

// check finds rows that contradict each other: a field is translated once,
// and what has an operation has no rows below it.
func check(rows []references.Row) error {
	seen := map[string]references.Op{}
	for _, r := range rows {
		key := fmt.Sprintf("%s/%s %s", r.Group, r.Kind, r.Path)
		if op, ok := seen[key]; ok {
			return fmt.Errorf("%s is in the table twice, as %s and %s", key, op, r.Op)
		}
		if r.Op == references.None || r.Path == "" || strings.Contains("."+r.Path+".", "..") {
			return fmt.Errorf("%s is no row", key)
		}
		seen[key] = r.Op
	}
	for _, r := range rows {
		for path := r.Path; ; {
			i := strings.LastIndexByte(path, '.')
			if i < 0 {
				break
			}
			path = path[:i]
			if op, ok := seen[fmt.Sprintf("%s/%s %s", r.Group, r.Kind, path)]; ok {
				return fmt.Errorf("%s/%s %s is below %s, which is a %s", r.Group, r.Kind, r.Path, path, op)
			}
		}
	}
	return nil
}
