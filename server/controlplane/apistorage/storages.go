package apistorage

import (
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/tools/cache"
)

// Storing is what the storage of a resource is made with. Upstream passes it as arguments,
// which grow from version to version: they are in this file and nowhere else, and what is new
// goes with the others through every storage that is made around another.
type Storing struct {
	Config *storagebackend.ConfigForResource
	Prefix string
	// Key is the key of an object in the cache.
	Key          func(runtime.Object) (string, error)
	New, NewList func() runtime.Object
	Attrs        storage.AttrFunc
	Trigger      storage.IndexerFuncs
	Indexers     *cache.Indexers
}

// Make makes a storage, and what ends it.
type Make func(Storing) (storage.Interface, factory.DestroyFunc, error)

// Maker is what a decorator of upstream makes.
func Maker(d generic.StorageDecorator) Make {
	return func(s Storing) (storage.Interface, factory.DestroyFunc, error) {
		return d(s.Config, s.Prefix, s.Key, s.New, s.NewList, s.Attrs, s.Trigger, s.Indexers)
	}
}

// Decorator is one of upstream that makes the same.
func (m Make) Decorator() generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return m(Storing{Config: config, Prefix: prefix, Key: key, New: newFunc, NewList: newListFunc,
			Attrs: attrs, Trigger: trigger, Indexers: indexers})
	}
}

// Raw makes upstream's storage without a cache.
func Raw(s Storing) (storage.Interface, factory.DestroyFunc, error) {
	return Maker(generic.UndecoratedStorage)(s)
}

// Closer is a storage over a client of its own.
type Closer interface {
	storage.Interface
	Close()
}

// OverEtcd makes upstream's storage without a cache over a client.
func OverEtcd(
	client *kubernetes.Client, compactor etcd3.Compactor, s Storing, transformer value.Transformer,
	decoder etcd3.Decoder,
) (Closer, error) {
	return etcd3.New(client, compactor, s.Config.Codec, s.New, s.NewList, s.Config.Prefix, s.Prefix,
		s.Config.GroupResource, transformer, s.Config.LeaseManagerConfig, decoder, storage.APIObjectVersioner{})
}
