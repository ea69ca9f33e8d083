package wire

// Op says what a field holds and so how it is translated.
type Op int

const (
	// None is a field on the way to others.
	None Op = iota
	// Namespace is a string: the name of a namespace.
	Namespace
	// ClusterName is a string: the name of a cluster-scoped tenant object.
	ClusterName
	// Text is a string for people, in which names may be mentioned. Inwards
	// it is left alone.
	Text
	// User is a string: a user name.
	User
	// Group is a string: the name of a group of users.
	Group
	// Ref is an object with the strings kind, apiVersion or apiGroup, name
	// and perhaps namespace; all but name may be missing. The name is
	// translated by View.Name, the namespace by View.Namespace.
	Ref
	// Subject is an RBAC subject: kind ServiceAccount has a namespace, User
	// and Group have a name to translate by View.User and View.Group.
	Subject
	// NamespaceSelector is a LabelSelector over namespaces. Inwards the label
	// space.Label with the tenant is added to matchLabels, outwards it is
	// taken out; values for the key kubernetes.io/metadata.name are
	// namespaces. An absent selector stays absent, an empty one does not.
	NamespaceSelector
	// NamespaceLabels are the labels of a Namespace: the value of
	// kubernetes.io/metadata.name is a namespace.
	NamespaceLabels
	// Extra are the extra attributes of a user, a map of string lists:
	// inwards the key space.Extra is set to the tenant, whatever it was,
	// outwards it is taken out.
	Extra
)

// Node is a point in the tree of field paths of one kind: what the field
// holds, and what lies below it by its JSON name. Lists are transparent: a
// node for a list applies to each of its elements. The key "*" stands for
// every key of a map.
type Node struct {
	Op     Op
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

// Row is one line of the reference table. Path is made of JSON names joined
// by dots; lists are not marked, "*" stands for any key of a map. A key of a map
// that has dots stands at the end, in brackets.
type Row struct {
	Group, Kind string
	Path        string
	Op          Op
}

// ObjectMeta is not in the table, it is the same for every kind and the
// engines know it: metadata.name (View.Name of the object's own kind),
// metadata.generateName (left alone), metadata.namespace (must be the
// tenant's), metadata.ownerReferences (Ref), metadata.labels (space.Label is
// taken out in both directions), metadata.tenant and metadata.selfLink.
