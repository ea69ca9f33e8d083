package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/partitions"
	"github.com/a4s-io/a4s/agent/kubelet"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/route"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/pki"
)

// partitionsKnownWithin is how long the kubelet waits at its start to learn whose name
// server its pods use by default.
const partitionsKnownWithin = 10 * time.Second

// tenantPartitions are those whose pods the node takes, and the one that has the node.
type tenantPartitions struct {
	access *access
	source *partitions.Source
	router *route.Router
}

// openPartitions reads from disk what was known. It must be called before the node joins.
// offline says that the node runs before there is a server, home is what stands before the
// home partition then; it may be nil.
func openPartitions(
	cfg *config.Agent, dir string, a *access, offline bool, home func(http.RoundTripper) http.RoundTripper,
) (*tenantPartitions, error) {
	p, fresh := &tenantPartitions{access: a}, a.fresh()
	var err error
	if p.source, err = partitions.New(partitions.Options{
		Dir: dir, Files: pki.NodeFilesIn(filepath.Join(dir, "tls")), Home: home,
		Fresh: fresh, Assume: offline, Log: logrus.WithField("component", partitions.FollowerName),
	}); err != nil {
		return nil, err
	}
	p.router, err = route.New(route.Options{
		Partitions: p.source, ResourcePartition: p.source.Own(), NodeName: cfg.NodeName,
		Dir: filepath.Join(dir, "partitions"), Fresh: fresh, Log: logrus.WithField("component", route.Name),
	})
	if err != nil {
		return nil, err
	}
	a.everywhere = func(own http.RoundTripper) http.RoundTripper { return origin.Plain(p.router.Through(own)) }
	return p, nil
}

// start connects to the partitions that are known.
func (p *tenantPartitions) start(ctx context.Context, group *component.Group) {
	group.Start(ctx, p.source.Component())
	group.Start(ctx, p.router.Component())
}

// connect lets the node reach its servers.
func (p *tenantPartitions) connect() error {
	config, err := p.access.config()
	if err != nil {
		return err
	}
	config.Wrap(p.access.wrap())
	base, err := url.Parse(p.access.url)
	if err != nil {
		return fmt.Errorf("address of the servers: %w", err)
	}
	rt, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("connecting with %s: %w", p.access.credential(), err)
	}
	p.source.Connect(base, rt)
	return nil
}

// follow keeps up with the partitions that the cluster has.
func (p *tenantPartitions) follow(ctx context.Context, group *component.Group) error {
	config, err := p.access.config()
	if err != nil {
		return err
	}
	group.Start(ctx, p.source.Follow(config))
	group.Start(ctx, p.source.Life())
	return nil
}

// await waits for a while until requests can be sent to the partitions: what asks before
// is told that there are none, and says so in the log.
func (p *tenantPartitions) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, partitionsKnownWithin)
	defer cancel()
	p.router.Await(ctx)
}

// transport is that of clients of the node's pods and of what these use.
func (p *tenantPartitions) transport() http.RoundTripper {
	return origin.New(p.router, origin.Options{})
}

// client returns a client of a part of the node that works with all partitions.
func (p *tenantPartitions) client(part string) (*kubernetes.Clientset, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: p.access.url, Transport: p.transport(),
		UserAgent: "a4s/" + part, QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", part, err)
	}
	return client, nil
}

// kubelet completes the options of the kubelet.
func (p *tenantPartitions) kubelet(ctx context.Context, o *kubelet.Options, joined *join.Result) {
	o.Connection = &kubelet.Connection{Server: p.access.url, Transport: p.source.Own()}
	o.Router = p.router
	ctx, cancel := context.WithTimeout(ctx, partitionsKnownWithin)
	defer cancel()
	// The kubelet gives pods of home's system space its own name server.
	o.ClusterDNS = cmp.Or(p.homeDNS(ctx), joined.Config.ClusterDNS.String())
}

// homeDNS is the address of the name server of the home partition, empty if it is that of the
// node or not known.
func (p *tenantPartitions) homeDNS(ctx context.Context) string {
	if p.source.Own().Connected() {
		if _, ok := p.source.Known(ctx); !ok {
			logrus.WithField("component", partitions.FollowerName).
				Warn("no server has told the partitions of the cluster so far; no pod starts until one does")
		}
	}
	all, _ := p.source.Current()
	for _, one := range all {
		if one.Home && !one.Node && len(one.ClusterDNS) > 0 {
			return one.ClusterDNS[0]
		}
	}
	return ""
}
