package plainetcd

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// startTimeout bounds the start of an etcd.
const startTimeout = 4 * time.Minute

// Run starts an etcd for the time of the test.
func Run(t testing.TB) *clientv3.Client {
	t.Helper()
	client, _ := Start(t)
	return client
}

// Start is Run with the server, too, for those who call it without a socket.
func Start(t testing.TB) (*clientv3.Client, *embed.Etcd) {
	t.Helper()
	cfg := config(t, "127.0.0.1:0")
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server := start(t, cfg)
	ready(t, server)
	return Dial(t, address(server)), server.Etcd
}

// Member is one of a cluster.
type Member struct {
	*embed.Etcd
	end sync.Once
}

func (m *Member) close() { m.end.Do(m.Close) }

// Kill ends a member as a crash does: it hands over nothing.
func (m *Member) Kill() {
	m.Server.HardStop()
	m.close()
}

// Cluster starts several members of one cluster, and returns a client of all of them.
func Cluster(t testing.TB, members int) (*clientv3.Client, []*Member) {
	t.Helper()
	var configs []*embed.Config
	var initial []string
	for i := range members {
		// Peers have to know the port before it is used. No client has one at this address.
		listener, err := net.Listen("tcp", "127.0.0.2:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(t, listener.Addr().String())
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.Name, cfg.TickMs, cfg.ElectionMs = fmt.Sprint("member-", i), 50, 500
		configs = append(configs, cfg)
		initial = append(initial, cfg.InitialClusterFromName(cfg.Name))
	}
	var all []*Member
	for _, cfg := range configs {
		cfg.InitialCluster = strings.Join(initial, ",")
		all = append(all, start(t, cfg))
	}
	var addresses []string
	for _, server := range all {
		ready(t, server)
		addresses = append(addresses, address(server))
	}
	return Dial(t, addresses...), all
}

// config is that of a member with a port for its peers.
func config(t testing.TB, peers string) *embed.Config {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.UnsafeNoFsync, cfg.LogLevel = t.TempDir(), true, "fatal"
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: peers}}
	cfg.AdvertisePeerUrls = cfg.ListenPeerUrls
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = local, local
	return cfg
}

func start(t testing.TB, cfg *embed.Config) *Member {
	t.Helper()
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &Member{Etcd: server}
	t.Cleanup(m.close)
	return m
}

func ready(t testing.TB, server *Member) {
	t.Helper()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(startTimeout):
		t.Fatal("etcd does not become ready")
	}
}

func address(server *Member) string { return "http://" + server.Clients[0].Addr().String() }

// Dial is a client with a connection of its own. It notices within 13 seconds that nobody
// answers any more; gRPC allows no less than 10, and that of API servers takes 40.
func Dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
