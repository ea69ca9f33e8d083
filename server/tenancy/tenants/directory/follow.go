package directory

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Follower is told of what changes.
type Follower struct {
	// Tenant is called with a tenant as it was and as it is; nil is one that is not there.
	Tenant func(old, t *tenantapi.Tenant)
	// Template is called with the name of a template.
	Template func(name string)
}

// followers are those of components that come and go while the directory runs.
type followers struct {
	mu  sync.Mutex
	all []*Follower
}

// Follow tells f of what changes from now on, until stop is called. It waits until the directory
// knows what there is; known is false if ctx ended before.
func (d *Directory) Follow(ctx context.Context, f Follower) (stop func(), known bool) {
	return d.follow(ctx, f, func() {})
}

// follow calls first before f is told of anything.
func (d *Directory) follow(ctx context.Context, f Follower, first func()) (stop func(), known bool) {
	if !cache.WaitForCacheSync(ctx.Done(), d.controller.HasSynced, d.templates.controller.HasSynced) {
		return func() {}, false
	}
	d.followers.mu.Lock()
	defer d.followers.mu.Unlock()
	first()
	d.followers.all = append(d.followers.all, &f)
	return func() {
		d.followers.mu.Lock()
		defer d.followers.mu.Unlock()
		d.followers.all = slices.DeleteFunc(d.followers.all, func(o *Follower) bool { return o == &f })
	}, true
}

func (f *followers) each(tell func(*Follower)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.all {
		tell(o)
	}
}

func (f *followers) tenant(old, t *tenantapi.Tenant) { f.each(func(o *Follower) { o.Tenant(old, t) }) }

func (f *followers) template(name string) { f.each(func(o *Follower) { o.Template(name) }) }

// FollowHosts calls changed with each tenant whose Ingresses have a list of hosts, and with every one
// that changes, until stop is called. It returns when all were told that there are; known is false if ctx
// ended before.
func (d *Directory) FollowHosts(
	ctx context.Context, changed func(tenant string, hosts []string),
) (stop func(), known bool) {
	tell := func(t *tenantapi.Tenant) {
		var from *tenantapi.TenantTemplate
		if t.Spec.Template != "" {
			from = d.Template(t.Spec.Template)
		}
		changed(t.Name, t.HostsBy(from))
	}
	every := func(of func(*tenantapi.Tenant) bool) {
		for _, obj := range d.store.List() {
			if t, ok := obj.(*tenantapi.Tenant); ok && of(t) {
				tell(t)
			}
		}
	}
	return d.follow(ctx, Follower{
		Tenant: func(old, t *tenantapi.Tenant) {
			if t == nil {
				changed(old.Name, nil)
				return
			}
			tell(t)
		},
		Template: func(name string) { every(func(t *tenantapi.Tenant) bool { return t.Spec.Template == name }) },
	}, func() {
		every(func(t *tenantapi.Tenant) bool { return len(t.Spec.Hosts) > 0 || t.Spec.Template != "" })
	})
}
