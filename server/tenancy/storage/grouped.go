package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/apistorage"
	"github.com/a4s-io/a4s/server/groups/ranged"
	"github.com/a4s-io/a4s/server/groups/serving"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// grouped reports whether a service group holds a part of a resource: of what tenants
// own, but for Services. Each API server frees the addresses and ports of Services that it
// does not see.
func grouped(resource schema.GroupResource) bool {
	k, ok := kinds.New().Resource(resource.Group, resource.Resource)
	return ok && k.Class == kinds.Tenant && resource != schema.GroupResource{Resource: "services"}
}

// grouped makes the storage of a resource of which the service group holds a part.
func (g connected) grouped(
	s apistorage.Storing, cached cacher.Config,
) (storage.Interface, factory.DestroyFunc, error) {
	config := s.Config
	layout, err := layoutOf(config.GroupResource, cached.KeyFunc, cached.NewFunc)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the layout of %s: %w", config.GroupResource, err)
	}
	source, err := g.source(config)
	if err != nil {
		return nil, nil, err
	}
	served, stop, err := serving.New(serving.Options{
		Source: source, Layout: layout, Root: config.Prefix, Cache: cached,
		Storage: func(change func(*clientv3.Client)) (storage.Interface, func(), error) {
			return g.connections.storage(s, change)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return served, sync.OnceFunc(stop), nil
}

// source is what says which ranges there are. All resources have one.
func (g connected) source(config *storagebackend.ConfigForResource) (*ranged.Source, error) {
	c := g.connections
	c.mu.Lock()
	source := c.source
	c.mu.Unlock()
	if source != nil {
		return source, nil
	}
	configs, err := g.inner.GetRESTOptions(partitionapi.GroupResource(), &partitionapi.DataPartitionConfig{})
	if err != nil {
		return nil, fmt.Errorf("finding where the configurations of service groups are: %w", err)
	}
	namespaces, err := g.inner.GetRESTOptions(schema.GroupResource{Resource: "namespaces"}, nil)
	if err != nil {
		return nil, fmt.Errorf("finding where namespaces are: %w", err)
	}
	conn, _, err := c.acquire(config.Transport) // for as long as the server runs
	if err != nil {
		return nil, err
	}
	below := func(o generic.RESTOptions) string {
		return path.Join("/", o.StorageConfig.Prefix, o.ResourcePrefix) + "/"
	}
	decode, err := decoder(configs.StorageConfig.Transformer)
	if err != nil {
		return nil, err
	}
	source = ranged.NewSource(ranged.Options{
		Group: c.Group, Client: conn.client(), Configs: below(configs), Namespaces: below(namespaces),
		Decode: decode,
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil {
		c.source = source
	}
	return c.source, nil
}

// Progress is how far the caches of the service group are with its configurations; ok is
// false if the server is of no group, or has no cache yet.
func (c *Connections) Progress() (p ranged.Progress, ok bool) {
	c.mu.Lock()
	source := c.source
	c.mu.Unlock()
	if source == nil {
		return p, false
	}
	return source.Progress(), true
}

// keyed is what the encryption at rest binds a value to.
type keyed string

// AuthenticatedData implements value.Context.
func (k keyed) AuthenticatedData() []byte { return []byte(k) }

var errNotAConfig = errors.New("it is not a DataPartitionConfig")

// decoder reads stored configurations, which may be encrypted. It has a scheme of its
// own: the first resource that asks can be one of the API server of CRDs, whose scheme
// does not have them.
func decoder(
	transformer value.Transformer,
) (func(context.Context, string, []byte) (*partitionapi.DataPartitionConfig, error), error) {
	scheme := runtime.NewScheme()
	if err := partitionapi.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("knowing the configurations of service groups: %w", err)
	}
	codec := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	return func(ctx context.Context, key string, stored []byte) (*partitionapi.DataPartitionConfig, error) {
		plain, _, err := transformer.TransformFromStorage(ctx, stored, keyed(key))
		if err != nil {
			return nil, fmt.Errorf("decrypting it: %w", err)
		}
		obj, err := runtime.Decode(codec, plain)
		if err != nil {
			return nil, fmt.Errorf("decoding it: %w", err)
		}
		c, ok := obj.(*partitionapi.DataPartitionConfig)
		if !ok {
			return nil, fmt.Errorf("%T: %w", obj, errNotAConfig)
		}
		return c, nil
	}, nil
}
