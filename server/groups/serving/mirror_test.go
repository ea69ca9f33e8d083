package serving

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// pause is before a client tries again what failed.
const pause = 20 * time.Millisecond

// mirror is a client of a tenant that does what informers do: it lists, watches from the
// revision of the list, watches again from the last revision that it has seen when that
// ends, and lists again when a server says that this is too old.
type mirror struct {
	name   string
	tenant string
	from   storage.Interface

	mu      sync.Mutex
	objects map[string]string // revisions by name
	rev     string
	lists   int
	ended   int // watches
	wrong   []string
	stalls  chan struct{} // closed unless it does not read
}

func startMirror(t testing.TB, name, tenant string, from storage.Interface) *mirror {
	t.Helper()
	m := &mirror{name: name, tenant: tenant, from: from, stalls: make(chan struct{})}
	close(m.stalls)
	ctx, cancel := context.WithCancel(of(t, tenant))
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return m
}

// stall stops reading until the function that it returns is called.
func (m *mirror) stall() func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	stalls := make(chan struct{})
	m.stalls = stalls
	return func() { close(stalls) }
}

func (m *mirror) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.list(ctx); err == nil {
			m.watch(ctx)
		}
		wait(ctx)
	}
}

func wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

func (m *mirror) key() string { return prefix + "/" + m.tenant + "/" }

func (m *mirror) list(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, deadline/12)
	defer cancel()
	var l corev1.ConfigMapList
	if err := m.from.GetList(limited, m.key(), everything(), &l); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if revisionOf(l.ResourceVersion) < revisionOf(m.rev) {
		m.wrong = append(m.wrong, fmt.Sprintf("a list at %s after %s", l.ResourceVersion, m.rev))
	}
	m.objects, m.rev = map[string]string{}, l.ResourceVersion
	for _, c := range l.Items {
		m.objects[c.Name] = c.ResourceVersion
	}
	m.lists++
	return nil
}

func revisionOf(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// watch watches until it has to list again.
func (m *mirror) watch(ctx context.Context) {
	for ctx.Err() == nil {
		opts := everything()
		opts.ResourceVersion, opts.Predicate.AllowWatchBookmarks = m.rev, true
		w, err := m.from.Watch(ctx, m.key(), opts)
		if err == nil {
			err = m.follow(ctx, w)
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || storage.IsTooLargeResourceVersion(err) {
			return
		}
		wait(ctx)
	}
}

func (m *mirror) follow(ctx context.Context, w watch.Interface) error {
	defer w.Stop()
	for {
		m.mu.Lock()
		stalls := m.stalls
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-stalls:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause): // to see whether it is to stall
		case e, ok := <-w.ResultChan():
			if !ok {
				m.mu.Lock()
				m.ended++
				m.mu.Unlock()
				return nil
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
			m.see(e)
		}
	}
}

// see applies an event. What a client is shown of an object goes forward.
func (m *mirror) see(e watch.Event) {
	obj := e.Object
	if shared, ok := obj.(runtime.CacheableObject); ok {
		obj = shared.GetObject()
	}
	o, err := meta.Accessor(obj)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.wrong = append(m.wrong, fmt.Sprintf("%s %+v", e.Type, obj))
		return
	}
	rev, name := o.GetResourceVersion(), o.GetName()
	if revisionOf(rev) < revisionOf(m.rev) {
		m.wrong = append(m.wrong, fmt.Sprintf("%s %s at %s after %s", e.Type, name, rev, m.rev))
	}
	before, had := m.objects[name]
	switch e.Type {
	case watch.Deleted:
		if !had {
			m.wrong = append(m.wrong, fmt.Sprintf("%s is deleted at %s and was not there", name, rev))
		}
		delete(m.objects, name)
	case watch.Added, watch.Modified:
		if had == (e.Type == watch.Added) {
			m.wrong = append(m.wrong, fmt.Sprintf("%s %s at %s after %q", e.Type, name, rev, before))
		}
		m.objects[name] = rev
	}
	m.rev = rev
}

// scene is two groups of a datastore with tenants, clients of all of them through servers
// of both groups, and writes. Objects are made once and deleted once, so that a lost event
// shows for ever.
type scene struct {
	t       testing.TB
	etcd    *clientv3.Client
	tenants []string
	servers map[string]storage.Interface
	mirrors []*mirror

	made int
	stop chan struct{}
	busy sync.WaitGroup
}

// many is how many objects a tenant has in the beginning: more than are read at a time.
const many = 700

// newScene makes tenants t0 to t3, of which the first two are of group 0.
func newScene(t testing.TB, etcd *clientv3.Client) *scene {
	t.Helper()
	s := &scene{t: t, etcd: etcd, servers: map[string]storage.Interface{}, stop: make(chan struct{})}
	s.split("t2")
	for i := range 4 {
		s.tenants = append(s.tenants, fmt.Sprint("t", i))
	}
	for range many / 20 {
		var ops []clientv3.Op
		for range 20 {
			for _, tenant := range s.tenants {
				c := s.next(tenant)
				ops = append(ops, clientv3.OpPut(root+mustKey(c), encoded(t, c)))
			}
		}
		if _, err := etcd.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// split gives group 1 what is from a name on. It returns the revision.
func (s *scene) split(bound string) (rev int64) {
	s.t.Helper()
	for group, span := range map[string][2]string{"1": {bound, ""}, "0": {"", bound}} {
		for start := time.Now(); ; {
			ctx, cancel := context.WithTimeout(s.t.Context(), deadline/60)
			r, err := s.etcd.Put(ctx, configs+"of-"+group, configuration(s.t, group, span[0], span[1]))
			cancel()
			if err == nil {
				rev = r.Header.Revision
				break
			}
			if time.Since(start) > deadline { // etcd may be without a leader for a while
				s.t.Fatal(err)
			}
		}
	}
	return rev
}

// met waits until the caches of all servers are past a change.
func (s *scene) met(rev int64) {
	s.t.Helper()
	for group, server := range s.servers {
		h := server.(*grouped).held
		for start := time.Now(); ; time.Sleep(pause) {
			h.mu.Lock()
			_, last, _ := h.tables.Ends()
			met := h.table != nil && len(h.moving) == 0 && last.at >= rev
			h.mu.Unlock()
			if met {
				break
			}
			if time.Since(start) > deadline {
				s.t.Fatalf("the cache of group %s does not get to %d", group, rev)
			}
		}
	}
}

// serve adds a server of a group, and a client of each tenant.
func (s *scene) serve(group string, server storage.Interface) {
	s.t.Helper()
	s.servers[group] = server
	for _, tenant := range s.tenants {
		s.mirrors = append(s.mirrors, startMirror(s.t, tenant+" through "+group, tenant, server))
	}
}

// put makes an object that was not there before. Whether it was made is not known if it
// fails.
func (s *scene) put(ctx context.Context, tenant string) {
	c := s.next(tenant)
	ctx, cancel := context.WithTimeout(ctx, deadline/60)
	defer cancel()
	_, _ = s.etcd.Put(ctx, root+mustKey(c), encoded(s.t, c))
}

func (s *scene) next(tenant string) *corev1.ConfigMap {
	s.made++
	return configMap(tenant, fmt.Sprintf("c%06d", s.made), "x")
}

// write makes objects and deletes old ones until the scene ends.
func (s *scene) write() {
	ctx := s.t.Context()
	ticker := time.NewTicker(2 * time.Millisecond)
	s.busy.Go(func() {
		defer ticker.Stop()
		for i := 0; !closed(s.stop); i++ {
			<-ticker.C
			s.put(ctx, s.tenants[i%len(s.tenants)])
			if i%3 == 0 { // those that were made first are of one tenant after the other, too
				c := configMap(s.tenants[i/3%len(s.tenants)], fmt.Sprintf("c%06d", i/3+1), "")
				limited, cancel := context.WithTimeout(ctx, deadline/60)
				_, _ = s.etcd.Delete(limited, root+mustKey(c))
				cancel()
			}
		}
	})
}

// end stops the writes and expects of all clients, and of lists, that they have what the
// datastore has.
func (s *scene) end() {
	s.t.Helper()
	close(s.stop)
	s.busy.Wait()
	truth := map[string]map[string]string{}
	for _, tenant := range s.tenants {
		s.put(s.t.Context(), tenant) // not all have to wait for a bookmark
		truth[tenant] = s.stored(tenant)
	}
	for _, m := range s.mirrors {
		for start := time.Now(); ; time.Sleep(pause) {
			m.mu.Lock()
			same := maps.Equal(m.objects, truth[m.tenant])
			m.mu.Unlock()
			if same {
				break
			}
			if time.Since(start) > deadline {
				m.mu.Lock()
				s.t.Errorf("%s has %d objects at %s, the datastore %d: %s", m.name, len(m.objects), m.rev,
					len(truth[m.tenant]), differ(sorted(m.objects), sorted(truth[m.tenant])))
				m.mu.Unlock()
				break
			}
		}
		m.mu.Lock()
		if len(m.wrong) > 0 {
			first := m.wrong[:min(3, len(m.wrong))]
			s.t.Errorf("%s: %d wrong, first: %s", m.name, len(m.wrong), strings.Join(first, "; "))
		}
		m.mu.Unlock()
	}
	for group, server := range s.servers {
		for _, tenant := range s.tenants {
			items, _, err := list(of(s.t, tenant), server, prefix+"/"+tenant+"/")
			var want []string
			for name, rev := range truth[tenant] {
				want = append(want, fmt.Sprintf("%s/default/%s@%s", tenant, name, rev))
			}
			slices.Sort(want)
			slices.Sort(items)
			if err != nil || !slices.Equal(items, want) {
				s.t.Errorf("group %s lists %s: %v, %s", group, tenant, err, differ(items, want))
			}
		}
	}
	lists, ended := s.again()
	s.t.Logf("%d objects were made; clients listed %d times again, and %d watches ended", s.made, lists, ended)
}

// again is how often clients have listed again, and how many of their watches ended.
func (s *scene) again() (lists, ended int) {
	for _, m := range s.mirrors {
		m.mu.Lock()
		lists, ended = lists+max(m.lists, 1)-1, ended+m.ended
		m.mu.Unlock()
	}
	return lists, ended
}

func sorted(objects map[string]string) []string {
	var all []string
	for name, rev := range objects {
		all = append(all, name+"@"+rev)
	}
	slices.Sort(all)
	return all
}

// stored is what the datastore has of a tenant.
func (s *scene) stored(tenant string) map[string]string {
	s.t.Helper()
	got, err := s.etcd.Get(s.t.Context(), root+prefix+"/"+tenant+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		s.t.Fatal(err)
	}
	objects := map[string]string{}
	for _, kv := range got.Kvs {
		key := string(kv.Key)
		objects[key[strings.LastIndex(key, "/")+1:]] = itoa(kv.ModRevision)
	}
	return objects
}

// awaitMirrors waits until all clients have listed once.
func (s *scene) awaitMirrors() {
	s.t.Helper()
	for _, m := range s.mirrors {
		for start := time.Now(); ; time.Sleep(pause) {
			m.mu.Lock()
			n := m.lists
			m.mu.Unlock()
			if n > 0 {
				break
			}
			if time.Since(start) > deadline {
				s.t.Fatalf("%s has no list", m.name)
			}
		}
	}
}
