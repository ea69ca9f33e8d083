package network

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flannel-io/flannel/pkg/backend"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/network/netfilter"
)

// TunnelTable is the name of the nftables table that keeps the tunnel between
// nodes to nodes; its family is inet.
const TunnelTable = "a4s_tunnel"

const (
	// quiet is how long no other node has to be heard of before the rules are
	// written: flannel tells one after the other.
	quiet = 20 * time.Millisecond
	// checkEvery is how soon the table comes back after something else on the
	// machine, such as a firewall's reload, took it away.
	checkEvery = 10 * time.Second
)

// tunnelRules returns the nft script that puts the table in place of an older
// one. The kernel takes a packet to the port for one of the tunnel whoever sent
// it, and what is in it comes out as from any pod. So:
//
//   - this node takes packets from addresses of nodes only, never from the pods'
//     bridge, and none that a Service sent there: a NodePort has the address of
//     the node that passed it on;
//   - none leaves this node for the port of another, or of what may become one,
//     by way of forwarding, because it would go with this node's address. Nodes
//     themselves do not forward their packets. Pods may use the port among
//     themselves.
func tunnelRules(clusters []netip.Prefix, nodes []netip.Addr) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("add table inet %s", TunnelTable)
	line("delete table inet %s", TunnelTable)
	line("table inet %s {", TunnelTable)
	for _, f := range []struct {
		suffix, addrType string
		has              func(netip.Addr) bool
	}{{"4", "ipv4_addr", netip.Addr.Is4}, {"6", "ipv6_addr", netip.Addr.Is6}} {
		var ranges, addrs []string
		for _, c := range clusters {
			if f.has(c.Addr()) {
				ranges = append(ranges, c.Masked().String())
			}
		}
		for _, a := range slices.SortedFunc(slices.Values(nodes), netip.Addr.Compare) {
			if f.has(a) {
				addrs = append(addrs, a.String())
			}
		}
		line("\tset cluster-%s { type %s; flags interval;%s }", f.suffix, f.addrType, elements(ranges))
		line("\tset nodes-%s { type %s;%s }", f.suffix, f.addrType, elements(addrs))
	}
	line("\tchain to-this-node {")
	line("\t\tiifname %q drop", BridgeName)
	line("\t\tct status dnat drop")
	line("\t\tip saddr @nodes-4 accept")
	line("\t\tip6 saddr @nodes-6 accept")
	line("\t\tdrop")
	line("\t}")
	line("\tchain through-this-node {")
	for _, f := range []string{"ip daddr @nodes-4", "ip6 daddr @nodes-6"} {
		line("\t\t%s drop", f)
	}
	line("\t\tip daddr @cluster-4 accept")
	line("\t\tip6 daddr @cluster-6 accept")
	line("\t\tct status dnat drop")
	line("\t\tiifname %q drop", BridgeName)
	line("\t\tip saddr @cluster-4 drop")
	line("\t\tip6 saddr @cluster-6 drop")
	line("\t}")
	for _, c := range [][2]string{{"input", "to-this-node"}, {"forward", "through-this-node"}} {
		line("\tchain %s {", c[0])
		line("\t\ttype filter hook %s priority filter - 10; policy accept;", c[0])
		line("\t\tudp dport %d jump %s", vxlanPort, c[1])
		line("\t}")
	}
	line("}")
	return b.String()
}

func elements(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " elements = { " + strings.Join(list, ", ") + " };"
}

// tunnel keeps the rules of the tunnel up with the nodes of the cluster.
type tunnel struct {
	self netip.Addr
	log  *logrus.Entry

	apply  func(ctx context.Context, script string) error
	tables func(ctx context.Context) ([]netfilter.Table, error)

	mu       sync.Mutex
	clusters []netip.Prefix        // the ranges of pods
	nodes    map[string]netip.Addr // by their range of pods
	told     bool                  // of any node
}

// newTunnel writes the first rules, before there is a device. Those of the run
// before stay instead, until flannel has told of the nodes again: pods that run
// go on talking meanwhile. Without nftables it returns nil.
func newTunnel(
	ctx context.Context, mode netfilter.Mode, conf *subnet.Config, ext *backend.ExternalInterface, log *logrus.Entry,
) (*tunnel, error) {
	if mode != netfilter.Nftables {
		if err := netfilter.Probe(ctx).Nftables; err != nil {
			log.WithError(err).
				Error("pods can forge what comes from other nodes: to keep them from the tunnel's port needs nftables")
			return nil, nil
		}
	}
	cluster, err := netip.ParsePrefix(conf.Network.String())
	if err != nil {
		return nil, fmt.Errorf("reading the pods' range: %w", err)
	}
	t := &tunnel{
		clusters: []netip.Prefix{cluster}, log: log, nodes: map[string]netip.Addr{},
		apply: netfilter.Apply, tables: netfilter.Tables,
	}
	t.self, _ = netip.AddrFromSlice(ext.IfaceAddr.To4())
	return t, t.restore(ctx)
}

// restore writes the rules if there are none.
func (t *tunnel) restore(ctx context.Context) error {
	tables, err := t.tables(ctx)
	if err != nil || slices.Contains(tables, netfilter.Table{Family: "inet", Name: TunnelTable}) {
		return err
	}
	return t.write(ctx)
}

func (t *tunnel) write(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	nodes := map[netip.Addr]bool{}
	for _, addr := range append(slices.Collect(maps.Values(t.nodes)), t.self) {
		nodes[addr] = true
	}
	if err := t.apply(ctx, tunnelRules(t.clusters, slices.Collect(maps.Keys(nodes)))); err != nil {
		return fmt.Errorf("writing the rules of the tunnel between nodes: %w", err)
	}
	return nil
}

// keep brings the table back when it was taken away, until ctx ends.
func (t *tunnel) keep(ctx context.Context) {
	if t == nil {
		return
	}
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := t.restore(ctx); err != nil && ctx.Err() == nil {
				t.log.WithError(err).Error("the rules of the tunnel between nodes are not there; this is tried again")
			}
		}
	}
}

// spread takes over the ranges of pods. Before flannel has told of the nodes the rules of the run
// before stay.
func (t *tunnel) spread(ctx context.Context, clusters []netip.Prefix) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	same, told, before := slices.Equal(t.clusters, clusters), t.told, t.clusters
	t.clusters = clusters
	t.mu.Unlock()
	if same || !told {
		return nil
	}
	err := t.write(ctx)
	if err != nil {
		t.mu.Lock()
		t.clusters = before // so that it is tried again
		t.mu.Unlock()
	}
	return err
}

// hear takes over what flannel is told, and reports whether rules change.
func (t *tunnel) hear(results []lease.LeaseWatchResult) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := maps.Clone(t.nodes)
	for _, r := range results {
		for _, e := range r.Events {
			subnet := e.Lease.Subnet.String()
			addr, ok := netip.AddrFromSlice(e.Lease.Attrs.PublicIP.ToIP())
			switch {
			case e.Type == lease.EventRemoved:
				delete(t.nodes, subnet)
			case ok:
				t.nodes[subnet] = addr.Unmap()
			}
		}
	}
	changed := !t.told || !maps.Equal(before, t.nodes)
	t.told = true
	return changed
}

// followed is a subnet manager whose leases the rules follow: nothing is sent to
// a node, and so nothing expected from it, before the rules know it.
type followed struct {
	subnet.Manager
	tunnel *tunnel
}

// WatchLeases implements subnet.Manager.
func (f followed) WatchLeases(ctx context.Context, receiver chan []lease.LeaseWatchResult) error {
	if f.tunnel == nil {
		return f.Manager.WatchLeases(ctx, receiver)
	}
	defer close(receiver)
	inner := make(chan []lease.LeaseWatchResult)
	ended := make(chan error, 1)
	go func() { ended <- f.Manager.WatchLeases(ctx, inner) }()
	for batch := range inner {
		open := true
		for more := time.NewTimer(quiet); open && more != nil; {
			select {
			case next, ok := <-inner:
				batch, open = append(batch, next...), ok
				more.Reset(quiet)
			case <-more.C:
				more = nil
			}
		}
		if f.tunnel.hear(batch) {
			for err := f.tunnel.write(ctx); err != nil; err = f.tunnel.write(ctx) {
				if ctx.Err() != nil {
					break
				}
				f.tunnel.log.WithError(err).Error("other nodes cannot be reached; this is tried again")
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		}
		select {
		case receiver <- batch:
		case <-ctx.Done():
			// The inner one may wait for us, and ends as well.
			go func() {
				for range inner { //nolint:revive // until it is closed
				}
			}()
			return ctx.Err()
		}
	}
	return <-ended
}

// removeTunnel takes the table away, for a network of somebody else, who may use
// the port as well.
func removeTunnel(ctx context.Context) error {
	_, err := netfilter.RemoveTables(ctx, func(t netfilter.Table) bool { return t.Name == TunnelTable })
	return err
}
