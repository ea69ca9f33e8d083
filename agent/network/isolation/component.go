package isolation

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
)

// Name is the name of the component.
const Name = "isolation"

const (
	// minGap is the shortest time between two changes of the rules, and
	// gapFactor makes it longer where writing them takes long.
	minGap    = 50 * time.Millisecond
	gapFactor = 4
	// checkEvery is how soon the table comes back after something else on the
	// machine, such as a firewall's reload, took it away.
	checkEvery = 30 * time.Second
	// holdFor is how long the table of the run before is kept while waiting
	// for a server, whose knowledge it has in it.
	holdFor = 10 * time.Second
)

// Options configure the isolation of tenants on one node.
type Options struct {
	// Config is the node's credential for a server.
	Config *rest.Config
	// Pods are the pods of this node.
	Pods *localpods.Pods
	// Clusters are the ranges of the pod network.
	Clusters []netip.Prefix
	// Bridge is what local pods are attached to; empty if that is unknown.
	Bridge string
	// Log may be nil.
	Log *logrus.Entry
}

// isolator is the component and, for tests, what can be replaced.
type isolator struct {
	Options
	dirty  chan struct{}
	warned bool

	apply  func(ctx context.Context, script string) error
	exists func(ctx context.Context) (bool, error)
	usable func(ctx context.Context) error
}

// New returns the component. It is ready once there are rules, before a server
// was reached. They stay when it ends.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: newIsolator(o).run}
}

func newIsolator(o Options) *isolator {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	i := &isolator{
		Options: o, dirty: make(chan struct{}, 1), apply: netfilter.Apply, exists: tableExists,
		usable: func(ctx context.Context) error { return netfilter.Probe(ctx).Nftables },
	}
	o.Pods.OnChange(i.mark)
	return i
}

// mark asks for new rules.
func (i *isolator) mark() {
	select {
	case i.dirty <- struct{}{}:
	default: // asked already
	}
}

func (i *isolator) run(ctx context.Context, ready func()) error {
	if err := i.usable(ctx); err != nil {
		i.Log.WithError(err).Error("pods of different tenants are NOT kept apart on this node's network: that needs nftables")
		ready()
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	told := &addresses{config: i.Config, log: i.Log, changed: i.mark}
	followed := make(chan error, 1)
	go func() { followed <- told.follow(ctx) }()
	defer func() {
		cancel()
		if followed != nil {
			<-followed
		}
	}()

	hold, err := i.exists(ctx)
	if err != nil {
		return err
	}
	if hold {
		ready()
	}
	giveUp := time.NewTimer(holdFor)
	defer giveUp.Stop()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	i.mark()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-followed:
			followed = nil
			return err
		case <-giveUp.C:
			hold = false
			i.mark()
			continue
		case <-check.C:
			if there, err := i.exists(ctx); err != nil || !there {
				i.mark()
			}
			continue
		case <-i.dirty:
		}
		known, complete := told.get()
		if hold = hold && !complete; hold {
			continue
		}
		began := time.Now()
		s := state{clusters: i.Clusters, bridge: i.Bridge, local: i.Pods.All(), known: known}
		if err := i.apply(ctx, s.render()); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("writing the rules that keep tenants apart: %w", err)
		}
		ready()
		i.checkBridge(s)
		select {
		case <-time.After(max(minGap, gapFactor*time.Since(began))):
		case <-ctx.Done():
		}
	}
}

// checkBridge warns once where the kernel does not show us what crosses the
// bridge.
func (i *isolator) checkBridge(s state) {
	if i.warned || i.Bridge == "" {
		return
	}
	for _, p := range s.local {
		if p.Tenant == space.System {
			continue
		}
		const sysctl = "/proc/sys/net/bridge/bridge-nf-call-iptables"
		value, err := os.ReadFile(sysctl)
		if err == nil && strings.TrimSpace(string(value)) == "1" {
			return
		}
		i.warned = true
		i.Log.WithError(err).Error("pods of different tenants are NOT kept apart within this node: the sysctl net.bridge.bridge-nf-call-iptables is not 1; load the kernel module br_netfilter")
		return
	}
}

func tableExists(ctx context.Context) (bool, error) {
	tables, err := netfilter.Tables(ctx)
	return slices.Contains(tables, netfilter.Table{Family: "inet", Name: TableName}), err
}
