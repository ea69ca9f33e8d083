package agent

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/component"
)

// JoinName is the component that joins in the background.
const JoinName = "join"

// Back-off of a join that failed for a reason that only a person can remove.
const (
	minJoinBackoff = 5 * time.Second
	maxJoinBackoff = time.Minute
)

// JoinLater starts a node whose server may not exist yet: it returns when the
// kubelet was started, and joins in the background for as long as it takes. A
// node that joined before starts with what it got then.
func (n *Node) JoinLater(ctx context.Context, group *component.Group, servers []string, token string) error {
	options := n.joinOptions(servers, token)
	if err := join.Check(options); err != nil {
		return err
	}
	if err := n.access.reach(ctx, group, servers, &options); err != nil {
		return err
	}
	pods, parts, err := openBootstrapPods(n.cfg, n.dir, n.access, true)
	if err != nil {
		return err
	}
	n.partitions, n.network.partitions = parts, parts
	n.health.router.Store(parts.router)
	if err := n.ImportImages(ctx, group); err != nil {
		return err
	}
	saved, err := join.Saved(options)
	if err != nil {
		return err
	}
	b := &background{node: n, group: group, options: options, began: saved}
	if saved == nil {
		n.log.Info("this node has not joined a server; it runs bootstrap pods with the network of " +
			"the node until it has")
		if b.began, err = join.Placeholder(options); err != nil {
			return err
		}
	} else if err := errors.Join(n.access.writeCredential(saved), parts.connect()); err != nil {
		return err
	}
	parts.start(ctx, group)
	if err := pods.start(ctx, group, n.cfg.NodeName); err != nil {
		return err
	}
	if saved != nil {
		// The rules between tenants are there before the first pod.
		if err := b.startNetwork(ctx, saved); err != nil {
			return err
		}
	}
	n.startKubelet(ctx, group, b.began)
	group.Start(ctx, component.Component{Name: JoinName, Critical: true, Run: b.run})
	return nil
}

// background joins while the node runs.
type background struct {
	node    *Node
	group   *component.Group
	options join.Options
	// began is what the node started with.
	began *join.Result
	// networked says that the parts of the node were started that need to
	// know the cluster.
	networked bool
}

// run joins once, and starts what had to wait for it.
func (b *background) run(ctx context.Context, ready func()) error {
	n := b.node
	trusted, _ := os.ReadFile(b.began.ServerCA) // there is none before the first join
	joined, err := b.join(ctx)
	if err != nil {
		return nil //nolint:nilerr // it fails only when ctx ends
	}
	if now, err := os.ReadFile(joined.ServerCA); b.networked && (err != nil || !bytes.Equal(now, trusted)) {
		n.log.WithError(err).Error("the server has another CA than when this node started: restart a4s on this node")
	}
	if err := n.access.writeCredential(joined); err != nil {
		return err
	}
	was, is := b.began.Config, joined.Config
	was.ServiceGroup = is.ServiceGroup // any server will do
	if was.ClusterDNS != is.ClusterDNS ||
		was.ClusterDomain != is.ClusterDomain || b.networked && was != is {
		n.log.WithFields(logrus.Fields{"dns": is.ClusterDNS, "domain": is.ClusterDomain, "pods": is.ClusterCIDR,
			"services": is.ServiceCIDR}).
			Error("the cluster is set up otherwise than this node knew when it started: restart a4s on this node")
	}
	if !b.networked {
		// Before the kubelet hears of the server's pods.
		if err := b.startNetwork(ctx, joined); err != nil {
			return err
		}
	}
	if err := errors.Join(n.partitions.connect(), n.access.follow(ctx, b.group, joined),
		n.partitions.follow(ctx, b.group)); err != nil {
		return err
	}
	startCertificates(ctx, b.group, n.dir, b.options)
	ready()
	<-ctx.Done()
	return nil
}

// join returns an error when ctx ends, and only then.
func (b *background) join(ctx context.Context) (*join.Result, error) {
	backoff := minJoinBackoff
	for {
		joined, err := join.Join(ctx, b.options)
		if err == nil {
			return joined, nil
		}
		if ctx.Err() == nil {
			b.node.log.WithError(err).Error("cannot join; bootstrap pods keep running, and it is tried again")
		}
		select {
		case <-time.After(backoff + rand.N(backoff/4)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		backoff = min(2*backoff, maxJoinBackoff)
	}
}

// startNetwork starts what needs to know the cluster.
func (b *background) startNetwork(ctx context.Context, joined *join.Result) error {
	isolated := func() { b.networked = true }
	return b.node.startNetwork(ctx, b.group, joined, isolated)
}
