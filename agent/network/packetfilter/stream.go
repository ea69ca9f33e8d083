package packetfilter

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/serverstream"
	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

// knowledge is what a server told of policies. It is not changed any more once it was
// handed out.
type knowledge struct {
	// off says that there are no policies.
	off      bool
	pods     map[string]*netpolicy.Pod
	policies map[string]*netpolicy.Policy
	sets     map[string]*set
	// without are partitions that have no policies, while others have.
	without map[string]bool
}

type set struct {
	endpoints bool
	members   map[netpolicy.Member]bool
}

func newKnowledge() *knowledge {
	return &knowledge{pods: map[string]*netpolicy.Pod{}, policies: map[string]*netpolicy.Policy{},
		sets: map[string]*set{}}
}

// with returns what is known after a batch.
func (k *knowledge) with(batch []netpolicy.Line) *knowledge {
	next := &knowledge{off: k.off, pods: maps.Clone(k.pods), policies: maps.Clone(k.policies),
		sets: maps.Clone(k.sets)}
	changing := map[string]bool{} // sets that are ours to change
	for _, l := range batch {
		if l.Off {
			next = newKnowledge()
			next.off = true
			clear(changing)
			continue
		}
		next.off = false
		switch {
		case l.Pod != nil && l.Pod.Deleted:
			delete(next.pods, l.Pod.Key())
		case l.Pod != nil:
			next.pods[l.Pod.Key()] = l.Pod
		case l.Policy != nil && l.Policy.Deleted:
			delete(next.policies, l.Policy.ID)
		case l.Policy != nil:
			next.policies[l.Policy.ID] = l.Policy
		case l.Set != nil && l.Set.Deleted:
			delete(next.sets, l.Set.ID)
			delete(changing, l.Set.ID)
		case l.Set != nil:
			s := next.sets[l.Set.ID]
			switch {
			case s == nil:
				s = &set{endpoints: l.Set.Endpoints, members: map[netpolicy.Member]bool{}}
			case !changing[l.Set.ID]:
				s = &set{endpoints: s.endpoints, members: maps.Clone(s.members)}
			}
			next.sets[l.Set.ID], changing[l.Set.ID] = s, true
			for _, m := range l.Set.Add {
				s.members[m] = true
			}
			for _, m := range l.Set.Remove {
				delete(s.members, m)
			}
		}
	}
	return next
}

// follower keeps what a server tells.
type follower struct {
	config *rest.Config // the node's credential
	// qualifier is the name of the partition in names of this node, empty for home.
	qualifier string
	log       *logrus.Entry
	changed   func()
	failed    chan struct{} // receives when a server did not answer

	mu        sync.Mutex
	addresses map[netip.Addr]localpods.Pod
	complete  bool       // a server told all addresses once
	known     *knowledge // nil until a server told all policies once
	heard     time.Time  // when it did so last
	none      bool       // it was logged that the server tells no policies
}

// pods returns the addresses of the whole pod network, as far as a server told
// them, and whether it told all of them at some time.
func (f *follower) pods() (map[netip.Addr]localpods.Pod, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.addresses), f.complete
}

// policies returns what a server told last, nil if nothing, and when.
func (f *follower) policies() (*knowledge, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known, f.heard
}

// setPolicies takes over all policies.
func (f *follower) setPolicies(k *knowledge) {
	f.mu.Lock()
	f.known, f.heard = k, time.Now()
	f.mu.Unlock()
	f.changed()
}

// follow keeps what is known up to date until ctx ends.
func (f *follower) follow(ctx context.Context) error {
	return serverstream.Follow(ctx, serverstream.Options{
		Config: f.config, Path: joinapi.PathPacketFilter, Silence: 3 * netpolicy.Alive, Log: f.log,
		Warning: "no server tells the pods' addresses and network policies; the last ones stay in effect," +
			" and until one does, new pods here may not be reached, " +
			"and new pods elsewhere cannot reach tenants' pods here",
	}, func() serverstream.Reader[netpolicy.FilterLine] {
		return &reader{follower: f, fresh: map[netip.Addr]localpods.Pod{}}
	}, func(error) {
		select {
		case f.failed <- struct{}{}:
		default: // it did before
		}
	})
}

// reader is one connection. Addresses and policies come in any order, and what
// it told of one takes effect while the other is not complete.
type reader struct {
	*follower
	fresh map[netip.Addr]localpods.Pod // nil once all addresses were told
	batch []netpolicy.Line
	// now is what this connection told of policies; nil before its first
	// batch, which is everything.
	now *knowledge
}

// Line takes over one line.
func (r *reader) Line(l netpolicy.FilterLine) bool {
	switch {
	case l.Address != nil:
		r.address(*l.Address)
	case l.Policy != nil:
		r.policy(*l.Policy)
	case l.NoPolicies:
		if !r.none {
			r.none = true
			r.log.Warn("the server tells no network policies; none is enforced here")
		}
		k := newKnowledge()
		k.off = true
		r.setPolicies(k)
	}
	return r.fresh == nil
}

func (r *reader) address(p joinapi.PodAddress) {
	switch {
	case r.fresh != nil && !p.Complete:
		put(r.fresh, p)
		return
	case r.fresh == nil && p.IP == "":
		return
	}
	r.mu.Lock()
	if r.fresh != nil {
		r.addresses, r.complete, r.fresh = r.fresh, true, nil
	} else {
		put(r.addresses, p)
	}
	r.mu.Unlock()
	r.changed()
}

func put(known map[netip.Addr]localpods.Pod, p joinapi.PodAddress) {
	addr, err := netip.ParseAddr(p.IP)
	switch {
	case err != nil: // of a newer version
	case p.Deleted:
		delete(known, addr)
	default:
		known[addr] = localpods.Pod{Tenant: p.Tenant, Shared: p.Shared}
	}
}

func (r *reader) policy(l netpolicy.Line) {
	if !l.Complete {
		qualify(r.qualifier, &l)
		r.batch = append(r.batch, l)
		return
	}
	if r.now != nil && len(r.batch) == 0 {
		r.mu.Lock()
		r.heard = time.Now()
		r.mu.Unlock()
		return
	}
	if r.now == nil {
		r.now = newKnowledge()
	}
	r.now = r.now.with(r.batch)
	r.batch = nil
	r.setPolicies(r.now)
}
