package agent

import (
	"context"
	"net"
	"path/filepath"
	"strconv"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
)

// loopback is where the load balancer listens. Every server's certificate is
// valid for it.
const loopback = "127.0.0.1"

// reach decides how the clients of the node reach the API: on a server
// directly, elsewhere through a load balancer, which also knows by whom to
// join.
func (n *Node) reach(ctx context.Context, group *component.Group, servers []string, options *join.Options) error {
	if n.cfg.LBServerPort == 0 {
		n.api = servers[0]
		return nil
	}
	n.servers = loadbalancer.New(loadbalancer.Options{
		Listen:     net.JoinHostPort(loopback, strconv.Itoa(n.cfg.LBServerPort)),
		Configured: servers,
		Dir:        n.dir,
		Files:      pki.NodeFilesIn(filepath.Join(n.dir, "tls")),
		Log:        logrus.WithField("component", loadbalancer.Name),
	})
	n.api = n.servers.URL()
	options.Servers = n.servers.Candidates
	return group.StartAndWait(ctx, n.servers.Component())
}

// followServers keeps up with the servers that the cluster has.
func (n *Node) followServers(ctx context.Context, group *component.Group) error {
	if n.servers == nil {
		return nil
	}
	_, client, err := clients(n.credential(), loadbalancer.FollowerName)
	if err != nil {
		return err
	}
	group.Start(ctx, n.servers.Follow(client))
	return nil
}

// Servers returns what the node knows of its servers, nothing on a server.
func (n *Node) Servers() []loadbalancer.ServerState {
	if n.servers == nil {
		return nil
	}
	return n.servers.Servers()
}
