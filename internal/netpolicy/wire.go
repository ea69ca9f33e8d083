package netpolicy

import (
	"net/netip"
	"time"
)

// Alive is how often a stream has a batch at least.
const Alive = 20 * time.Second

// Line is one line of the stream; one of its fields is set.
type Line struct {
	// Off says that there is no network policy in the whole cluster; it voids
	// everything that was told.
	Off bool `json:"off,omitempty"`
	// Pod, Policy and Set replace what was told under the same name.
	Pod    *Pod    `json:"pod,omitempty"`
	Policy *Policy `json:"policy,omitempty"`
	Set    *Set    `json:"set,omitempty"`
	// Complete ends a batch.
	Complete bool `json:"complete,omitempty"`
}

// Pod is a pod of the node that has addresses of its own, told as soon as it is
// bound to the node, also if no policy selects it.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is the one that the node knows the pod by.
	UID string `json:"uid,omitempty"`
	// Ingress and Egress are the policies that select the pod for a direction.
	// Without one the direction is open.
	Ingress []string `json:"ingress,omitempty"`
	Egress  []string `json:"egress,omitempty"`
	Deleted bool     `json:"deleted,omitempty"`
}

// Key identifies the pod.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// Policy is what one NetworkPolicy allows. What no rule allows is not.
type Policy struct {
	// ID is namespace/name.
	ID      string `json:"id"`
	Ingress []Rule `json:"ingress,omitempty"`
	Egress  []Rule `json:"egress,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// Rule allows connections whose other side is one of the peers, and whose port,
// that of the destination, is one of the ports.
type Rule struct {
	// AnyPeer says that every address is a peer. Otherwise those in the set
	// Peers and in Blocks are.
	AnyPeer bool    `json:"anyPeer,omitempty"`
	Peers   string  `json:"peers,omitempty"`
	Blocks  []Range `json:"blocks,omitempty"`
	// AnyPort says that every protocol and port will do. Otherwise those of
	// Ports will, and destinations in the sets Named.
	AnyPort bool     `json:"anyPort,omitempty"`
	Ports   []Ports  `json:"ports,omitempty"`
	Named   []string `json:"named,omitempty"`
}

// Ports are ports of a protocol, from the first to the last; all of them if
// Last is 0.
type Ports struct {
	Protocol string `json:"protocol"`
	First    uint16 `json:"first,omitempty"`
	Last     uint16 `json:"last,omitempty"`
}

// Range is the addresses from the first to the last, of one family.
type Range struct {
	First netip.Addr `json:"first"`
	Last  netip.Addr `json:"last"`
}

// Set is a change of the members of a set.
type Set struct {
	ID string `json:"id"`
	// Endpoints says that members have a protocol and a port.
	Endpoints bool     `json:"endpoints,omitempty"`
	Add       []Member `json:"add,omitempty"`
	Remove    []Member `json:"remove,omitempty"`
	Deleted   bool     `json:"deleted,omitempty"`
}

// Member is an address, or a port of it.
type Member struct {
	Addr     netip.Addr `json:"addr"`
	Protocol string     `json:"protocol,omitempty"`
	Port     uint16     `json:"port,omitempty"`
}
