package limits

import (
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
)

// dimension is something that a tenant uses and a limit can bound.
type dimension int

const (
	namespaces dimension = iota
	objects
	bytes
	eventBytes
	definitions
	loadBalancers
	pods
	cpu     // in thousandths
	memory  // in bytes
	volumes // in bytes, that claims request
	services
	nodePorts
	balancerPorts
	definitionBytes
	accesses
	dimensions
)

// amounts are how much of each dimension.
type amounts [dimensions]int64

// charge is what an object costs besides what its key says.
type charge struct {
	loadBalancers, pods, cpu, memory, volumes int64
	services, nodePorts, balancerPorts        int64

	claim *claim    // of devices, nil for anything else
	quota *quotaUse // nil for what no quota of the tenant names
}

// class is what a key says about the costs of what it holds.
type class uint8

const (
	isObject class = 1 << iota
	isNamespace
	isEvent
	isCRD
	isAccess
)

// amounts of one object of that class.
func (c class) amounts(size int64, extra charge) amounts {
	a := amounts{bytes: size, loadBalancers: extra.loadBalancers, pods: extra.pods, cpu: extra.cpu,
		memory: extra.memory, volumes: extra.volumes, services: extra.services, nodePorts: extra.nodePorts,
		balancerPorts: extra.balancerPorts}
	if c&isObject != 0 {
		a[objects] = 1
	}
	if c&isNamespace != 0 {
		a[namespaces] = 1
	}
	if c&isCRD != 0 {
		a[definitions], a[definitionBytes] = 1, size
	}
	if c&isEvent != 0 {
		a[eventBytes] = size
	}
	if c&isAccess != 0 {
		a[accesses] = 1
	}
	return a
}

// accounting knows what tenants use. It is told by this server's writes as soon as
// they are done, and of everything, in order, by a watch of the datastore. It
// keeps no keys, only hashes of them: there can be very many.
type accounting struct {
	seed maphash.Seed

	mu         sync.Mutex
	accounts   map[string]*account
	generation uint8         // of the last complete reading
	loaded     chan struct{} // closed once there was one
	ready      bool
}

// account is that of one tenant.
type account struct {
	entries  map[uint64]entry
	charges  map[uint64]charge // of those entries that have one
	used     sums
	reserved sums // for writes that are under way

	devices, quota tally
}

// entry is one key.
type entry struct {
	revision   int64
	size       uint32
	class      class
	generation uint8
}

func newAccounting() *accounting {
	return &accounting{seed: maphash.MakeSeed(), accounts: map[string]*account{}, loaded: make(chan struct{})}
}

func (l *accounting) of(tenant string) *account {
	a := l.accounts[tenant]
	if a == nil {
		a = &account{entries: map[uint64]entry{}}
		l.accounts[tenant] = a
	}
	return a
}

func (a *account) take(id uint64, e entry, times int64) {
	sum := e.class.amounts(int64(e.size), a.charges[id])
	a.used.add(&sum, times)
	a.takeDevices(a.charges[id].claim, times)
	a.takeQuota(a.charges[id].quota, times)
}

// id is by what an account knows a key.
func (l *accounting) id(key string) uint64 { return maphash.String(l.seed, key) }

// put says what a key holds since a revision. What is older than what is known
// already is passed over; a watch says again, and better, what a write said.
func (l *accounting) put(tenant, key string, revision, size int64, c class, extra charge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(tenant, key, revision, size, c, extra)
}

func (l *accounting) set(tenant, key string, revision, size int64, c class, extra charge) {
	a, id := l.of(tenant), maphash.String(l.seed, key)
	old, known := a.entries[id]
	if known && old.revision > revision {
		old.generation = l.generation
		a.entries[id] = old
		return
	}
	if known {
		a.take(id, old, -1)
	}
	if extra == (charge{}) {
		delete(a.charges, id)
	} else {
		if a.charges == nil {
			a.charges = map[uint64]charge{} // most tenants that are idle have none
		}
		a.charges[id] = extra
	}
	e := entry{revision: revision, size: uint32(min(size, 1<<32-1)), class: c, generation: l.generation}
	a.entries[id] = e
	a.take(id, e, 1)
}

// remove says that a key is gone since a revision.
func (l *accounting) remove(tenant, key string, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		id := maphash.String(l.seed, key)
		if old, known := a.entries[id]; known && old.revision <= revision {
			a.drop(id, old)
			l.forgetEmpty(tenant, a)
		}
	}
}

func (a *account) drop(id uint64, e entry) {
	a.take(id, e, -1)
	delete(a.entries, id)
	delete(a.charges, id)
}

func (l *accounting) forgetEmpty(tenant string, a *account) {
	if len(a.entries) == 0 && a.reserved == (sums{}) && len(a.devices.reserved) == 0 &&
		len(a.quota.reserved) == 0 {
		delete(l.accounts, tenant)
	}
}

// holds is what is known of a key.
func (l *accounting) holds(tenant, key string) amounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		id := maphash.String(l.seed, key)
		if e, known := a.entries[id]; known {
			return e.class.amounts(int64(e.size), a.charges[id])
		}
	}
	return amounts{}
}

// begin begins a reading of everything.
func (l *accounting) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
}

// end ends a reading of everything there was at a revision: what it did not
// find is gone.
func (l *accounting) end(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant, a := range l.accounts {
		for id, e := range a.entries {
			if e.generation != l.generation && e.revision <= revision {
				a.drop(id, e)
			}
		}
		l.forgetEmpty(tenant, a)
	}
	if !l.ready {
		l.ready = true
		close(l.loaded)
	}
}

// reserve takes what a write needs more than there was, unless that is more than
// the limits leave; then it says of what there is too little, and how much of it
// is used. What is reserved is given back by release.
func (l *accounting) reserve(tenant string, need, limits *amounts) (lack dimension, used int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(tenant)
	for d := range dimensions {
		used := a.used[d].and(a.reserved[d]).value()
		if need[d] > 0 && limits[d] != math.MaxInt64 && need[d] > limits[d]-used {
			l.forgetEmpty(tenant, a)
			return d, used, false
		}
	}
	a.reserved.add(need, 1)
	return 0, 0, true
}

func (l *accounting) release(tenant string, need *amounts, named reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(tenant)
	a.reserved.add(need, -1)
	named.release(a)
	l.forgetEmpty(tenant, a)
}

// settle is put and release in one: nobody sees the one without the other. named
// is what was reserved by names.
func (l *accounting) settle(
	tenant string, need *amounts, key string, revision, size int64, c class, extra charge, named reservation,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(tenant)
	a.reserved.add(need, -1)
	named.release(a)
	if e, known := a.entries[maphash.String(l.seed, key)]; !known || e.revision < revision { // the watch knows better
		l.set(tenant, key, revision, size, c, extra)
	}
}

// used is what a tenant uses.
func (l *accounting) used(tenant string) amounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		return a.used.values()
	}
	return amounts{}
}

// share is how many bytes a tenant uses, and how many tenants use any.
func (l *accounting) share(tenant string) (used int64, tenants int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		used = a.used[bytes].and(a.reserved[bytes]).value()
	}
	return used, len(l.accounts)
}

// tenants are all that use anything.
func (l *accounting) tenants() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.accounts))
}
