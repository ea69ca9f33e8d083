package contents

import "k8s.io/apimachinery/pkg/runtime/schema"

// Resource is what a tenant has of one resource, at least one object.
type Resource struct {
	schema.GroupResource
	Namespaced bool
	// Objects are some of them at least, those of one namespace together.
	Objects []Object
	// Count is how many there are, or the least if More is set.
	Count int64
	// More says that there are more objects than Objects has.
	More bool
}

// Object is the name of an object. What is not namespaced has no namespace.
type Object struct{ Namespace, Name string }

// String implements fmt.Stringer.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}
