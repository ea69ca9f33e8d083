package network

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/trafficmngr"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"

	"github.com/a4s-io/a4s/agent/network/netfilter"
)

const resyncSeconds = 10

// ChainPrefix is how the names of flannel's iptables chains begin.
const ChainPrefix = "FLANNEL-"

// IsTable tells flannel's nftables tables.
func IsTable(t netfilter.Table) bool {
	return t.Name == "flannel-ipv4" || t.Name == "flannel-ipv6"
}

// setUpRules makes pods reach the world behind the node's address, and lets
// their traffic be forwarded. Rules of the other mode, or for another pod
// range, go first.
func setUpRules(ctx context.Context, mode netfilter.Mode, conf *subnet.Config, l *lease.Lease) error {
	var tm trafficmngr.TrafficManager = &nftables.NFTablesManager{}
	if mode == netfilter.Iptables {
		tm = &iptables.IPTablesManager{}
		if _, err := netfilter.RemoveTables(ctx, IsTable); err != nil {
			return fmt.Errorf("removing flannel's nftables rules: %w", err)
		}
	}
	if _, err := netfilter.RemoveChains(ctx, netfilter.WithPrefix(ChainPrefix)); err != nil {
		return fmt.Errorf("removing flannel's iptables rules: %w", err)
	}
	if err := tm.Init(ctx); err != nil {
		return fmt.Errorf("flannel's rules: %w", err)
	}
	// There is nothing to recycle, so the previous network is this one.
	err := tm.SetupAndEnsureMasqRules(ctx, conf.Network, l.Subnet, conf.Network,
		ip.IP6Net{}, ip.IP6Net{}, ip.IP6Net{}, l, resyncSeconds, false)
	if err != nil {
		return fmt.Errorf("flannel's masquerading: %w", err)
	}
	tm.SetupAndEnsureForwardRules(ctx, conf.Network, ip.IP6Net{}, resyncSeconds)
	if mode == netfilter.Nftables && dropsForwarded(ctx) {
		// An accept in one table does not outvote a drop in another.
		(&iptables.IPTablesManager{}).SetupAndEnsureForwardRules(ctx, conf.Network, ip.IP6Net{}, resyncSeconds)
	}
	return nil
}

// dropsForwarded reports whether iptables drops forwarded packets by default,
// as it does on a machine with Docker.
func dropsForwarded(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "iptables", "-w", "5", "-S", "FORWARD").Output()
	return err == nil && strings.Contains(string(out), "-P FORWARD DROP")
}
