package storage_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/server/options"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// counted puts an address in front of an etcd that counts the connections that
// are open.
func counted(t *testing.T, etcd *clientv3.Client) (front *clientv3.Client, connections func() int64) {
	t.Helper()
	behind, err := url.Parse(etcd.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var open atomic.Int64
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", behind.Host)
			if err != nil {
				_ = in.Close()
				continue
			}
			open.Add(1)
			go func() {
				_, _ = io.Copy(in, out)
				_ = in.Close()
			}()
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.Close()
				open.Add(-1)
			}()
		}
	}()
	front, err = clientv3.New(clientv3.Config{Endpoints: []string{"http://" + listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	_ = front.Close() // it only says the address
	return front, open.Load
}

// Storages share connections, 64 of them one, and go on when others of the same
// connection end. Nothing stays open behind the last.
func TestStoragesShareConnections(t *testing.T) {
	etcd := plainetcd.Run(t)
	front, connections := counted(t, etcd)
	await := func(what string, want int64) {
		t.Helper()
		for end := time.Now().Add(time.Minute); connections() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d connections, want %d", what, connections(), want)
			}
		}
	}
	t.Run("open", func(t *testing.T) {
		options := (&storage.Connections{}).Shared(getter{genericregistry.StorageWithCacher()})
		one := func(t *testing.T, n int) *store {
			r := configMaps()
			r.prefix = fmt.Sprintf("/configmaps-%d", n)
			return open(t, front, r, options)
		}
		first := one(t, 0)
		await("one storage", 1)
		w := first.watch(t, t.Context(), "/configmaps-0", nil)
		t.Run("others", func(t *testing.T) {
			for n := range 64 {
				one(t, n+1)
			}
			await("65 storages", 2)
		})
		await("one storage after others", 1)
		first.create(t, "default", "a")
		until(t, w, "default/a")
		got, _ := first.list(t, t.Context(), "/configmaps-0", func(o *apistorage.ListOptions) {
			o.ResourceVersion = ""
		})
		same(t, "a consistent list", got, "default/a")
	})
	await("none", 0)
}

// localStorage calls a server as embedded etcd lets others of its process do.
func localStorage(server *embed.Etcd, servers []string) *storage.Local {
	return &storage.Local{Servers: servers,
		Client: func(context.Context) *clientv3.Client { return v3client.New(server.Server) }}
}

// With the datastore in the process, storages work and connect to nothing:
// neither those of custom resources nor upstream's own. What has no cache, and
// what is in another datastore, does.
func TestStoragesCallALocalDatastore(t *testing.T) {
	etcd, server := plainetcd.Start(t)
	cached := getter{genericregistry.StorageWithCacher()}
	upstreams := func(front *clientv3.Client, cacheSizes ...string) generic.RESTOptionsGetter {
		etcdOptions := options.NewEtcdOptions(storagebackend.NewDefaultConfig(root, nil))
		etcdOptions.WatchCacheSizes = cacheSizes
		etcdOptions.StorageConfig.Transport.ServerList = front.Endpoints()
		return &options.StorageFactoryRestOptionsFactory{
			Options:        *etcdOptions,
			StorageFactory: &options.SimpleStorageFactory{StorageConfig: etcdOptions.StorageConfig},
		}
	}
	for name, c := range map[string]struct {
		elsewhere bool // is what is in the process
		options   func(c *storage.Connections, front *clientv3.Client) generic.RESTOptionsGetter
		connects  bool
	}{
		"custom": {false,
			func(c *storage.Connections, _ *clientv3.Client) generic.RESTOptionsGetter { return c.Shared(cached) },
			false},
		"built-in": {false, func(c *storage.Connections, front *clientv3.Client) generic.RESTOptionsGetter {
			return c.Builtin(upstreams(front))
		}, false},
		"without a cache": {false, func(c *storage.Connections, front *clientv3.Client) generic.RESTOptionsGetter {
			return c.Builtin(upstreams(front, "configmaps#0"))
		}, true},
		"custom, elsewhere": {true,
			func(c *storage.Connections, _ *clientv3.Client) generic.RESTOptionsGetter { return c.Shared(cached) },
			true},
		"built-in, elsewhere": {true, func(c *storage.Connections, front *clientv3.Client) generic.RESTOptionsGetter {
			return c.Builtin(upstreams(front))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			front, connections := counted(t, etcd)
			local := localStorage(server, front.Endpoints())
			if c.elsewhere {
				local.Servers = etcd.Endpoints()
			}
			r := configMaps()
			r.prefix = "/" + strings.ReplaceAll(name, " ", "-")
			s := open(t, front, r, c.options(&storage.Connections{Local: local}, front))
			w := s.watch(t, t.Context(), r.prefix, nil)
			s.create(t, "default", "a")
			until(t, w, "default/a")
			got, _ := s.list(t, t.Context(), r.prefix, func(o *apistorage.ListOptions) { o.ResourceVersion = "" })
			same(t, "a consistent list", got, "default/a")
			if n := connections(); (n > 0) != c.connects {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// Without the datastore in the process, and for what is not upstream's, the
// options are those that were there.
func TestBuiltinLeavesOthersAlone(t *testing.T) {
	upstream, other := &options.StorageFactoryRestOptionsFactory{
		Options: options.EtcdOptions{EnableWatchCache: true}, StorageFactory: &options.SimpleStorageFactory{},
	}, getter{genericregistry.StorageWithCacher()}
	// With a datastore elsewhere, tenants have no cache, and nothing else changes.
	for resource, cached := range map[schema.GroupResource]bool{
		tenantapi.GroupResource(): false, {Resource: "pods"}: true,
	} {
		opts, err := (&storage.Connections{}).Builtin(upstream).GetRESTOptions(resource, &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		before, err := upstream.GetRESTOptions(resource, &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		same := reflect.ValueOf(opts.Decorator).Pointer() == reflect.ValueOf(before.Decorator).Pointer()
		if same != cached {
			t.Errorf("%s: as upstream stores it is %v", resource, same)
		}
	}
	local := &storage.Connections{Local: &storage.Local{}}
	if _, same := local.Builtin(other).(getter); !same {
		t.Error("what is not upstream's is another one")
	}
	if got := local.Builtin(&options.StorageFactoryRestOptionsFactory{}); got == nil {
		t.Error("nothing without caches")
	} else if _, same := got.(*options.StorageFactoryRestOptionsFactory); !same {
		t.Errorf("without caches: %T", got)
	}
}
