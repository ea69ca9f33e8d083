package checks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// skew is by how much the clocks of two servers may differ: an answer says seconds, and takes
// its time.
const skew = 5 * time.Second

// Options are what there is to check.
type Options struct {
	// Self is the partition of this server, and Partitions are those of the cluster.
	Self       string
	Partitions func() []*partitionapi.Partition
	// Ping asks a server what time it has, Version a partition which version of Kubernetes.
	Ping    func(ctx context.Context, address string) (time.Time, error)
	Version func(ctx context.Context, partition string) (string, error)
	// Own is the version of Kubernetes of this server.
	Own string
}

// asked is what a server answered.
type asked struct {
	partitionapi.PartitionServer
	off time.Duration // of its clock
	err error
}

// Check tells the registry what is wrong.
func (o Options) Check(ctx context.Context, r *health.Registry) {
	all := o.Partitions()
	if len(all) < 2 {
		all = nil
	}
	f := found{}
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, p := range all {
		asking.Go(func() {
			servers := o.ask(ctx, p)
			version := ""
			if p.Name != o.Self && slices.ContainsFunc(servers, func(s asked) bool { return s.err == nil }) {
				version, _ = o.Version(ctx, p.Name) // it was there a moment ago
			}
			mu.Lock()
			defer mu.Unlock()
			o.judge(p, servers, version, f)
		})
	}
	asking.Wait()
	ports(all, f)
	for _, code := range []health.Code{health.PartitionUnreachable, health.PartitionServerAway, health.PartitionClock,
		health.PartitionVersion, health.NodePortsShared} {
		var names []string
		for name, detail := range f[code] {
			names = append(names, name)
			r.Set(code, name, detail)
		}
		r.Keep(code, names)
	}
}

// found is what is wrong, by what and with whom.
type found map[health.Code]map[string]string

func (f found) add(code health.Code, name, detail string) {
	if f[code] == nil {
		f[code] = map[string]string{}
	}
	f[code][name] = detail
}

func (o Options) ask(ctx context.Context, p *partitionapi.Partition) []asked {
	out := make([]asked, len(p.Spec.Servers))
	var asking sync.WaitGroup
	for i, s := range p.Spec.Servers {
		asking.Go(func() {
			began := time.Now()
			at, err := o.Ping(ctx, s.Address)
			out[i] = asked{PartitionServer: s, err: err}
			if err == nil {
				// It said so at some moment between.
				out[i].off = away(at, began, time.Now())
			}
		})
	}
	asking.Wait()
	return out
}

// away is by how much a time, in whole seconds, is before or after a span.
func away(at, from, to time.Time) time.Duration {
	if late := at.Sub(to); late > 0 {
		return late
	}
	return max(0, from.Sub(at.Add(time.Second)))
}

// judge is about one partition.
func (o Options) judge(p *partitionapi.Partition, servers []asked, version string, f found) {
	answers := slices.ContainsFunc(servers, func(s asked) bool { return s.err == nil })
	var silent []string
	for _, s := range servers {
		switch {
		case s.err != nil:
			silent = append(silent, fmt.Sprintf("%s (%s): %v", s.Name, s.Address, s.err))
			if answers {
				f.add(health.PartitionServerAway, p.Name+"/"+s.Name, fmt.Sprintf("%s: %v", s.Address, s.err))
			}
		case s.off > skew:
			f.add(health.PartitionClock, p.Name+"/"+s.Name,
				fmt.Sprintf("its clock differs by %s from that of this server", s.off.Round(time.Second)))
		}
	}
	if !answers && p.Name != o.Self {
		detail := strings.Join(silent, "; ")
		if len(servers) == 0 {
			detail = "it is registered, and no server of it"
		}
		f.add(health.PartitionUnreachable, p.Name, detail)
	}
	if strings.HasPrefix(o.Own, "v") && version != "" && minor(version) != minor(o.Own) {
		f.add(health.PartitionVersion, p.Name, fmt.Sprintf("it has %s, and this server %s", version, o.Own))
	}
}

// minor is "v1.37" of "v1.37.2".
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// ports looks for ranges of node ports that two tenant partitions have in common. Those of
// Services and of pods home refuses.
func ports(all []*partitionapi.Partition, f found) {
	for i, a := range all {
		for _, b := range all[:i] {
			if !a.Has(partitionapi.RoleTenant) || !b.Has(partitionapi.RoleTenant) {
				continue
			}
			if ofA, ofB := portRange(a), portRange(b); ofA.Base < ofB.Base+ofB.Size && ofB.Base < ofA.Base+ofA.Size {
				f.add(health.NodePortsShared, b.Name+", "+a.Name,
					fmt.Sprintf("%s has %s, and %s has %s", b.Name, b.Spec.NodePortRange, a.Name,
						a.Spec.NodePortRange))
			}
		}
	}
}

// portRange is empty for one that cannot be read.
func portRange(p *partitionapi.Partition) utilnet.PortRange {
	r, err := utilnet.ParsePortRange(p.Spec.NodePortRange)
	if err != nil {
		return utilnet.PortRange{}
	}
	return *r
}
