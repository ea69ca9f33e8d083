package network

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/network/netfilter"
)

// flannel masquerades what leaves the range of the node's own partition. Where it is for pods on
// nodes of other partitions it keeps its address, by which it is judged there: this is inserted
// before flannel's rules, in their chain, so it ends with them.
const (
	natTable, natChain = "flannel-ipv4", "postrtg"
	othersSet          = "others"
	iptablesNATChain   = ChainPrefix + "POSTRTG"
	othersComment      = "a4s: pods of other partitions"
)

// others are the ranges of pods on nodes of other partitions, as flannel's rules know them.
type others struct {
	own    netip.Prefix
	mode   netfilter.Mode
	tunnel *tunnel // may be nil
	log    *logrus.Entry

	nft      func(ctx context.Context, script string) error
	iptables func(ctx context.Context, args ...string) error

	inserted bool           // the rule of nftables
	current  []netip.Prefix // what the rules have
}

func newOthers(own netip.Prefix, mode netfilter.Mode, t *tunnel, log *logrus.Entry) *others {
	return &others{own: own, mode: mode, tunnel: t, log: log, nft: netfilter.Apply, iptables: runIptables}
}

func runIptables(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w", "5"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// apart are the IPv4 ranges that overlap neither with the node's own nor with each other, which
// the directory of partitions sees to.
func (o *others) apart(all []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		p = p.Masked()
		if p.Addr().Is4() && !p.Overlaps(o.own) && !slices.ContainsFunc(out, p.Overlaps) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

// follow keeps the rules up with the partitions, until ctx ends. It returns when they have been
// written once.
func (o *others) follow(ctx context.Context, ranges func() ([]netip.Prefix, <-chan struct{})) {
	if ranges == nil {
		return
	}
	all, changed := ranges()
	o.write(ctx, all)
	go func() {
		tick := time.NewTicker(checkEvery)
		defer tick.Stop()
		for {
			select {
			case <-changed:
			case <-tick.C: // what failed, and what something else took away
			case <-ctx.Done():
				return
			}
			all, changed = ranges()
			o.write(ctx, all)
		}
	}()
}

func (o *others) write(ctx context.Context, all []netip.Prefix) {
	want := o.apart(all)
	write := o.writeNftables
	if o.mode == netfilter.Iptables {
		write = o.writeIptables
	}
	err := write(ctx, want)
	if err == nil {
		err = o.tunnel.spread(ctx, append([]netip.Prefix{o.own}, want...))
	}
	if err != nil && ctx.Err() == nil {
		o.log.WithError(err).Error("pods on nodes of other partitions may not be reached; this is tried again")
	}
}

func (o *others) writeNftables(ctx context.Context, want []netip.Prefix) error {
	if slices.Equal(want, o.current) {
		return nil
	}
	if err := o.nft(ctx, exemption(want, !o.inserted)); err != nil {
		return fmt.Errorf("leaving the pods of other partitions out of masquerading: %w", err)
	}
	o.inserted, o.current = true, want
	return nil
}

// exemption is the script that leaves ranges out.
func exemption(ranges []netip.Prefix, insert bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("add set ip %s %s { type ipv4_addr; flags interval; }", natTable, othersSet)
	line("flush set ip %s %s", natTable, othersSet)
	var texts []string
	for _, p := range ranges {
		texts = append(texts, p.String())
	}
	if len(texts) > 0 {
		line("add element ip %s %s { %s }", natTable, othersSet, strings.Join(texts, ", "))
	}
	if insert {
		line("insert rule ip %s %s ip daddr @%s return comment %q", natTable, natChain, othersSet, othersComment)
	}
	return b.String()
}

// writeIptables also brings back what is missing: flannel does so with its own rules.
func (o *others) writeIptables(ctx context.Context, want []netip.Prefix) error {
	rule := func(action string, p netip.Prefix) error {
		return o.iptables(ctx, "-t", "nat", action, iptablesNATChain, "-d", p.String(), "-m", "comment",
			"--comment", othersComment, "-j", "RETURN")
	}
	for _, p := range want {
		if rule("-C", p) == nil {
			continue
		}
		if err := rule("-I", p); err != nil {
			return fmt.Errorf("leaving the pods of another partition out of masquerading: %w", err)
		}
	}
	for _, p := range o.current {
		if slices.Contains(want, p) || rule("-C", p) != nil {
			continue
		}
		if err := rule("-D", p); err != nil {
			return fmt.Errorf("removing the rule of a partition that has left: %w", err)
		}
	}
	o.current = want
	return nil
}
