package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/coreos/go-iptables/iptables"
	"github.com/sirupsen/logrus"
	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/internal/problem"
)

const (
	tableName = "a4s-dns" // of nftables
	chainName = "A4S-DNS" // of iptables
	rawTable  = "raw"
)

// noTrack keeps DNS packets to and from the address out of connection
// tracking, before any of kube-proxy's chains sees them.
type noTrack struct {
	addr netip.Addr
	// others are the addresses of further servers on this node, nil for none.
	others func() []netip.Addr
	log    *logrus.Entry
	warn   bool // the fallback was logged
}

// keep are the addresses of the other servers.
func (n *noTrack) keep() []netip.Addr {
	if n.others == nil {
		return nil
	}
	return n.others()
}

// all are the addresses whose packets are kept out, in the order of their text: every server
// of the node writes the same rules.
func (n *noTrack) all() []netip.Addr {
	all := append([]netip.Addr{n.addr}, n.keep()...)
	all = slices.DeleteFunc(all, func(a netip.Addr) bool { return a.BitLen() != n.addr.BitLen() })
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

func newNoTrack(addr netip.Addr, log *logrus.Entry) *noTrack { return &noTrack{addr: addr, log: log} }

// ensure puts the rules in place: by nftables, else by iptables.
func (n *noTrack) ensure(ctx context.Context) error {
	nftErr := n.ensureNFT(ctx)
	if nftErr == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		// nft was killed by the stop of a4s, which says nothing about nftables.
		return err
	}
	iptErr := n.ensureIPTables()
	if iptErr == nil {
		if !n.warn {
			n.warn = true
			n.log.WithError(nftErr).Info("nftables is not usable; the rules are in iptables")
		}
		return nil
	}
	return &problem.Precondition{
		What: "packet filter rules for the cluster DNS address",
		Fix:  "a4s needs CAP_NET_ADMIN and one of nft and iptables with the kernel's support for notrack",
		Err:  errors.Join(fmt.Errorf("nft: %w", nftErr), fmt.Errorf("iptables: %w", iptErr)),
	}
}

func (n *noTrack) ensureNFT(ctx context.Context) error {
	family := knftables.IPv4Family
	if n.addr.Is6() {
		family = knftables.IPv6Family
	}
	nft, err := knftables.New(family, tableName)
	if err != nil {
		return err
	}
	tx := nft.NewTransaction() // atomic: no packet meets half of the rules
	tx.Add(&knftables.Table{})
	tx.Flush(&knftables.Table{})
	for _, hook := range []knftables.BaseChainHook{knftables.PreroutingHook, knftables.OutputHook} {
		chain := string(hook)
		tx.Add(&knftables.Chain{
			Name: chain, Type: knftables.PtrTo(knftables.FilterType),
			Hook: knftables.PtrTo(hook), Priority: knftables.PtrTo(knftables.RawPriority),
		})
		for _, addr := range n.all() {
			tx.Add(&knftables.Rule{Chain: chain, Rule: knftables.Concat(
				family, "daddr", addr, "meta l4proto { tcp, udp } th dport 53 notrack")})
			tx.Add(&knftables.Rule{Chain: chain, Rule: knftables.Concat(
				family, "saddr", addr, "meta l4proto { tcp, udp } th sport 53 notrack")})
		}
	}
	return nft.Run(ctx, tx)
}

func (n *noTrack) ensureIPTables() error {
	proto := iptables.ProtocolIPv4
	if n.addr.Is6() {
		proto = iptables.ProtocolIPv6
	}
	ipt, err := newIPTables(proto)
	if err != nil {
		return err
	}
	exists, err := ipt.ChainExists(rawTable, chainName)
	if err != nil {
		return err
	}
	if !exists {
		if err := ipt.NewChain(rawTable, chainName); err != nil {
			return err
		}
	}
	for _, l4 := range []string{"udp", "tcp"} {
		for _, rule := range [][]string{
			{"-d", n.addr.String(), "-p", l4, "--dport", "53", "-j", "NOTRACK"},
			{"-s", n.addr.String(), "-p", l4, "--sport", "53", "-j", "NOTRACK"},
		} {
			if err := ipt.AppendUnique(rawTable, chainName, rule...); err != nil {
				return err
			}
		}
	}
	for _, from := range iptablesHooks() {
		if err := ipt.InsertUnique(rawTable, from, 1, "-j", chainName); err != nil {
			return err
		}
	}
	return nil
}

func iptablesHooks() []string { return []string{"PREROUTING", "OUTPUT"} }

func newIPTables(proto iptables.Protocol) (*iptables.IPTables, error) {
	const lockSeconds = 5
	return iptables.New(iptables.IPFamily(proto), iptables.Timeout(lockSeconds))
}
