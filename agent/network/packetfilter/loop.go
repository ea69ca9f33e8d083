package packetfilter

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/component"
)

// Names of the components: one for each part of the table, because one part can
// fail without the other.
const (
	IsolationName = "isolation"
	PolicyName    = "network-policy"
)

const (
	// minGap is the shortest time between two changes of the rules, and
	// gapFactor makes it longer where writing them takes long.
	minGap    = 20 * time.Millisecond
	gapFactor = 4
	// checkEvery is how soon the table comes back after something else on the
	// machine, such as a firewall's reload, took it away.
	checkEvery = 30 * time.Second
	// holdFor is how long to wait for a server's first answer: with the
	// tenants' part of the run before, which has a server's knowledge in it, or
	// with new pods, where no part of the run before cuts them off.
	holdFor = 10 * time.Second
)

// Options configure the packet filter of one node.
type Options struct {
	// Config is the node's credential for a server, and Client a client with
	// it, for events.
	Config *rest.Config
	Client kubernetes.Interface
	// Servers are those of all partitions, and a channel that is closed when there are
	// others; nil means that Config leads to all.
	Servers func() (all []Server, changed <-chan struct{})
	// Partition names the partition of a namespace of this node; nil means that there is one.
	Partition func(namespace string) (name string, ok bool)
	// Dir keeps what several partitions told of policies; empty keeps nothing.
	Dir string
	// NodeName is the name of the Node object.
	NodeName string
	// Pods are the pods of this node.
	Pods *localpods.Pods
	// Clusters are the ranges of the pod network.
	Clusters []netip.Prefix
	// Bridge is what local pods are attached to; empty if that is unknown.
	Bridge string
	// DisablePolicies leaves network policies out, and removes their rules.
	DisablePolicies bool
	// Log may be nil.
	Log *logrus.Entry
}

// filter is the loop that writes both parts and, for tests, what can be
// replaced.
type filter struct {
	Options
	policyLog *logrus.Entry
	dirty     chan struct{}

	open   func(ctx context.Context) (knftables.Interface, error)
	old    func(ctx context.Context) ([]netfilter.Table, error)
	drop   func(ctx context.Context, name string) error
	bridge func(families []string) error
	report func(ctx context.Context, message string)
	hold   time.Duration

	nft      knftables.Interface
	unusable error // why there is no nft
	tenants  half
	policies half
	seen     sightings
	warned   bool // that the kernel does not show bridged packets, for tenants
	blind    bool // the same for policies, or that nftables does not work

	// These connect the loop with the component of policies.
	enforced chan struct{} // receives when policies are in effect
	broken   chan error    // receives why they could not be written
	again    chan struct{} // receives when to try again after that
}

// New returns the components: the first runs the loop and stands for the
// isolation of tenants, the second, which is absent with DisablePolicies,
// stands for network policies. The first is ready once there are rules, before
// a server was reached; the second once what a server told is in effect, or
// none answered for a while. The table stays when they end.
func New(o Options) []component.Component { return newFilter(o).components() }

func newFilter(o Options) *filter {
	if o.Log == nil {
		o.Log = logrus.NewEntry(logrus.StandardLogger())
	}
	f := &filter{
		Options: o, policyLog: o.Log.WithField("component", PolicyName), dirty: make(chan struct{}, 1),
		open: func(ctx context.Context) (knftables.Interface, error) {
			if err := netfilter.Probe(ctx).Nftables; err != nil {
				return nil, err
			}
			return knftables.New(knftables.InetFamily, TableName)
		},
		old: netfilter.Tables, drop: dropTable, bridge: bridgeShown, hold: holdFor,
		tenants:  half{old: oldTenantsTable, tenants: true, base: forwardChain},
		policies: half{old: oldPoliciesTable, base: directions[0].name},
		enforced: make(chan struct{}, 1), broken: make(chan error, 1), again: make(chan struct{}, 1),
	}
	f.Log = o.Log.WithField("component", IsolationName)
	f.report = f.event
	o.Pods.OnChange(f.mark)
	return f
}

func (f *filter) components() []component.Component {
	all := []component.Component{{Name: IsolationName, Run: f.run}}
	if !f.DisablePolicies {
		all = append(all, component.Component{Name: PolicyName, Run: f.standForPolicies})
	}
	return all
}

// mark asks for a look at what is known.
func (f *filter) mark() { notify(f.dirty) }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // asked already
	}
}

// standForPolicies is ready and fails as the policies' part does. Its restart
// makes the loop try again.
func (f *filter) standForPolicies(ctx context.Context, ready func()) error {
	notify(f.again)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.enforced:
			ready()
		case err := <-f.broken:
			select {
			case <-f.enforced: // of before
			default:
			}
			return err
		}
	}
}

func (f *filter) run(ctx context.Context, ready func()) error {
	// What the run before knew of the kernel may be wrong by now.
	f.tenants.forget()
	f.policies.forget()
	if f.nft, f.unusable = f.open(ctx); f.unusable != nil {
		f.Log.WithError(f.unusable).
			Error("pods of different tenants are NOT kept apart on this node's network: that needs nftables")
		ready()
		if f.DisablePolicies {
			<-ctx.Done()
			return nil
		}
	} else if f.DisablePolicies {
		if err := f.remove(ctx, &f.policies); err != nil {
			f.Log.WithError(err).Warn("cannot remove the rules of network policies, which are disabled")
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	told := f.followers()
	followed := make(chan error, 1)
	go func() { followed <- told.follow(ctx) }()
	defer func() {
		cancel()
		if followed != nil {
			<-followed
		}
	}()

	hold := false // keep the tenants' part of the run before
	if f.unusable == nil {
		var err error
		if hold, err = f.left(ctx, &f.tenants); err != nil {
			return err
		}
		if hold {
			ready()
		}
	}
	giveUp := time.NewTimer(f.hold)
	defer giveUp.Stop()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	failed := false // policies, and nobody asked to try again
	early := true   // all partitions are waited for
	f.mark()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-followed:
			followed = nil
			return err
		case <-giveUp.C:
			hold, early = false, false
			if !failed {
				notify(f.enforced)
			}
		case <-told.failed:
			if there, err := f.left(ctx, &f.policies); !failed && (f.unusable != nil || err == nil && there) {
				notify(f.enforced) // the part of the run before cuts off what is new
			}
			continue
		case <-check.C:
			f.check(ctx)
		case <-f.again:
			failed = false
		case <-look.C:
		case <-f.dirty:
		}
		began := time.Now()
		pods, complete := told.pods()
		var isolation error
		if hold = hold && !complete; !hold && f.unusable == nil {
			if isolation = f.isolate(ctx, pods, told.clusters(f.Clusters)); isolation == nil {
				ready()
			}
		}
		if known, heard := told.policies(early); known != nil && !f.DisablePolicies && !failed && ctx.Err() == nil {
			wait, err := f.enforce(ctx, known, heard, told.clusters(f.Clusters))
			switch {
			case ctx.Err() != nil:
			case err != nil:
				failed = true
				select {
				case f.broken <- err:
				default: // one is enough
				}
			default:
				notify(f.enforced)
			}
			if wait > 0 {
				look.Reset(wait)
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if isolation != nil {
			return isolation
		}
		select {
		case <-time.After(max(minGap, gapFactor*time.Since(began))):
		case <-ctx.Done():
		}
	}
}

// followers of all partitions that follow none yet.
func (f *filter) followers() *followers {
	servers := f.Servers
	if servers == nil {
		servers = func() ([]Server, <-chan struct{}) { return []Server{{Config: f.Config}}, nil }
	}
	return &followers{servers: servers, log: f.Log, changed: f.mark, failed: make(chan struct{}, 1),
		dir: f.Dir, all: map[string]*followed{}}
}

// check makes what another program took away be written again.
func (f *filter) check(ctx context.Context) {
	for _, p := range []*half{&f.tenants, &f.policies} {
		if p.current == nil {
			continue
		}
		if there, err := f.there(ctx, p); err != nil || !there {
			p.forget()
		}
	}
}

// isolate brings the tenants' part to what is known.
func (f *filter) isolate(
	ctx context.Context, known map[netip.Addr]localpods.Pod, clusters []netip.Prefix,
) error {
	s := tenantState{clusters: clusters, bridge: f.Bridge, local: f.Pods.All(), known: known}
	if err := f.write(ctx, &f.tenants, s.render()); err != nil {
		return fmt.Errorf("writing the rules that keep tenants apart: %w", err)
	}
	f.checkBridge(s)
	return nil
}

// enforce brings the policies' part to what is known. It returns when to do so
// again although nothing changed, or 0.
func (f *filter) enforce(
	ctx context.Context, known *knowledge, heard time.Time, clusters []netip.Prefix,
) (time.Duration, error) {
	switch {
	case f.unusable != nil && known.off:
		return 0, nil
	case f.unusable != nil:
		f.complain(ctx, "network policies are NOT enforced on this node: that needs nftables", f.unusable)
		return 0, nil
	case known.off:
		if err := f.remove(ctx, &f.policies); err != nil {
			return 0, fmt.Errorf("removing the rules of network policies: %w", err)
		}
		return 0, nil
	}
	s := policyState{
		known: known, owners: f.Pods.Owners(), clusters: clusters, bridge: f.Bridge, heard: heard, now: time.Now(),
		free: func(namespace string) bool {
			if f.Partition == nil || len(known.without) == 0 {
				return false
			}
			name, ok := f.Partition(namespace)
			return ok && known.without[name]
		},
	}
	s.since = f.seen.update(s.owners, s.now)
	next, unknown, wait := s.render()
	if err := f.write(ctx, &f.policies, next); err != nil {
		return 0, fmt.Errorf("writing the rules of network policies: %w", err)
	}
	for _, addr := range unknown {
		if f.seen.first(addr) {
			owner := s.owners[addr]
			f.policyLog.Warnf("the API does not know the pod %s/%s at %s; it is under no network policy",
				owner.Namespace, owner.Name, addr)
		}
	}
	if f.Bridge != "" {
		if err := f.bridge(bridgeSysctls(clusters)); err != nil {
			f.complain(ctx, "network policies are NOT enforced between pods of this node:"+
				" load the kernel module br_netfilter", err)
		}
	}
	return wait, nil
}

// complain says once what keeps policies from being enforced, in the log and on
// the Node.
func (f *filter) complain(ctx context.Context, message string, err error) {
	if f.blind {
		return
	}
	f.blind = true
	f.policyLog.WithError(err).Error(message)
	f.report(ctx, message+": "+err.Error())
}

// sightings are when addresses were first seen with the owner that they have.
type sightings struct {
	since   map[netip.Addr]time.Time
	owners  map[netip.Addr]localpods.Owner // when since was made
	unknown map[netip.Addr]bool            // addresses that were logged
}

// update returns when each address was first seen.
func (s *sightings) update(owners map[netip.Addr]localpods.Owner, now time.Time) map[netip.Addr]time.Time {
	since := map[netip.Addr]time.Time{}
	for addr, owner := range owners {
		since[addr] = now
		if before, ok := s.since[addr]; ok && s.owners[addr] == owner {
			since[addr] = before
		} else {
			delete(s.unknown, addr)
		}
	}
	s.since, s.owners = since, owners
	return since
}

// first reports whether addr was not asked for since its owner came.
func (s *sightings) first(addr netip.Addr) bool {
	if s.unknown[addr] {
		return false
	}
	if s.unknown == nil {
		s.unknown = map[netip.Addr]bool{}
	}
	s.unknown[addr] = true
	return true
}

// dropTable deletes a table of an earlier version.
func dropTable(ctx context.Context, name string) error {
	gone := netfilter.Table{Family: "inet", Name: name}
	_, err := netfilter.RemoveTables(ctx, func(t netfilter.Table) bool { return t == gone })
	if err != nil {
		return fmt.Errorf("removing the table %s of an earlier version: %w", name, err)
	}
	return nil
}
