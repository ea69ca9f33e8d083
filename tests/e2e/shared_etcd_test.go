package e2e

import (
	"strings"
	"testing"

	"github.com/a4s-io/a4s/tests/databases"
)

// TestServersShareAnEtcd: two servers on an etcd that somebody else runs are one cluster.
func TestServersShareAnEtcd(t *testing.T) {
	t.Parallel()
	args := sharedEtcd(t)
	one := ownCluster(t, "shares-1", args...)
	third := newHost(t, "shares-3")
	refused := func(what, says string, args ...string) {
		t.Helper()
		r := command(t, third, append([]string{"server"}, args...)...)
		if r.ExitCode == 0 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: exit code %d, want one that says %q\n%s", what, r.ExitCode, says, r.Stderr)
		}
	}
	refused("a server that does not join", "join that server (--server and --token)", args...)
	join := []string{"--server", one.url(), "--token", one.serverToken(t)}
	refused("a server with its own datastore", "the --datastore-endpoint of that server",
		append([]string{"--disable-agent"}, join...)...)

	two := joinServer(t, "shares-2", one, args...)
	one.waitServers(t, one, two)
	tenantsOnAllServers(t, one, two)
	s := startScribe(t, one.namespace(t), one, two)
	s.during(t, "kill -9 of the server that leads", func() { one.proc.Kill() })
	s.check(t, two)
	one.restart(t)
	one.waitServers(t, one, two)
	s.during(t, "kill -9 of the server that joined", func() { two.proc.Kill() })
	two.restart(t)
	two.waitServers(t, one, two)
	s.check(t, one, two)
	s.end()

	// Each knows the other's name, which no node may have.
	n := &node{host: third, args: []string{"agent", "--server", one.url(), "--token", one.nodeToken(t),
		"--node-ip", third.IP.String(), "--node-name", "shares-2"}}
	if r := n.a4s(t, n.args...); r.ExitCode != 1 || !strings.Contains(r.Stderr, "reserved for the API server") {
		t.Errorf("an agent with the name of another server: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
}

// sharedEtcd starts an etcd that servers without nodes share, and returns their flags.
func sharedEtcd(t *testing.T) []string {
	t.Helper()
	env.etcd.Lock() // it has the usual ports
	t.Cleanup(env.etcd.Unlock)
	etcd := databases.StartEtcdAt(t, env.lab.Gateway.String())
	return []string{"--disable-agent", "--datastore-endpoint", etcd.Endpoint, "--datastore-cafile", etcd.CAFile,
		"--datastore-certfile", etcd.CertFile, "--datastore-keyfile", etcd.KeyFile}
}
