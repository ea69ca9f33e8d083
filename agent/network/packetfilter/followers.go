package packetfilter

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/netpolicy"
	"github.com/a4s-io/a4s/internal/space"
)

// Server stands for the servers of a partition, which tell of its pods.
type Server struct {
	// Name is that of the partition.
	Name string
	// Identity tells it from another one of its name.
	Identity string
	// Qualifier is the name of the partition in the names that this node has for its system
	// space, empty for home (see internal/space).
	Qualifier string
	// Config is the node's credential for the servers.
	Config *rest.Config
	// Clusters are further ranges of the pod network.
	Clusters []netip.Prefix
}

// followers keep what the servers of all partitions tell. What one told counts until it tells
// all anew, or leaves.
type followers struct {
	servers func() ([]Server, <-chan struct{})
	log     *logrus.Entry
	changed func()
	failed  chan struct{} // receives when a server did not answer
	dir     string        // where the policies of several partitions are kept, empty for nowhere

	mu  sync.Mutex
	all map[string]*followed
}

// followed is a partition that is followed.
type followed struct {
	*follower
	server Server
	stop   context.CancelFunc
}

// follow keeps what is known up to date until ctx ends.
func (f *followers) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	broken := make(chan error, 1)
	running.Go(func() { f.keep(ctx) })
	for {
		servers, changed := f.servers()
		f.mu.Lock()
		here := map[string]bool{}
		for _, s := range servers {
			here[s.Name] = true
			another := false
			if old := f.all[s.Name]; old != nil && old.server.Identity == s.Identity {
				old.server.Clusters = s.Clusters
				continue
			} else if old != nil {
				old.stop()
				another = true
			}
			one := &followed{server: s, follower: &follower{config: s.Config, qualifier: s.Qualifier,
				log: f.log, changed: f.changed, failed: f.failed}}
			if len(servers) > 1 && !another {
				one.known = f.recall(s.Name)
			}
			var of context.Context
			of, one.stop = context.WithCancel(ctx)
			f.all[s.Name] = one
			running.Go(func() {
				if err := one.follow(of); err != nil {
					select {
					case broken <- err:
					default: // one is enough
					}
				}
			})
		}
		for name, one := range f.all {
			if !here[name] {
				one.stop()
				delete(f.all, name)
			}
		}
		f.mu.Unlock()
		f.changed()
		select {
		case <-changed:
		case err := <-broken:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// sorted returns those that are followed, in the order of their names.
func (f *followers) sorted() []*followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*followed
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		out = append(out, f.all[name])
	}
	return out
}

// pods returns the addresses of the pod networks, as far as servers told them, and whether
// all told all of them at some time.
func (f *followers) pods() (map[netip.Addr]localpods.Pod, bool) {
	all := f.sorted()
	if len(all) == 1 {
		return all[0].pods()
	}
	known, complete := map[netip.Addr]localpods.Pod{}, len(all) > 0
	for _, one := range all {
		pods, told := one.pods()
		maps.Copy(known, pods)
		complete = complete && told
	}
	return known, complete
}

// policies returns what servers told last, nil if nothing, and when all had told something.
// With wait it is nil until every server told.
func (f *followers) policies(wait bool) (*knowledge, time.Time) {
	all := f.sorted()
	if len(all) == 1 {
		return all[0].policies()
	}
	merged, told, oldest := newKnowledge(), false, time.Now()
	merged.off, merged.without = true, map[string]bool{}
	for _, one := range all {
		known, heard := one.policies()
		if heard.Before(oldest) {
			oldest = heard
		}
		switch {
		case known == nil && wait:
			return nil, time.Time{}
		case known == nil:
		case known.off:
			told, merged.without[one.server.Name] = true, true
		default:
			told, merged.off = true, false
			maps.Copy(merged.pods, known.pods)
			maps.Copy(merged.policies, known.policies)
			maps.Copy(merged.sets, known.sets)
		}
	}
	if !told {
		return nil, time.Time{}
	}
	return merged, oldest
}

// clusters are the ranges of the pods of all partitions.
func (f *followers) clusters(known []netip.Prefix) []netip.Prefix {
	out := slices.Clone(known)
	for _, one := range f.sorted() {
		f.mu.Lock()
		more := one.server.Clusters
		f.mu.Unlock()
		for _, c := range more {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// qualify gives what a partition tells the names that it has on this node.
func qualify(partition string, l *netpolicy.Line) {
	if partition == "" {
		return
	}
	names := func(ids []string) {
		for i := range ids {
			ids[i] = partition + ":" + ids[i]
		}
	}
	rules := func(rules []netpolicy.Rule) {
		for i := range rules {
			if rules[i].Peers != "" {
				rules[i].Peers = partition + ":" + rules[i].Peers
			}
			names(rules[i].Named)
		}
	}
	if l.Pod != nil {
		l.Pod.Namespace = space.QualifyNamespace(partition, l.Pod.Namespace)
		names(l.Pod.Ingress)
		names(l.Pod.Egress)
	}
	if l.Policy != nil {
		l.Policy.ID = partition + ":" + l.Policy.ID
		rules(l.Policy.Ingress)
		rules(l.Policy.Egress)
	}
	if l.Set != nil {
		l.Set.ID = partition + ":" + l.Set.ID
	}
}
