package agent

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/pki"
)

// loopback is where the load balancer listens. Every server's certificate is
// valid for it.
const loopback = "127.0.0.1"

// access is how the clients of the node reach the API: the credential of the node,
// and the servers.
type access struct {
	cfg      *config.Agent
	dir      string                 // <data-dir>/agent
	balancer *loadbalancer.Balancer // nil on a server
	url      string                 // set by reach
}

// reach decides how the clients of the node reach the API: on a server
// directly, elsewhere through a load balancer, which also knows by whom to
// join.
func (a *access) reach(ctx context.Context, group *component.Group, servers []string, options *join.Options) error {
	if a.cfg.LBServerPort == 0 {
		a.url = servers[0]
		return nil
	}
	a.balancer = loadbalancer.New(loadbalancer.Options{
		Listen:     net.JoinHostPort(loopback, strconv.Itoa(a.cfg.LBServerPort)),
		Configured: servers,
		Dir:        a.dir,
		Files:      pki.NodeFilesIn(filepath.Join(a.dir, "tls")),
		Log:        logrus.WithField("component", loadbalancer.Name),
	})
	a.url = a.balancer.URL()
	options.Servers = a.balancer.Candidates
	return group.StartAndWait(ctx, a.balancer.Component())
}

// follow keeps up with the servers that the cluster has.
func (a *access) follow(ctx context.Context, group *component.Group) error {
	if a.balancer == nil {
		return nil
	}
	_, client, err := a.clients(loadbalancer.FollowerName)
	if err != nil {
		return err
	}
	group.Start(ctx, a.balancer.Follow(client))
	return nil
}

// credential is the kubeconfig of the node.
func (a *access) credential() string { return join.CredentialFile(a.dir) }

// writeCredential makes the credential of what a join brought.
func (a *access) writeCredential(joined *join.Result) error {
	return kubeconfig.Write(kubeconfig.Options{
		Path: a.credential(), Server: a.url,
		CAFile: joined.ServerCA, CertFile: joined.ClientCert, KeyFile: joined.ClientKey,
	})
}

// clients returns a client of a part of the node, and what it is made of.
func (a *access) clients(part string) (*rest.Config, *kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.credential())
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", a.credential(), err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making the client of %s: %w", part, err)
	}
	return config, client, nil
}
