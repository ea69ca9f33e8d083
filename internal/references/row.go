package references

import "fmt"

// Op says what a field holds and so how it is translated.
type Op int

const (
	// None is a field on the way to others.
	None Op = iota
	// Namespace is a string: the name of a namespace.
	Namespace
	// ClusterName is a string: the name of a cluster-scoped tenant object.
	ClusterName
	// Text is a string for people, in which names may be mentioned. Written by a
	// tenant it is left alone.
	Text
	// User is a string: a user name.
	User
	// Group is a string: the name of a group of users.
	Group
	// Ref is an object with the strings kind, apiVersion or apiGroup, name and
	// perhaps namespace; all but name may be missing. How the name is translated
	// depends on the kind.
	Ref
	// Subject is an RBAC subject: kind ServiceAccount has a namespace, User and
	// Group have a name to translate as such.
	Subject
	// NamespaceSelector is a LabelSelector over namespaces. For a tenant the label
	// space.Label with the tenant is added to matchLabels, and taken out of what it
	// reads; values for the key kubernetes.io/metadata.name are namespaces. An absent
	// selector stays absent, an empty one does not.
	NamespaceSelector
	// NamespaceLabels are the labels of a Namespace: the value of
	// kubernetes.io/metadata.name is a namespace.
	NamespaceLabels
	// Extra are the extra attributes of a user, a map of string lists: the key
	// space.Extra is set to the tenant that writes, whatever it was, and taken out of
	// what it reads.
	Extra
)

// String is the name that the documentation uses.
func (o Op) String() string {
	names := [...]string{
		None: "none", Namespace: "namespace", ClusterName: "cluster-scoped name", Text: "text",
		User: "user", Group: "group", Ref: "object reference", Subject: "subject",
		NamespaceSelector: "namespace selector", NamespaceLabels: "namespace labels", Extra: "extra attributes",
	}
	if o < 0 || int(o) >= len(names) {
		return fmt.Sprintf("operation %d", int(o))
	}
	return names[o]
}

// Row is one line of the reference table. Path is made of JSON names joined
// by dots; lists are not marked, "*" stands for any key of a map. A key of a map
// that has dots stands at the end, in brackets.
type Row struct {
	Group, Kind string
	Path        string
	Op          Op
}

// ObjectMeta is not in the table: it is the same for every kind, and whoever
// translates knows it.
