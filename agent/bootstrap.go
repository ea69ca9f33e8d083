package agent

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/bootstrap"
	"github.com/a4s-io/a4s/agent/bootstrap/podcheck"
	"github.com/a4s-io/a4s/agent/bootstrap/source"
	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/instance"
)

// JoinName is the component that joins in the background.
const JoinName = "join"

// Back-off of a join that failed for a reason that only a person can remove.
const (
	minJoinBackoff = 5 * time.Second
	maxJoinBackoff = time.Minute
)

// bootstrapPods is what a node with --bootstrap-pod-api has more.
type bootstrapPods struct {
	server string
	uplink *bootstrap.Uplink
	store  *store.Store
	source *source.Source
	client kubernetes.Interface
}

func (n *Node) bootstrapDir() string  { return filepath.Join(n.dir, "bootstrap") }
func (n *Node) checkpointDir() string { return filepath.Join(n.dir, "checkpoint") }

// makePods reads the bootstrap pods and the checkpoint of the node from disk.
// It must be called before the node joins.
func (n *Node) makePods() error {
	if !n.cfg.BootstrapPodAPI {
		if files, err := filepath.Glob(filepath.Join(n.bootstrapDir(), "*.json")); err == nil && len(files) > 0 {
			n.log.Warnf("there are %d bootstrap pods in %s, which need --bootstrap-pod-api", len(files), n.bootstrapDir())
		}
		// Nobody keeps it up to date, and an old one would end pods.
		return os.RemoveAll(n.checkpointDir())
	}
	log := logrus.WithField("component", bootstrap.Name)
	kept, damaged, err := store.Open(n.bootstrapDir())
	if err != nil {
		return err
	}
	for _, err := range damaged {
		log.WithError(err).Error("a bootstrap pod cannot be read; the others go on")
	}
	p := &bootstrapPods{server: n.api, uplink: bootstrap.NewUplink(), store: kept}
	p.client, err = kubernetes.NewForConfig(&rest.Config{
		Host: n.api, Transport: p.uplink, UserAgent: "a4s/" + bootstrap.PersisterName, Timeout: 15 * time.Second, QPS: -1,
	})
	if err != nil {
		return err
	}
	_, err = os.Stat(n.credential())
	p.source, err = source.New(source.Options{
		NodeName: n.cfg.NodeName, Store: kept, Dir: n.checkpointDir(),
		Fresh: errors.Is(err, os.ErrNotExist),
		Probe: func(ctx context.Context) error {
			_, err := p.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
				FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.cfg.NodeName).String(), Limit: 1,
			})
			return err
		},
		Log: logrus.WithField("component", source.Name),
	})
	if err != nil {
		return err
	}
	n.pods = p
	return nil
}

// startPods serves the API of bootstrap pods, if it is turned on, and offers
// them to the server.
func (n *Node) startPods(ctx context.Context, group *component.Group) error {
	p := n.pods
	if p == nil {
		return nil
	}
	checker, err := podcheck.New(n.cfg.NodeName)
	if err != nil {
		return err
	}
	group.Start(ctx, p.source.Component())
	api := bootstrap.New(bootstrap.Options{
		Store: p.store, Checker: checker, Live: p.source.Live,
		Lookup: func(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
			return p.client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		},
		Log: logrus.WithField("component", bootstrap.Name),
	})
	if err := group.StartAndWait(ctx, api.Component(bootstrapapi.Socket(instance.RunDir))); err != nil {
		return err
	}
	persister := &bootstrap.Persister{Store: p.store, Pods: p.client.CoreV1(), Log: logrus.WithField("component", bootstrap.PersisterName)}
	group.Start(ctx, persister.Component())
	return nil
}

// JoinLater starts a node whose server may not exist yet: it returns when the
// kubelet was started, and joins in the background for as long as it takes. A
// node that joined before starts with what it got then.
func (n *Node) JoinLater(ctx context.Context, group *component.Group, servers []string, token string) error {
	options := n.joinOptions(servers, token)
	if err := join.Check(options); err != nil {
		return err
	}
	if err := n.reach(ctx, group, servers, &options); err != nil {
		return err
	}
	if err := n.makePods(); err != nil {
		return err
	}
	if err := n.ImportImages(ctx, group); err != nil {
		return err
	}
	saved, err := join.Saved(options)
	if err != nil {
		return err
	}
	b := &background{node: n, group: group, options: options, began: saved}
	if saved == nil {
		n.log.Info("this node has not joined a server; it runs bootstrap pods with the network of the node until it has")
		if b.began, err = join.Placeholder(options); err != nil {
			return err
		}
	} else if err := errors.Join(n.writeCredential(saved), n.connect()); err != nil {
		return err
	}
	if err := n.startPods(ctx, group); err != nil {
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
	if err := n.writeCredential(joined); err != nil {
		return err
	}
	if was, is := b.began.Config, joined.Config; was.ClusterDNS != is.ClusterDNS || was.ClusterDomain != is.ClusterDomain || b.networked && was != is {
		n.log.WithFields(logrus.Fields{"dns": is.ClusterDNS, "domain": is.ClusterDomain, "pods": is.ClusterCIDR, "services": is.ServiceCIDR}).
			Error("the cluster is set up otherwise than this node knew when it started: restart a4s on this node")
	}
	if !b.networked {
		// Before the kubelet hears of the server's pods.
		if err := b.startNetwork(ctx, joined); err != nil {
			return err
		}
	}
	if err := n.connect(); err != nil {
		return err
	}
	if err := n.followServers(ctx, b.group); err != nil {
		return err
	}
	n.startCertificates(ctx, b.group, b.options)
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
	n := b.node
	pods, err := n.isolate(ctx, b.group, joined, n.credential())
	if err != nil {
		return err
	}
	b.networked = true
	return n.startNetwork(ctx, b.group, joined, pods)
}
