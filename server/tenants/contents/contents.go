// Package contents is what the datastore has of a tenant, as those who count
// it and those who delete it speak of it.
//
// Invariants: names are composite; an answer is as new as the datastore, and
// an empty one means that there is no key of the tenant.
//
// Only server may import it. It imports nothing of Kubernetes' server.
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
