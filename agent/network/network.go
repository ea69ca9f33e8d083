package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/hostgw" // registers itself
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"  // registers itself
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/problem"
)

// Why a running network ends; the supervisor then starts it again.
var (
	errDeviceGone   = errors.New(VXLANName + " was deleted")
	errRangeChanged = errors.New("the node's pod range changed")
	errUnregistered = errors.New("the node lost its network annotations")
	errEnded        = errors.New("flannel's backend ended")
)

// Options configure the pod network of one node.
type Options struct {
	// KubeconfigPath is the node's credential.
	KubeconfigPath string
	// NodeName is the name of the Node object.
	NodeName string
	// NodeIPs are the node's addresses; other nodes reach it at the IPv4 one.
	NodeIPs []netip.Addr
	// Iface carries the traffic between nodes.
	Iface string
	// Backend is "vxlan", "host-gw" or "none".
	Backend string
	// ClusterCIDR is the range of the pods on nodes of this node's partition.
	ClusterCIDR string
	// Others are the ranges of pods on nodes of other partitions, and a channel that is closed
	// when there are others; nil means that there are none.
	Others func() (all []netip.Prefix, changed <-chan struct{})
	// PacketFilter is "auto", "nftables" or "iptables" (--proxy-mode).
	PacketFilter netfilter.Mode
	// DataDir is the data directory of a4s.
	DataDir string
	// Log receives what was decided.
	Log *logrus.Entry
}

// Name is the component's name.
const Name = "network"

// New returns the pod network as a component. It is ready when pods can be
// attached. With the backend "none" it does nothing, for a cluster that
// brings its own network.
func New(o Options) component.Component {
	if o.Log == nil {
		o.Log = logrus.WithField("component", "network")
	}
	return component.Component{Name: Name, Run: o.run}
}

func (o Options) run(ctx context.Context, ready func()) error {
	if o.Backend == backendNone {
		o.Log.Info("no pod network, as --flannel-backend=none says; pods wait for one to be installed")
		if err := removeTunnel(ctx); err != nil {
			o.Log.WithError(err).Warn("the rules for flannel's tunnel are still there")
		}
		ready()
		<-ctx.Done()
		return nil
	}
	mode, why, err := netfilter.Choose(ctx, "--proxy-mode", o.PacketFilter)
	if err != nil {
		return err
	}
	o.Log.WithField("why", why).Infof("pod network uses %s", mode)
	conf, err := renderNetConf(o.ClusterCIDR, o.Backend, mode)
	if err != nil {
		return err
	}
	if err := write(NetConfPath(o.DataDir), conf); err != nil {
		return err
	}
	restConf, err := clientcmd.BuildConfigFromFlags("", o.KubeconfigPath)
	if err != nil {
		return fmt.Errorf("reading the node's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(restConf)
	if err != nil {
		return fmt.Errorf("client for the node object: %w", err)
	}
	// flannel takes a second to learn of the nodes: that long the node is not
	// waited for in vain.
	type result struct {
		sm  subnet.Manager
		err error
	}
	made := make(chan result, 1)
	go func() {
		sm, err := o.newSubnetManager(ctx)
		made <- result{sm, err}
	}()
	states := watchNode(ctx, client, o.NodeName)
	podCIDR, err := waitForPodCIDR(ctx, states, o.Log)
	if err != nil {
		return err
	}
	flannel := <-made
	if flannel.err != nil {
		return flannel.err
	}
	return o.serve(ctx, ready, flannel.sm, mode, func(ctx context.Context) error {
		return watchForChange(ctx, states, podCIDR)
	})
}

// newSubnetManager returns flannel's own manager of leases over Node objects.
// It learns the node's name from the environment and from nowhere else.
func (o Options) newSubnetManager(ctx context.Context) (subnet.Manager, error) {
	const key = "NODE_NAME"
	before, had := os.LookupEnv(key)
	if err := os.Setenv(key, o.NodeName); err != nil {
		return nil, err
	}
	defer func() {
		if had {
			_ = os.Setenv(key, before) // it was valid before
		} else {
			_ = os.Unsetenv(key) // fails for no name
		}
	}()
	sm, err := kube.NewSubnetManager(ctx, "", o.KubeconfigPath, annotationPrefix, NetConfPath(o.DataDir), false)
	if err != nil {
		return nil, fmt.Errorf("flannel's subnet manager: %w", err)
	}
	return sm, nil
}

// serve sets the network up and keeps it until ctx ends, watch returns, or
// the device disappears.
func (o Options) serve(
	ctx context.Context, ready func(), sm subnet.Manager, mode netfilter.Mode, watch func(context.Context) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conf, err := sm.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("flannel configuration: %w", err)
	}
	ext, err := o.externalInterface()
	if err != nil {
		return err
	}
	rules, err := newTunnel(ctx, mode, conf, ext, o.Log)
	if err != nil {
		return err
	}
	go rules.keep(ctx)
	var wg sync.WaitGroup
	be, err := backend.NewManager(ctx, guarded{followed{sm, rules}}, ext).GetBackend(o.Backend)
	if err != nil {
		return fmt.Errorf("flannel backend %s: %w", o.Backend, err)
	}
	bn, err := be.RegisterNetwork(ctx, &wg, conf)
	if err != nil {
		return fmt.Errorf("flannel backend %s: %w", o.Backend, err)
	}
	own := bn.Lease()
	if err := setUpRules(ctx, mode, conf, own); err != nil {
		return err
	}
	if cluster, err := netip.ParsePrefix(conf.Network.String()); err == nil {
		newOthers(cluster, mode, rules, o.Log).follow(ctx, o.Others)
	}

	// Subscribe before flannel does: where it cannot, it would log and exit.
	failed := make(chan error, 3)
	if o.Backend == backendVXLAN {
		if err := watchDevice(ctx, failed); err != nil {
			return err
		}
	}
	go func() { failed <- watch(ctx) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		bn.Run(ctx)
		failed <- errEnded
	}()

	list, err := renderConflist(o.DataDir, own.Subnet.String(), bn.MTU(), mode)
	if err != nil {
		return err
	}
	if err := write(conflistPath(o.DataDir), list); err != nil {
		return err
	}
	o.Log.WithFields(logrus.Fields{"backend": o.Backend, "pods": own.Subnet.String(), "interface": ext.IfaceName,
		"mtu": bn.MTU()}).Info("pod network is up")
	ready()

	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	cancel()
	// Bounded: flannel's loops can wait for each other when they are stopped
	// while an event is on its way.
	select {
	case <-ended:
	case <-time.After(3 * time.Second):
	}
	return err
}

// How long, and how often, a lease is asked for again.
const leasePatience, leaseRetry = 2 * time.Second, 20 * time.Millisecond

// resubscribeAfter is when a subscription that ended is made again: one that ends
// at once must not keep the process busy.
const resubscribeAfter = time.Second

// guarded keeps flannel from recreating a deleted vxlan device by itself, while
// the component, which saw the deletion too, is restarted and does the same. It
// asks for the configuration first, and here waits for it until then.
type guarded struct{ subnet.Manager }

// AcquireLease tries for a moment what fails: flannel watches the nodes itself,
// and may hear later than we do that this one has its range.
func (g guarded) AcquireLease(ctx context.Context, attrs *lease.LeaseAttrs) (*lease.Lease, error) {
	for end := time.Now().Add(leasePatience); ; {
		got, err := g.Manager.AcquireLease(ctx, attrs)
		if err == nil || time.Now().After(end) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(leaseRetry):
		}
	}
}

// GetNetworkConfig blocks until ctx ends. RegisterNetwork does not call it.
func (guarded) GetNetworkConfig(ctx context.Context) (*subnet.Config, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// watchDevice sends errDeviceGone when the vxlan device is deleted. The kernel ends
// a subscription that does not keep up with the changes of links; the next one may
// have missed the deletion.
func watchDevice(ctx context.Context, failed chan<- error) error {
	updates, end, err := subscribeToDevice(ctx)
	if err != nil {
		return err
	}
	report := func(err error) {
		select {
		case failed <- err:
		default: // there is a reason already
		}
	}
	go func() {
		for {
			for u := range updates {
				if u.Header.Type == unix.RTM_DELLINK && u.Attrs() != nil && u.Attrs().Name == VXLANName {
					report(errDeviceGone)
				}
			}
			end()
			if component.Sleep(ctx, resubscribeAfter) != nil {
				return
			}
			if updates, end, err = subscribeToDevice(ctx); err != nil {
				report(err)
				return
			}
		}
	}()
	return nil
}

// subscribeToDevice returns the changes of links, which are closed when ctx or the
// subscription ends. It fails when the vxlan device is not there.
func subscribeToDevice(ctx context.Context) (<-chan netlink.LinkUpdate, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	updates := make(chan netlink.LinkUpdate, 64)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("watching network interfaces: %w", err)
	}
	if _, err := netlink.LinkByName(VXLANName); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("%w: %w", errDeviceGone, err)
	}
	return updates, cancel, nil
}

// externalInterface describes to flannel how other nodes reach this one.
func (o Options) externalInterface() (*backend.ExternalInterface, error) {
	iface, err := net.InterfaceByName(o.Iface)
	if err != nil {
		return nil, &problem.Precondition{What: "interface " + o.Iface + " (--flannel-iface or the one of --node-ip)",
			Err: err, Fix: "bring it back or choose another"}
	}
	addrs, err := iface.Addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", o.Iface, err)
	}
	var first netip.Addr
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(ipnet.IP)
		if ip = ip.Unmap(); !ok || !ip.Is4() || !ip.IsGlobalUnicast() {
			continue
		}
		for _, node := range o.NodeIPs {
			if node == ip {
				return external(iface, ip), nil
			}
		}
		if !first.IsValid() {
			first = ip
		}
	}
	if !first.IsValid() {
		return nil, &problem.Precondition{What: "interface " + o.Iface, Err: errors.New("it has no IPv4 address"),
			Fix: "give it one or choose another with --flannel-iface"}
	}
	return external(iface, first), nil
}

func external(iface *net.Interface, ip netip.Addr) *backend.ExternalInterface {
	addr := net.IP(ip.AsSlice())
	return &backend.ExternalInterface{Iface: iface, IfaceName: iface.Name, IfaceAddr: addr, ExtAddr: addr}
}
