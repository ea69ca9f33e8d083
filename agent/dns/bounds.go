package dns

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/space"
)

// kind is one of the sorts of clients. Each has slots of its own, so that none waits for
// another's: pods of tenants cannot take those of the system space.
type kind int

const (
	ofSystem kind = iota
	ofTenants
	ofStrangers // nobody knows whose address it is
	kinds
)

// asker is who a connection or a query counts for. The pods of a tenant count together, a
// stranger by its address.
type asker struct {
	kind kind
	name string
}

// asker returns who is behind a.
func (t *sourceTable) asker(a net.Addr) asker {
	source := sourceOf(a)
	tenant, known := t.tenant(source)
	switch {
	case !known:
		return asker{ofStrangers, source.String()}
	case space.IsSystem(tenant):
		return asker{kind: ofSystem}
	}
	return asker{ofTenants, tenant}
}

// sourceOf returns the address of a client.
func sourceOf(a net.Addr) netip.Addr {
	var source netip.Addr
	switch a := a.(type) {
	case *net.UDPAddr:
		source = a.AddrPort().Addr()
	case *net.TCPAddr:
		source = a.AddrPort().Addr()
	}
	return source.Unmap()
}

// share is how many slots a kind has, in all and for each of it.
type share struct{ all, each int }

// shares are those of every kind.
type shares [kinds]share

// The numbers are for a node with a few hundred pods. They are far above what resolver
// libraries do, and a tenant's share is so small that eight tenants or more have to act
// together before another one notices. What belongs to the system is not divided: whoever is
// in it may stop the node anyway.
//
// A connection costs a descriptor, a goroutine and the kernel's buffers, some hundred KiB if
// the client fills them. Libraries turn to TCP only for answers that do not fit into UDP.
//
// A query inside is answered from memory, so more than a few are in flight only while the
// processors have other work. An answer about a large headless Service may take a
// megabyte, which is why they are few.
//
// A query outside waits for somebody else, up to some seconds if nobody answers, and costs a
// descriptor. A stranger has none: it is refused before.
func connectionShares() shares {
	return shares{ofSystem: {512, 512}, ofTenants: {1024, 64}, ofStrangers: {32, 4}}
}

func insideShares() shares {
	return shares{ofSystem: {512, 512}, ofTenants: {512, 64}, ofStrangers: {64, 8}}
}

func outsideShares() shares {
	return shares{ofSystem: {1024, 1024}, ofTenants: {1024, 128}}
}

const (
	// readWithin is how long a new connection has until its first query is there, all of it.
	readWithin = 3 * time.Second
	// idleFor is the same for further queries. A client that has more to ask does so at once.
	idleFor = 5 * time.Second
	// writeWithin is how long a client has to take an answer.
	writeWithin = 5 * time.Second
)

// bounds are the limits of a server, and what is taken of them.
type bounds struct {
	sources           *sourceTable
	connections       *gate // over TCP
	inside            *gate // queries that are being answered here
	outside           *gate // queries that wait for resolvers outside
	read, idle, write time.Duration
}

func newBounds(sources *sourceTable) *bounds {
	return &bounds{
		sources:     sources,
		connections: newGate(connectionShares()),
		inside:      newGate(insideShares()),
		outside:     newGate(outsideShares()),
		read:        readWithin, idle: idleFor, write: writeWithin,
	}
}

// gate gives slots to askers. Nobody waits at it: who gets none is told so.
type gate struct {
	shares shares

	mu   sync.Mutex
	all  [kinds]int
	each map[asker]int // without those that have none
}

func newGate(s shares) *gate { return &gate{shares: s, each: map[asker]int{}} }

// enter takes a slot, and reports whether there was one.
func (g *gate) enter(a asker) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.shares[a.kind]; g.all[a.kind] >= s.all || g.each[a] >= s.each {
		return false
	}
	g.all[a.kind]++
	g.each[a]++
	return true
}

// leave gives a slot back.
func (g *gate) leave(a asker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[a.kind]--
	if g.each[a]--; g.each[a] == 0 {
		delete(g.each, a)
	}
}
