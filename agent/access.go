package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/a4s-io/a4s/agent/cluster/clientfile"
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
	// groups merges the streams of service groups for the clients, once there are any.
	groups *groupwatch.Groups
	// others are the servers of other groups, on a server of a group.
	others atomic.Pointer[loadbalancer.Others]
	// embedded is what clients of the file of that name have besides. everywhere makes their
	// transports see all partitions; it is set before the node joins.
	embedded   *api.AuthProviderConfig
	everywhere transport.WrapperFunc
}

func newAccess(cfg *config.Agent, dir string) *access {
	a := &access{cfg: cfg, dir: dir}
	a.groups = groupwatch.Later(a, logrus.WithField("component", groupwatch.Name))
	return a
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
func (a *access) follow(ctx context.Context, group *component.Group, joined *join.Result) error {
	grouped, others := joined.Config.ServiceGroup != "", a.others.Load()
	if a.balancer == nil && others == nil {
		return nil // its server is of no group, and has everything
	}
	config, client, err := a.clients(loadbalancer.FollowerName)
	if err != nil {
		return err
	}
	configs, err := partitionapi.NewClient(config, nil)
	if err != nil {
		return fmt.Errorf("making the client of the service groups: %w", err)
	}
	groups := a.groups.Component(configs)
	if grouped {
		group.Start(ctx, groups)
	}
	if a.balancer == nil {
		group.Start(ctx, others.Follow(client))
		return nil
	}
	group.Start(ctx, a.balancer.Follow(client))
	if !grouped {
		go func() {
			select {
			case <-a.balancer.Grouped():
				group.Start(ctx, groups)
			case <-ctx.Done():
			}
		}()
	}
	return nil
}

// credential is the kubeconfig of the node.
func (a *access) credential() string { return join.CredentialFile(a.dir) }

// fresh reports whether the node has never joined: no server gave it a pod.
func (a *access) fresh() bool {
	_, err := os.Stat(a.credential())
	return errors.Is(err, os.ErrNotExist)
}

// embeddedCredential is the kubeconfig of parts that take a file and no client. Theirs see
// all partitions.
func (a *access) embeddedCredential() string { return filepath.Join(a.dir, "embedded.kubeconfig") }

// Group implements groupwatch.Servers.
func (a *access) Group(id string) []string {
	if a.balancer != nil {
		return a.balancer.Group(id)
	}
	if others := a.others.Load(); others != nil {
		return others.Group(id)
	}
	return nil
}

// writeCredential makes the credential of what a join brought.
func (a *access) writeCredential(joined *join.Result) error {
	own := joined.Config.ServiceGroup
	a.groups.Expect(own != "")
	if own != "" && a.balancer == nil {
		a.others.Store(loadbalancer.NewOthers(own))
	}
	if a.embedded == nil {
		var err error
		if a.embedded, err = clientfile.Register(a.wrapEverywhere()); err != nil {
			return err
		}
	}
	file := kubeconfig.Options{
		Path: a.credential(), Server: a.url,
		CAFile: joined.ServerCA, CertFile: joined.ClientCert, KeyFile: joined.ClientKey,
	}
	if err := kubeconfig.Write(file); err != nil {
		return err
	}
	file.Path, file.AuthProvider = a.embeddedCredential(), a.embedded
	return kubeconfig.Write(file)
}

// wrap is what the clients of everything do with their transports.
func (a *access) wrap() transport.WrapperFunc { return a.groups.Wrap }

// wrapEverywhere is what clients that see all partitions do with their transports.
func (a *access) wrapEverywhere() transport.WrapperFunc {
	return transport.Wrappers(a.wrap(), a.everywhere)
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
