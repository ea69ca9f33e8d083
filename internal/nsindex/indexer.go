package nsindex

import (
	"hash/crc32"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// namespaceSets is how many sets of objects an index has. With 10,000 idle tenants
// there are some 120 objects in each.
const namespaceSets = 256

// setOf is the set that a namespace's objects are in.
func setOf(namespace string) string {
	return strconv.Itoa(int(crc32.ChecksumIEEE([]byte(namespace)) % namespaceSets))
}

// setOfObject implements cache.IndexFunc.
func setOfObject(obj any) ([]string, error) {
	namespaces, err := cache.MetaNamespaceIndexFunc(obj)
	if err != nil {
		return nil, err
	}
	return []string{setOf(namespaces[0])}, nil
}

// indexer is one with an index by setOfObject, that answers as if it were one by
// namespace.
type indexer struct{ cache.Indexer }

// Index implements cache.Indexer.
func (i indexer) Index(name string, obj any) ([]any, error) {
	if name != cache.NamespaceIndex {
		return i.Indexer.Index(name, obj)
	}
	namespaces, err := cache.MetaNamespaceIndexFunc(obj)
	if err != nil {
		return nil, err
	}
	return i.ByIndex(name, namespaces[0])
}

// ByIndex implements cache.Indexer.
func (i indexer) ByIndex(name, value string) ([]any, error) {
	if name != cache.NamespaceIndex {
		return i.Indexer.ByIndex(name, value)
	}
	objs, err := i.Indexer.ByIndex(name, setOf(value))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(objs, func(obj any) bool { return namespaceOf(obj) != value }), nil
}

// IndexKeys implements cache.Indexer.
func (i indexer) IndexKeys(name, value string) ([]string, error) {
	if name != cache.NamespaceIndex {
		return i.Indexer.IndexKeys(name, value)
	}
	keys, err := i.Indexer.IndexKeys(name, setOf(value))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		namespace, _, err := cache.SplitMetaNamespaceKey(key)
		return err != nil || namespace != value
	}), nil
}

// ListIndexFuncValues implements cache.Indexer.
func (i indexer) ListIndexFuncValues(name string) []string {
	if name != cache.NamespaceIndex {
		return i.Indexer.ListIndexFuncValues(name)
	}
	namespaces := sets.Set[string]{}
	for _, obj := range i.List() {
		namespaces.Insert(namespaceOf(obj))
	}
	return namespaces.UnsortedList()
}

// GetIndexers implements cache.Indexer.
func (i indexer) GetIndexers() cache.Indexers {
	indexers := maps.Clone(i.Indexer.GetIndexers())
	indexers[cache.NamespaceIndex] = cache.MetaNamespaceIndexFunc
	return indexers
}

// namespaceOf is the namespace of an object of a store, which has taken none
// without metadata.
func namespaceOf(obj any) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return accessor.GetNamespace()
}
