package plainetcd

import (
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// startTimeout bounds the start of an etcd.
const startTimeout = 60 * time.Second

// Run starts an etcd for the time of the test.
func Run(t testing.TB) *clientv3.Client {
	t.Helper()
	client, _ := Start(t)
	return client
}

// Start is Run with the server, too, for those who call it without a socket.
func Start(t testing.TB) (*clientv3.Client, *embed.Etcd) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.UnsafeNoFsync, cfg.LogLevel = t.TempDir(), true, "fatal"
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = local, local
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = local, local
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(startTimeout):
		t.Fatal("etcd does not become ready")
	}
	return Dial(t, "http://"+server.Clients[0].Addr().String()), server
}

// Dial is a client with a connection of its own.
func Dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
