package ledger

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// Kinds of work.
const (
	Gets fairqueue.Work = iota
	Lists
	Watches
	Writes
	// Connections to containers and other servers.
	Connections
	// Documents are discovery, OpenAPI and other paths without a resource.
	Documents
	// Policies and Hooks are what a write computes for the tenant's own.
	Policies
	Hooks
	// Controllers are the requests of the cluster's controllers about objects of the tenant,
	// which have no seat.
	Controllers
	kinds
)

var kindNames = [kinds]string{"gets", "lists", "watches", "writes", "connections", "documents", "policies", "hooks",
	joinapi.WorkOfControllers}

// Reasons for which requests are refused.
const (
	Full Reason = iota // too many wait already
	Late               // it waited too long
	Gone               // the client left
	reasons
)

// Reason is why a request was refused.
type Reason int

// String implements fmt.Stringer.
func (r Reason) String() string { return [reasons]string{"full", "late", "gone"}[r] }

const (
	// Other is the line of all tenants that are not named, Unknown that of clients that
	// nobody knows. No tenant has such a name.
	Other   = "(other)"
	Unknown = "(unknown)"
	// named is the number of tenants that have a line. When there is one more, the half that
	// has used less loses its lines.
	named = 256
	// slot is how exactly it is known when something was used, and slots how many there are:
	// the one that is now and those of a minute before.
	slot  = 5 * time.Second
	slots = int(time.Minute/slot) + 1
	// again is when a deleted tenant is forgotten once more: its last requests end later.
	again = time.Minute
)

// Ledger keeps what tenants have used. One that is nil keeps nothing.
type Ledger struct {
	began time.Time

	mu    sync.Mutex
	lines map[string]*line // by tenant, Other and Unknown among them
}

// line is what a tenant has used.
type line struct {
	metrics series
	slots   [slots]use
}

// use is what was used in one slot of time, or in the last minute.
type use struct {
	slot    int64 // which one it is, since the ledger began
	work    [kinds]work
	refused [reasons]int64
}

type work struct {
	computed, waited time.Duration
	requests         int64
}

func (u *use) add(v *use) {
	for k := range v.work {
		u.work[k].computed += v.work[k].computed
		u.work[k].waited += v.work[k].waited
		u.work[k].requests += v.work[k].requests
	}
	for r, n := range v.refused {
		u.refused[r] += n
	}
}

// all is the sum over the kinds of work.
func (u *use) all() (sum work) {
	for _, w := range u.work {
		sum.computed += w.computed
		sum.waited += w.waited
		sum.requests += w.requests
	}
	return sum
}

// New makes a ledger.
func New() *Ledger { return &Ledger{began: time.Now(), lines: map[string]*line{}} }

// FlowOf is the name of a tenant's flow in the queue.
func FlowOf(tenant string) string { return tenantFlow + tenant }

// TenantOf is the tenant whose flow has the name, "" if it is another's.
func TenantOf(flow string) string {
	if tenant, ok := strings.CutPrefix(flow, tenantFlow); ok {
		return tenant
	}
	return ""
}

const tenantFlow = "tenant:"

// Used implements fairqueue.Account.
func (l *Ledger) Used(flow string, kind fairqueue.Work, computed, waited time.Duration) {
	if l == nil || computed+waited == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	on, now := l.line(flow)
	on.work[kind].computed += computed
	on.work[kind].waited += waited
	now.used(kind, computed, waited)
}

// Began counts a request of a flow.
func (l *Ledger) Began(flow string, kind fairqueue.Work) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	on, _ := l.line(flow)
	on.work[kind].requests++
}

// Refused counts a request of a flow that got no seat, and how long it waited for one.
func (l *Ledger) Refused(flow string, kind fairqueue.Work, why Reason, waited time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	on, now := l.line(flow)
	on.work[kind].waited += waited
	on.refused[why]++
	now.used(kind, 0, waited)
	now.refused(why)
}

// Forget takes the line of a deleted tenant away.
func (l *Ledger) Forget(tenant string) {
	if l == nil {
		return
	}
	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if of, ok := l.lines[tenant]; ok {
			l.drop(tenant, of)
		}
	}
	forget()
	time.AfterFunc(again, forget)
}

func (l *Ledger) drop(tenant string, of *line) {
	delete(l.lines, tenant)
	of.metrics.end()
}

func (l *Ledger) now() int64 { return int64(time.Since(l.began) / slot) }

// line finds or makes the line of a flow, as it is now.
func (l *Ledger) line(flow string) (*use, *series) {
	tenant := cmp.Or(TenantOf(flow), Unknown)
	of, now := l.lines[tenant], l.now()
	if of == nil {
		if len(l.lines) >= named {
			l.shorten(now)
		}
		of = l.add(tenant)
	}
	return of.at(now), &of.metrics
}

func (l *Ledger) add(tenant string) *line {
	of := &line{metrics: series{tenant: tenant}}
	for i := range of.slots {
		of.slots[i].slot = -1
	}
	l.lines[tenant] = of
	return of
}

// at is the slot that is now. It takes the place of the oldest.
func (of *line) at(now int64) *use {
	u := &of.slots[now%int64(slots)]
	if u.slot != now {
		*u = use{slot: now}
	}
	return u
}

// minute is what was used in the last minute.
func (of *line) minute(now int64) (sum use) {
	for i := range of.slots {
		if u := &of.slots[i]; u.slot >= 0 && u.slot > now-int64(slots) {
			sum.add(u)
		}
	}
	return sum
}

// shorten takes the lines of those away that have used less in the last minute than the others:
// what they have used is on the line of the rest from then on. Their metrics end, and the
// rest's go on from where they were: what was counted once is not counted again.
func (l *Ledger) shorten(now int64) {
	type used struct {
		tenant   string
		computed time.Duration
	}
	var all []used
	for tenant, of := range l.lines {
		if tenant != Other && tenant != Unknown {
			u := of.minute(now)
			all = append(all, used{tenant, u.all().computed})
		}
	}
	slices.SortFunc(all, func(a, b used) int { return cmp.Compare(a.computed, b.computed) })
	rest := l.lines[Other]
	if rest == nil {
		rest = l.add(Other)
	}
	for _, u := range all[:(len(all)+1)/2] {
		of := l.lines[u.tenant]
		for i := range of.slots {
			if s := &of.slots[i]; s.slot >= 0 && s.slot > now-int64(slots) {
				rest.at(s.slot).add(s)
			}
		}
		l.drop(u.tenant, of)
	}
}

// LastMinute is what was used in the last minute, by whoever has used most first.
func (l *Ledger) LastMinute() joinapi.TenantUse {
	out := joinapi.TenantUse{Tenants: []joinapi.UseOfTenant{}}
	if l == nil {
		return out
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, age := l.now(), time.Since(l.began)
	out.Seconds = min(age, age%slot+time.Minute).Seconds()
	for tenant, of := range l.lines {
		u := of.minute(now)
		all := u.all()
		t := joinapi.UseOfTenant{Tenant: tenant, SeatSeconds: all.computed.Seconds(),
			WaitedSeconds: all.waited.Seconds(), Requests: all.requests, Refused: map[string]int64{}}
		for r, n := range u.refused {
			if n > 0 {
				t.Refused[Reason(r).String()] = n
			}
		}
		for k, w := range u.work {
			if w != (work{}) {
				t.Work = append(t.Work, joinapi.UseForWork{Work: kindNames[k], SeatSeconds: w.computed.Seconds(),
					WaitedSeconds: w.waited.Seconds(), Requests: w.requests})
			}
		}
		if len(t.Work) == 0 && len(t.Refused) == 0 {
			continue
		}
		slices.SortStableFunc(t.Work, func(a, b joinapi.UseForWork) int {
			return cmp.Compare(b.SeatSeconds, a.SeatSeconds)
		})
		out.Tenants = append(out.Tenants, t)
	}
	slices.SortFunc(out.Tenants, func(a, b joinapi.UseOfTenant) int {
		return cmp.Or(cmp.Compare(b.SeatSeconds, a.SeatSeconds), cmp.Compare(b.WaitedSeconds, a.WaitedSeconds),
			cmp.Compare(a.Tenant, b.Tenant))
	})
	return out
}
