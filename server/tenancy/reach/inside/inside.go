package inside

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	netutils "k8s.io/utils/net"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// ErrUnknown is a judgement that has to wait. It says nothing of the partitions:
// tenants read it.
var ErrUnknown = errors.New("the addresses of the cluster are not known yet")

// Partitions are those of the cluster.
type Partitions interface {
	// Settled reports whether it is known which there are.
	Settled() bool
	// Partitions are all of them, and Addresses those of the servers of one,
	// "host:port".
	Partitions() []*partitionapi.Partition
	Addresses(partition string) []string
	// Changes is closed when anything of that changes.
	Changes() <-chan struct{}
}

// Cluster are the addresses of all partitions. It is safe for concurrent use.
type Cluster struct {
	own        []netip.Prefix
	partitions Partitions // nil for the only one there can be

	mu   sync.Mutex
	turn <-chan struct{} // during which known is true
	now  *known
}

// known is what partitions say at one moment. It never changes.
type known struct {
	ranges  []netip.Prefix
	servers map[netip.Addr]bool
	err     error
}

// New returns the addresses of a cluster. own are the ranges of pods and Services
// of this partition, which count before it is registered.
func New(own []netip.Prefix, partitions Partitions) *Cluster {
	return &Cluster{own: own, partitions: partitions}
}

// Known returns ErrUnknown until it is known what is inside.
func (c *Cluster) Known() error { return c.known().err }

// Range reports whether an address is in a range of pods or Services.
func (c *Cluster) Range(ip netip.Addr) (bool, error) {
	k := c.known()
	ip = Plain(ip)
	return slices.ContainsFunc(k.ranges, func(p netip.Prefix) bool { return p.Contains(ip) }), k.err
}

// Server reports whether a partition has a server at an address.
func (c *Cluster) Server(ip netip.Addr) (bool, error) {
	k := c.known()
	return k.servers[Plain(ip)], k.err
}

// Changes is closed when the addresses may be others than now.
func (c *Cluster) Changes() <-chan struct{} {
	if c.partitions == nil {
		return nil
	}
	return c.partitions.Changes()
}

// known is what is true now.
func (c *Cluster) known() *known {
	var turn <-chan struct{}
	if c.partitions != nil {
		turn = c.partitions.Changes() // before they are read: what changes later is read later
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.turn != turn {
		c.now, c.turn = c.read(), turn
	}
	return c.now
}

func (c *Cluster) read() *known {
	k := &known{ranges: slices.Clone(c.own), servers: map[netip.Addr]bool{}}
	if c.partitions == nil {
		return k
	}
	if !c.partitions.Settled() {
		k.err = ErrUnknown
	}
	for _, p := range c.partitions.Partitions() {
		for _, text := range []string{p.Spec.ServiceCIDR, p.Spec.ClusterCIDR} {
			if text == "" {
				continue
			}
			r, err := netip.ParsePrefix(text)
			if err != nil {
				k.err = ErrUnknown
				continue
			}
			k.ranges = append(k.ranges, r)
		}
		for _, address := range c.partitions.Addresses(p.Name) {
			// Servers are known by address; a name is one of an administrator's,
			// for a balancer which is no machine of the cluster.
			if at, err := netip.ParseAddrPort(address); err == nil {
				k.servers[Plain(at.Addr())] = true
			}
		}
	}
	return k
}

// nat64 are the addresses by which a network of IPv6 alone reaches those of IPv4.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Plain is the form of an address in which it is compared: IPv4 also where it is
// written, or translated, as IPv6.
func Plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		raw := ip.As16()
		return netip.AddrFrom4([4]byte(raw[12:]))
	}
	return ip
}

// Parse is Plain of an address in text, false for what is none. It takes for one
// what anything of upstream does, zeros before numbers included.
func Parse(text string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		var ok bool
		if ip, ok = netip.AddrFromSlice(netutils.ParseIPSloppy(text)); !ok {
			return netip.Addr{}, false
		}
	}
	return Plain(ip), true
}
