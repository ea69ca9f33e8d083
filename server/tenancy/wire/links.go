package wire

import "github.com/a4s-io/a4s/internal/space"

// path is the path of the collection of a resource in a namespace of a space, or in
// all of it.
func (r *Resource) path(tenant, namespace string) string {
	path := "/api/" + r.Version
	if r.Group != "" {
		path = "/apis/" + r.Group + "/" + r.Version
	}
	path += "/tenants/" + tenant
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.Resource
}

// collection is the path of what a list has, "" if it cannot be known.
func (r *Resource) collection(tenant string) string {
	switch {
	case r.Version == "" || r.Resource == "":
		return ""
	case tenant == "":
		return r.path(space.System, r.Of)
	}
	return r.path(tenant, r.Of)
}

// listLink is the selfLink of a list, "" for none.
func (r *Resource) listLink(d Direction, tenant string) string {
	if d != Out {
		return ""
	}
	return r.collection(tenant)
}

// Listed is how large a list is, as far as it is known before the list is read.
type Listed struct {
	// Items is the number of objects, Names the length of all their names and
	// namespaces.
	Items, Names int
}

// growth is by how much a list of the resource can get longer: by the selfLink of each
// item, and its own.
func (r *Resource) growth(of Listed, tenant string) int {
	return of.Items*r.linkGrowth(tenant) + of.Names + r.linkGrowth(tenant) + len(r.Of)
}

// linkGrowth is what a selfLink takes in an item, beside what the item is called: the
// field with its length, and longer lengths of the metadata, and of the item.
func (r *Resource) linkGrowth(tenant string) int {
	const lengths = 1 + 3 + 3 + 3
	if len(tenant) < space.MaxTenant { // all have their own
		tenant += "------------------------"[:space.MaxTenant-len(tenant)]
	}
	return lengths + len(r.path(tenant, "-")) + len("/")
}
