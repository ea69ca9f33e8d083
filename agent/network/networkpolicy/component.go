package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component.
const Name = "network-policy"

const (
	// minGap is the shortest time between two changes of the rules, and
	// gapFactor makes it longer where writing them takes long.
	minGap    = 20 * time.Millisecond
	gapFactor = 4
	// checkEvery is how soon the table comes back after something else on the
	// machine, such as a firewall's reload, took it away.
	checkEvery = 30 * time.Second
	// holdFor is how long new pods wait for a server's first word, where there
	// is no table that cuts them off.
	holdFor = 10 * time.Second
)

// Options configure the enforcement of network policies on one node.
type Options struct {
	// Config is the node's credential for a server, and Client a client with
	// it, for events.
	Config *rest.Config
	Client kubernetes.Interface
	// NodeName is the name of the Node object.
	NodeName string
	// Pods are the pods of this node.
	Pods *localpods.Pods
	// Clusters are the ranges of the pod network.
	Clusters []netip.Prefix
	// Bridge is what local pods are attached to; empty if that is unknown.
	Bridge string
	// Log may be nil.
	Log *logrus.Entry
}

// enforcer is the component and, for tests, what can be replaced.
type enforcer struct {
	Options
	dirty chan struct{}

	open   func(ctx context.Context) (knftables.Interface, error)
	bridge func(families []string) error
	report func(ctx context.Context, message string)
	hold   time.Duration

	nft     knftables.Interface
	current *table // in the kernel; nil if that is not known
	removed bool   // there is no table, as there should be none
	blind   bool   // the kernel does not show us bridged packets, which was said
	since   map[netip.Addr]time.Time
	owners  map[netip.Addr]localpods.Owner // when since was made
	spoken  map[netip.Addr]bool            // unknown addresses that were logged
}

// New returns the component. It is ready once what a server told is in effect,
// or none answered for a while. The table stays when it ends.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: newEnforcer(o).run}
}

// Remove removes the table, where network policies are disabled.
func Remove(ctx context.Context) error {
	_, err := netfilter.RemoveTables(ctx, func(t netfilter.Table) bool { return t == netfilter.Table{Family: "inet", Name: TableName} })
	return err
}

func newEnforcer(o Options) *enforcer {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	e := &enforcer{
		Options: o, dirty: make(chan struct{}, 1), bridge: bridgeShown, hold: holdFor,
		since: map[netip.Addr]time.Time{}, spoken: map[netip.Addr]bool{},
		open: func(ctx context.Context) (knftables.Interface, error) {
			if err := netfilter.Probe(ctx).Nftables; err != nil {
				return nil, err
			}
			return knftables.New(knftables.InetFamily, TableName)
		},
	}
	e.report = e.event
	o.Pods.OnChange(e.mark)
	return e
}

// mark asks for a look at what is known.
func (e *enforcer) mark() {
	select {
	case e.dirty <- struct{}{}:
	default: // asked already
	}
}

func (e *enforcer) run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	told := &follower{config: e.Config, log: e.Log, changed: e.mark, failed: make(chan struct{}, 1)}
	followed := make(chan error, 1)
	go func() { followed <- told.follow(ctx) }()
	defer func() {
		cancel()
		if followed != nil {
			<-followed
		}
	}()
	// What the run before knew of the kernel may be wrong by now.
	e.current, e.removed = nil, false
	var unusable error
	e.nft, unusable = e.open(ctx)

	giveUp := time.NewTimer(e.hold)
	defer giveUp.Stop()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	e.mark()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-followed:
			followed = nil
			return err
		case <-giveUp.C:
			ready()
			continue
		case <-told.failed:
			if unusable != nil || e.there(ctx) {
				ready() // the table of the run before cuts off what is new
			}
			continue
		case <-check.C:
			if e.current == nil || e.there(ctx) {
				continue
			}
			e.current = nil
		case <-again.C:
		case <-e.dirty:
		}
		known, heard := told.get()
		if known == nil {
			continue
		}
		began := time.Now()
		wait, err := e.enforce(ctx, known, heard, unusable)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		ready()
		if wait > 0 {
			again.Reset(wait)
		}
		select {
		case <-time.After(max(minGap, gapFactor*time.Since(began))):
		case <-ctx.Done():
		}
	}
}

// enforce brings the kernel to what is known. It returns when to do so again
// although nothing changed, or 0.
func (e *enforcer) enforce(ctx context.Context, known *knowledge, heard time.Time, unusable error) (time.Duration, error) {
	switch {
	case unusable != nil && known.off:
		return 0, nil
	case unusable != nil:
		e.complain(ctx, "network policies are NOT enforced on this node: that needs nftables", unusable)
		return 0, nil
	case known.off:
		return 0, e.remove(ctx)
	}
	s := state{known: known, owners: e.Pods.Owners(), clusters: e.Clusters, bridge: e.Options.Bridge, heard: heard, now: time.Now()}
	s.since = e.seen(s.owners, s.now)
	next, unknown, wait := s.render()
	if err := e.write(ctx, next); err != nil {
		return 0, err
	}
	for _, addr := range unknown {
		if !e.spoken[addr] {
			e.spoken[addr] = true
			e.Log.Warnf("the API does not know the pod %s/%s at %s; it is under no network policy", s.owners[addr].Namespace, s.owners[addr].Name, addr)
		}
	}
	if e.Options.Bridge != "" {
		var sysctls []string
		for _, c := range e.Clusters {
			name := "bridge-nf-call-iptables"
			if c.Addr().Is6() {
				name = "bridge-nf-call-ip6tables"
			}
			if !slices.Contains(sysctls, name) {
				sysctls = append(sysctls, name)
			}
		}
		if err := e.bridge(sysctls); err != nil {
			e.complain(ctx, "network policies are NOT enforced between pods of this node: load the kernel module br_netfilter", err)
		}
	}
	return wait, nil
}

// seen returns when each address was first seen with the owner that it has.
func (e *enforcer) seen(owners map[netip.Addr]localpods.Owner, now time.Time) map[netip.Addr]time.Time {
	since := map[netip.Addr]time.Time{}
	for addr, owner := range owners {
		since[addr] = now
		if before, ok := e.since[addr]; ok && e.owners[addr] == owner {
			since[addr] = before
		} else {
			delete(e.spoken, addr)
		}
	}
	e.since, e.owners = since, owners
	return since
}

// write makes next what the kernel has.
func (e *enforcer) write(ctx context.Context, next *table) error {
	if e.current != nil {
		tx := e.nft.NewTransaction()
		next.change(tx, e.current)
		if tx.NumOperations() == 0 {
			return nil
		}
		err := e.nft.Run(ctx, tx)
		if err == nil {
			e.current = next
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.Log.WithError(err).Debug("the table is not what it was; writing all of it")
	}
	e.current, e.removed = nil, false
	tx := e.nft.NewTransaction()
	next.replace(tx)
	if err := e.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("writing the rules of network policies: %w", err)
	}
	e.current = next
	return nil
}

// remove leaves no table.
func (e *enforcer) remove(ctx context.Context) error {
	if e.removed {
		return nil
	}
	tx := e.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if err := e.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("removing the rules of network policies: %w", err)
	}
	e.current, e.removed = nil, true
	return nil
}

// there tells whether the kernel still has the table.
func (e *enforcer) there(ctx context.Context) bool {
	chains, err := e.nft.List(ctx, "chain")
	return err == nil && slices.Contains(chains, directions[0].name)
}

// complain says once what keeps policies from being enforced, in the log and on
// the Node.
func (e *enforcer) complain(ctx context.Context, message string, err error) {
	if e.blind {
		return
	}
	e.blind = true
	e.Log.WithError(err).Error(message)
	e.report(ctx, message+": "+err.Error())
}

// bridgeShown tells whether bridged packets pass the packet filter.
func bridgeShown(sysctls []string) error {
	var errs []error
	for _, name := range sysctls {
		value, err := os.ReadFile("/proc/sys/net/bridge/" + name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case strings.TrimSpace(string(value)) != "1":
			errs = append(errs, fmt.Errorf("the sysctl net.bridge.%s is %s", name, strings.TrimSpace(string(value))))
		}
	}
	return errors.Join(errs...)
}
