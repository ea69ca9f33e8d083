package wire

import "github.com/a4s-io/a4s/internal/references"

// Node is a point in the tree of field paths of one kind: what the field
// holds, and what lies below it by its JSON name. Lists are transparent: a
// node for a list applies to each of its elements. The key "*" stands for
// every key of a map.
type Node struct {
	Op     references.Op
	Fields map[string]*Node
	// some has a bit for the keys of Fields; 0 says nothing.
	some uint64
}

// field is what is below a key: most keys are not in Fields, which a bit tells.
func (n *Node) field(key []byte) *Node {
	if n.some != 0 && n.some&keyBit(key) == 0 {
		return nil
	}
	return n.Fields[string(key)]
}

// wildcard is what is below every key.
func (n *Node) wildcard() *Node {
	if n.some != 0 && n.some&keyBit("*") == 0 {
		return nil
	}
	return n.Fields["*"]
}

func keyBit[T string | []byte](key T) uint64 {
	if len(key) == 0 {
		return 1
	}
	return 1 << ((len(key) + 5*int(key[0]) + 11*int(key[len(key)-1])) % 64)
}

// compile prepares for field, also below n.
func (n *Node) compile() {
	for key, below := range n.Fields {
		n.some |= keyBit(key)
		below.compile()
	}
}

// ObjectMeta is not in the table, it is the same for every kind and the
// engines know it: metadata.name (View.Name of the object's own kind),
// metadata.generateName (left alone), metadata.namespace (must be the
// tenant's), metadata.ownerReferences (Ref), metadata.labels (space.Label is
// taken out in both directions), metadata.tenant and metadata.selfLink.
