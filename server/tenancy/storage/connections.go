package storage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/clock"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apistorage"
	"github.com/a4s-io/a4s/server/groups/ranged"
)

// perConnection is how many storages share a connection. A datastore may bound
// the calls that are open on one, and every storage has a watch.
const perConnection = 64

// How a connection is looked after, as upstream does it.
const (
	dialTimeout      = 20 * time.Second
	keepAlive        = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
)

// Connections are connections to the datastore that many storages share.
// Upstream makes one for every CRD, which with its
// buffers and goroutines at both ends is a good part of what a CRD costs.
type Connections struct {
	// Local, if not nil, is the datastore in this process. It is not connected
	// to.
	Local *Local
	// Group is the service group of this server, "" if it holds all tenants.
	Group string

	mu     sync.Mutex
	open   []*connection
	source *ranged.Source
}

// Local calls a datastore without a socket.
type Local struct {
	// Servers are where others reach it. An operator can have resources
	// elsewhere.
	Servers []string
	// Client makes a client with watches of its own. It has no endpoints, so
	// upstream learns what etcd supports by those of its storages that are
	// connected.
	Client func(context.Context) *clientv3.Client
}

// local is the datastore at these servers if it is the one in this process.
func (c *Connections) local(servers []string) *Local {
	if c.Local == nil || !slices.Equal(servers, c.Local.Servers) {
		return nil
	}
	return c.Local
}

// connection is one that is open while it has users.
type connection struct {
	*clientv3.Client
	local *Local
	// compacted follows what others compact.
	compacted interface {
		etcd3.Compactor
		Stop()
	}
	servers []string
	users   int
}

// Shared has the storages of inner use these connections.
func (c *Connections) Shared(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return connected{inner: inner, connections: c}
}

// Builtin is Shared for the options of upstream's own resources that are in the
// datastore in this process. What the operator wants no cache of, or wants
// elsewhere, stays as it is, with a connection for each kind. Tenants have no cache:
// there can be a million of them, of which few are used.
func (c *Connections) Builtin(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	f, ok := inner.(*options.StorageFactoryRestOptionsFactory)
	if !ok || !f.Options.EnableWatchCache {
		return inner
	}
	if c.Local == nil && c.Group == "" {
		return uncachedTenants{inner, c}
	}
	return connected{inner: inner, connections: c, builtin: true, sizes: f.Options.WatchCacheSizes}
}

type connected struct {
	inner       generic.RESTOptionsGetter
	connections *Connections
	builtin     bool
	sizes       []string // of caches, as upstream's flag has them; 0 for none
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g connected) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.inner.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	sizes, err := options.ParseWatchCacheSizes(g.sizes)
	if err != nil {
		return opts, fmt.Errorf("reading the sizes of watch caches: %w", err)
	}
	if size, set := sizes[resource]; set && size <= 0 {
		return opts, nil
	}
	inner := apistorage.Maker(opts.Decorator)
	opts.Decorator = apistorage.Make(func(s apistorage.Storing) (storage.Interface, factory.DestroyFunc, error) {
		config := s.Config
		elsewhere := g.builtin && g.connections.local(config.Transport.ServerList) == nil
		if elsewhere && g.connections.Group == "" || config.Transport.EgressLookup != nil {
			return inner(s)
		}
		cached := cacher.Config{
			Versioner: storage.APIObjectVersioner{}, GroupResource: config.GroupResource,
			EventsHistoryWindow: config.EventsHistoryWindow,
			ResourcePrefix:      s.Prefix, KeyFunc: s.Key, NewFunc: s.New, NewListFunc: s.NewList,
			GetAttrsFunc: s.Attrs,
			IndexerFuncs: s.Trigger, Indexers: s.Indexers, Codec: config.Codec,
		}
		if g.builtin && g.connections.Group != "" && grouped(resource) {
			return g.grouped(s, cached)
		}
		raw, destroy, err := g.connections.storage(s, nil)
		if err != nil {
			return nil, nil, err
		}
		if g.builtin && resource == tenantapi.GroupResource() {
			return raw, destroy, nil
		}
		cached.Storage = raw
		c, err := cacher.NewCacherFromConfig(cached)
		if err != nil {
			destroy()
			return nil, nil, fmt.Errorf("making the cache of %s: %w", resource, err)
		}
		delegator := cacher.NewCacheDelegator(c, raw)
		return delegator, sync.OnceFunc(func() {
			delegator.Stop()
			c.Stop()
			destroy()
		}), nil
	}).Decorator()
	return opts, nil
}

// storage is one without a cache. change, unless it is nil, changes its client.
func (c *Connections) storage(
	s apistorage.Storing, change func(*clientv3.Client),
) (storage.Interface, func(), error) {
	config := s.Config
	conn, release, err := c.acquire(config.Transport)
	if err != nil {
		return nil, nil, err
	}
	// A client of its own over the connection, with watches of its own: those
	// of one stream wait for each other's progress.
	own := conn.client()
	if change != nil {
		change(own)
	}
	own.KV = seatedKV{etcd3.NewETCDLatencyTracker(own.KV), conn.local == nil}
	client := &kubernetes.Client{Client: own}
	client.Kubernetes = client
	ofTenants := config.GroupResource == tenantapi.GroupResource()
	if ofTenants {
		client.Kubernetes = newAwake(client, config.Prefix)
	}
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	decoder := etcd3.NewDefaultDecoder(config.Codec, storage.APIObjectVersioner{})
	if utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion) {
		// What cannot be read is distinguished, so that it can be deleted.
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store, err := apistorage.OverEtcd(client, conn.compacted, s, transformer, decoder)
	if err != nil {
		own.Close() //nolint:errcheck // the error is that it was closed
		release()
		return nil, nil, fmt.Errorf("making the storage of %s: %w", config.GroupResource, err)
	}
	destroy := func() {
		store.Close()
		own.Close() //nolint:errcheck // the error is that it was closed
		release()
	}
	if ofTenants {
		return tenantStore{store, own.KV}, destroy, nil
	}
	return store, destroy, nil
}

// acquire takes the connection that has room, or makes another one.
func (c *Connections) acquire(t storagebackend.TransportConfig) (*connection, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.open, func(conn *connection) bool {
		return (conn.users < perConnection || conn.local != nil) && slices.Equal(conn.servers, t.ServerList)
	})
	if i < 0 {
		local := c.local(t.ServerList)
		client, err := open(t, local)
		if err != nil {
			return nil, nil, err
		}
		i = len(c.open)
		c.open = append(c.open, &connection{
			Client: client, local: local, servers: t.ServerList,
			// without an interval it compacts nothing
			compacted: etcd3.NewCompactor(client, 0, clock.RealClock{}, nil),
		})
	}
	conn := c.open[i]
	conn.users++
	return conn, func() { c.release(conn) }, nil
}

// release closes a connection that nobody uses any more.
func (c *Connections) release(conn *connection) {
	c.mu.Lock()
	conn.users--
	last := conn.users == 0
	if last {
		c.open = slices.DeleteFunc(c.open, func(other *connection) bool { return other == conn })
	}
	c.mu.Unlock()
	if last {
		conn.compacted.Stop()
		conn.Close() //nolint:errcheck // the error is that it was closed
	}
}

// client is one for a storage.
func (c *connection) client() *clientv3.Client {
	if c.local != nil {
		return c.local.Client(c.Ctx())
	}
	own := clientv3.NewCtxClient(c.Ctx())
	own.KV, own.Lease, own.Watcher = c.KV, clientv3.NewLease(c.Client), clientv3.NewWatcher(c.Client)
	return own
}

// open makes the client that a connection is.
func open(t storagebackend.TransportConfig, local *Local) (*clientv3.Client, error) {
	if local != nil {
		return local.Client(context.Background()), nil
	}
	return dial(t)
}

// dial does not wait for the datastore: what asks it does.
func dial(t storagebackend.TransportConfig) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: t.ServerList, DialTimeout: dialTimeout, DialKeepAliveTime: keepAlive,
		DialKeepAliveTimeout: keepAliveTimeout, Logger: zap.NewNop(),
	}
	if t.CertFile != "" || t.KeyFile != "" || t.TrustedCAFile != "" {
		secure, err := transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile,
			TrustedCAFile: t.TrustedCAFile}.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("reading the certificates of the datastore: %w", err)
		}
		config.TLS = secure
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the datastore: %w", err)
	}
	return client, nil
}
