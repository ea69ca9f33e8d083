package isolation

import (
	"context"
	"maps"
	"net/netip"
	"sync"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/serverstream"
	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// addresses is what a server tells of the whole pod network.
type addresses struct {
	config  *rest.Config // the node's credential
	log     *logrus.Entry
	changed func()

	mu       sync.Mutex
	known    map[netip.Addr]localpods.Pod
	complete bool // a server told everything once
}

// get returns what is known, and whether it was everything at some time.
func (a *addresses) get() (map[netip.Addr]localpods.Pod, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.known), a.complete
}

// follow keeps what is known up to date until ctx ends.
func (a *addresses) follow(ctx context.Context) error {
	return serverstream.Follow(ctx, serverstream.Options{
		Config: a.config, Path: joinapi.PathPodAddresses, Silence: 3 * joinapi.PodAddressesAlive, Log: a.log,
		Warning: "no server tells the pods' addresses; new pods on other nodes cannot reach tenants' pods here until one does",
	}, func() serverstream.Reader[joinapi.PodAddress] {
		return &reader{addresses: a, fresh: map[netip.Addr]localpods.Pod{}}
	}, nil)
}

// reader is one connection.
type reader struct {
	*addresses
	fresh map[netip.Addr]localpods.Pod // until it is complete
}

// Line takes over one line.
func (r *reader) Line(p joinapi.PodAddress) bool {
	switch {
	case r.fresh != nil && !p.Complete:
		put(r.fresh, p)
		return false
	case r.fresh == nil && p.IP == "":
		return true
	}
	r.mu.Lock()
	if r.fresh != nil {
		r.known, r.complete, r.fresh = r.fresh, true, nil
	} else {
		put(r.known, p)
	}
	r.mu.Unlock()
	r.changed()
	return true
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
