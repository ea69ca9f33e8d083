package space

import "strings"

// Layout is how a resource's composite keys are built.
type Layout int

const (
	// Namespaced resources have keys <prefix>/<namespace>/<name>.
	Namespaced Layout = iota
	// ClusterScoped resources have keys <prefix>/<name>.
	ClusterScoped
	// Namespaces is the one resource whose names are namespaces.
	Namespaces
)

// StoredKey maps a composite key, as upstream builds it below prefix, to the
// key in etcd. Keys that do not lie below prefix are returned as they are.
// A key that ends in a slash is a prefix for lists and stays one.
func StoredKey(layout Layout, prefix, key string) string {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok || rest == "" || rest == "/" || rest[0] != '/' {
		return key
	}
	first, tail := rest[1:], ""
	if i := strings.IndexByte(first, '/'); i >= 0 {
		first, tail = first[:i], first[i:]
	}
	var tenant, native string
	if layout == ClusterScoped {
		tenant, native = SplitClusterName(first)
	} else {
		tenant, native = SplitNamespace(first)
	}
	if tenant == System {
		return key
	}
	return prefix + "/" + tenant + "/" + native + tail
}

// TenantPrefix is the prefix of everything that tenant has of a resource.
func TenantPrefix(prefix, tenant string) string {
	return strings.TrimSuffix(prefix, "/") + "/" + tenant + "/"
}
