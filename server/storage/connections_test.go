package storage_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/server/storage"
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
	etcd := runEtcd(t)
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
		got, _ := first.list(t, t.Context(), "/configmaps-0", func(o *apistorage.ListOptions) { o.ResourceVersion = "" })
		same(t, "a consistent list", got, "default/a")
	})
	await("none", 0)
}
