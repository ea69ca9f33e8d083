package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
)

// lastName is of the object that each tenant has when nothing is written any more.
const lastName = writtenPrefix + "last"

// seen is what a watch has shown of one object, or that it was begun anew, with what there was.
type seen struct {
	tenant, name string
	kind         watch.EventType
	value        string
	anew         map[string]map[string]string // values by tenant and name
}

// observer watches config maps, of one tenant or of all, and begins again where it was when a
// watch ends.
type observer struct {
	name    string
	clients []kubernetes.Interface // by turns
	tenant  string                 // "" for all
	tenants []string               // of which it sees something
	rev     string
	// merged is set for merged streams: the group that a tenant moves to can be faster than the
	// one that it leaves, whose events of the same object are left out then. A client that hears
	// late of a move lists.
	merged bool

	mu      sync.Mutex
	shown   []seen
	of      map[string]bool // tenants of which something was shown of late
	last    map[string]bool // tenants whose last object was shown
	failure error
}

// watch begins to watch: each tenant through each server, and through whichever answers; all
// tenants of home through each server, and by the merged streams of the groups.
func (k *killing) watch(t *testing.T) {
	t.Helper()
	for _, tenant := range k.tenants {
		var all []kubernetes.Interface
		for _, s := range k.servers {
			client := k.of(t, tenant, s)
			all = append(all, client)
			k.observe(t, &observer{name: tenant + " through " + s.host.Name, tenant: tenant,
				clients: []kubernetes.Interface{client}})
		}
		k.observe(t, &observer{name: tenant + " through all", tenant: tenant, clients: all})
	}
	for _, o := range []*observer{
		{name: "everything at " + k.zero.host.Name, clients: []kubernetes.Interface{askingOnce(t, k.zero.config)}},
		{name: "everything at " + k.one.host.Name, clients: []kubernetes.Interface{askingOnce(t, k.one.config)}},
		{name: "everything, merged", clients: []kubernetes.Interface{k.either().mergedClient(t, k.one)}, merged: true},
	} {
		o.tenants = tenantsToKill["main"]
		k.observe(t, o)
	}
	ctx, stop := context.WithCancel(context.Background())
	var watches sync.WaitGroup
	k.stopWatches = func() {
		stop()
		watches.Wait()
	}
	t.Cleanup(k.stopWatches)
	for _, o := range k.watches {
		watches.Go(func() { o.run(ctx) })
	}
}

// either is group 0's server for a client that reaches whichever answers, as an agent does.
func (k *killing) either() *cluster {
	c := *k.zero
	c.config = rest.CopyConfig(c.config)
	c.config.ServerName = "kubernetes"
	c.config.Dial = func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		for _, s := range []*cluster{k.zero, k.one} {
			at := net.JoinHostPort(s.host.IP.String(), "6443")
			if conn, err = (&net.Dialer{}).DialContext(ctx, network, at); err == nil {
				break
			}
		}
		return conn, err
	}
	return &c
}

// observe has a watch begin where there is nothing yet.
func (k *killing) observe(t *testing.T, o *observer) {
	t.Helper()
	o.of, o.last = map[string]bool{}, map[string]bool{}
	if o.tenant != "" {
		o.tenants = []string{o.tenant}
	}
	list, err := o.configMaps(o.clients[0]).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.rev = list.ResourceVersion
	k.watches = append(k.watches, o)
}

type configMaps interface {
	List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (o *observer) configMaps(client kubernetes.Interface) configMaps {
	if o.tenant == "" {
		return client.CoreV1().ConfigMaps("")
	}
	return client.CoreV1().ConfigMaps("default")
}

// whose is the tenant of an object.
func (o *observer) whose(m *corev1.ConfigMap) string {
	if o.tenant != "" {
		return o.tenant
	}
	tenant, _ := space.SplitNamespace(m.Namespace)
	return tenant
}

func (o *observer) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		err := o.follow(ctx, o.configMaps(o.clients[i%len(o.clients)]))
		o.mu.Lock()
		o.failure = err
		o.mu.Unlock()
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// follow watches until that ends.
func (o *observer) follow(ctx context.Context, api configMaps) error {
	w, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: o.rev, AllowWatchBookmarks: true})
	if err == nil {
		defer w.Stop()
		for e := range w.ResultChan() {
			switch m, ok := e.Object.(*corev1.ConfigMap); {
			case !ok:
				err = apierrors.FromObject(e.Object)
			case e.Type == watch.Bookmark:
				o.rev = m.ResourceVersion
			default:
				o.note(e.Type, m)
				o.rev = m.ResourceVersion
			}
		}
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errors.Join(err, o.anew(ctx, api))
	}
	return err
}

// anew lists what there is, as clients do that cannot go on.
func (o *observer) anew(ctx context.Context, api configMaps) error {
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	s := seen{anew: map[string]map[string]string{}}
	byTenant := map[string][]corev1.ConfigMap{}
	for _, m := range list.Items {
		byTenant[o.whose(&m)] = append(byTenant[o.whose(&m)], m)
	}
	for tenant, items := range byTenant {
		s.anew[tenant] = valuesOf(items)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rev = list.ResourceVersion
	o.shown = append(o.shown, s)
	for tenant, values := range s.anew {
		if _, ok := values[lastName]; ok {
			o.last[tenant] = true
		}
	}
	return nil
}

func (o *observer) note(kind watch.EventType, m *corev1.ConfigMap) {
	if !strings.HasPrefix(m.Name, writtenPrefix) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	tenant := o.whose(m)
	o.of[tenant] = true
	if m.Name == lastName {
		o.last[tenant] = true
		return
	}
	o.shown = append(o.shown, seen{tenant: tenant, name: m.Name, kind: kind, value: m.Data["value"]})
}

func (o *observer) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.of)
}

// sees says of which tenant nothing was seen of late.
func (o *observer) sees() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lacks(o.of, "anything")
}

// hasSeen says of which tenant the last object was not seen.
func (o *observer) hasSeen() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lacks(o.last, "the last object")
}

func (o *observer) lacks(of map[string]bool, what string) error {
	for _, tenant := range o.tenants {
		if !of[tenant] {
			return fmt.Errorf("the watch of %s has not seen %s of %s: %v", o.name, what, tenant, o.failure)
		}
	}
	return nil
}

// place is where a watch is in the diary of an object.
type place struct {
	n int
	// leap is set when the object was not there in a list: then it is not known which of its
	// deletions that was.
	leap bool
}

// compare goes through what was seen: of each object what its diary has, once and in order. It
// returns how many events there were, and how often there was none to go on from.
func (o *observer) compare(t *testing.T, b *book) (events, relists int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	places := map[*diary]*place{}
	for _, tenant := range o.tenants {
		for d := range maps.Values(b.diaries[tenant]) {
			places[d] = &place{}
		}
	}
	for _, s := range o.shown {
		if s.anew != nil {
			relists++
			for d, p := range places {
				if err := p.list(d, s.anew[d.tenant][d.name]); err != nil {
					t.Errorf("the watch of %s, a list: %v", o.name, err)
				}
			}
			continue
		}
		events++
		d := b.diaries[s.tenant][s.name]
		if d == nil || places[d] == nil {
			t.Errorf("the watch of %s has %+v, which nobody wrote", o.name, s)
			continue
		}
		lost, err := places[d].event(d, s)
		if err != nil {
			t.Errorf("the watch of %s: %v", o.name, err)
		} else if lost > 0 && !o.merged {
			t.Errorf("the watch of %s lacks %d events of %s of tenant %s before %s %s", o.name, lost, s.name, s.tenant,
				s.kind, s.value)
		}
	}
	for d, p := range places {
		if p.n != len(d.entries) && !(p.leap && d.value(len(d.entries)) == "") {
			t.Errorf("the watch of %s has seen %d of %d writes of %s of tenant %s", o.name, p.n, len(d.entries),
				d.name, d.tenant)
		}
	}
	return events, relists
}

// event moves on by an event, and returns how many it leaves out that it should not.
func (p *place) event(d *diary, s seen) (lost int, err error) {
	is := func(e entry) bool { return e.kind == s.kind && e.value == s.value }
	if i := slices.IndexFunc(d.entries[p.n:], is); i >= 0 {
		if !p.leap {
			lost = i
		}
		p.n, p.leap = p.n+i+1, false
		return lost, nil
	}
	what := fmt.Sprintf("%s %s of %s of tenant %s", s.kind, s.value, d.name, d.tenant)
	if slices.ContainsFunc(d.entries[:p.n], is) {
		return 0, fmt.Errorf("%s comes after %+v", what, d.entries[p.n-1])
	}
	return 0, fmt.Errorf("%s was never written: %+v", what, d.entries)
}

// list moves on to what a list has of the object.
func (p *place) list(d *diary, value string) error {
	for i := p.n; i <= len(d.entries); i++ {
		if d.value(i) == value {
			p.n, p.leap = i, value == ""
			return nil
		}
	}
	return fmt.Errorf("it has %q as value of %s of tenant %s, after %d of %+v", value, d.name, d.tenant, p.n,
		d.entries)
}
