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
	"k8s.io/client-go/transport"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/groupwatch"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/partitionapi"
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
	// groups merges the streams of service groups for the clients, nil if there are none.
	// It is set by writeCredential.
	groups *groupwatch.Groups
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

// follow keeps up with the servers that the cluster has, and with their service groups.
func (a *access) follow(ctx context.Context, group *component.Group) error {
	if a.groups != nil {
		config, err := a.config()
		if err != nil {
			return err
		}
		client, err := partitionapi.NewClient(config, nil)
		if err != nil {
			return fmt.Errorf("making the client of the service groups: %w", err)
		}
		group.Start(ctx, a.groups.Component(client))
	}
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

// Group implements groupwatch.Servers. The clients of a server's own node reach that one.
func (a *access) Group(id string) []string {
	if a.balancer == nil {
		return nil
	}
	return a.balancer.Group(id)
}

// writeCredential makes the credential of what a join brought.
func (a *access) writeCredential(joined *join.Result) error {
	if joined.Config.ServiceGroups && a.groups == nil {
		a.groups = groupwatch.New(a, logrus.WithField("component", groupwatch.Name))
	}
	return kubeconfig.Write(kubeconfig.Options{
		Path: a.credential(), Server: a.url,
		CAFile: joined.ServerCA, CertFile: joined.ClientCert, KeyFile: joined.ClientKey,
	})
}

// wrap is what the clients of everything do with their transports, nil for nothing.
func (a *access) wrap() transport.WrapperFunc {
	if a.groups == nil {
		return nil
	}
	return a.groups.Wrap
}

// config is what clients of one server are made of.
func (a *access) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.credential())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", a.credential(), err)
	}
	return config, nil
}

// clients returns a client of a part of the node, and what it is made of.
func (a *access) clients(part string) (*rest.Config, *kubernetes.Clientset, error) {
	config, err := a.config()
	if err != nil {
		return nil, nil, err
	}
	config.Wrap(a.wrap())
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making the client of %s: %w", part, err)
	}
	return config, client, nil
}
