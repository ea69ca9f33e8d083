package access

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestTurns: what one tenant has is worked on one after the other, and others are in between.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pace = time.Second
		turns := newTurns(pace)
		defer turns.queue.ShutDown()
		for _, key := range []string{"a1", "a2", "a3", "a2", "b1"} {
			turns.add(key[:1], key)
		}
		var got []string
		// As many as wait are taken at once, with a worker for each.
		for range 2 {
			_, key, _ := turns.get()
			got = append(got, key)
		}
		slices.Sort(got)
		if want := []string{"a1", "b1"}; !slices.Equal(got, want) {
			t.Fatalf("at once: %q, want %q", got, want)
		}
		begun := time.Now()
		turns.add("a", "a4") // it does not wait for less
		turns.done("b")
		turns.done("a")
		for _, want := range []string{"a2", "a3", "a4"} {
			of, key, more := turns.get()
			begun = begun.Add(pace)
			if of != "a" || key != want || !more || time.Since(begun) < 0 {
				t.Errorf("%s of %s is next, %s before its time, want %s", key, of, -time.Since(begun), want)
			}
			turns.done(of)
		}
		time.Sleep(2 * pace)
		turns.add("c", "c1")
		if _, key, _ := turns.get(); key != "c1" {
			t.Errorf("%s is next", key)
		}
		turns.done("c")
		time.Sleep(2 * pace)
		turns.queue.Add("c") // somebody has to ask for it to be forgotten
		synctest.Wait()
		go func() { turns.queue.ShutDown() }()
		if _, key, more := turns.get(); more {
			t.Errorf("%s is left", key)
		}
		if len(turns.flows) != 0 {
			t.Errorf("flows are kept: %v", turns.flows)
		}
	})
}

// TestFlowOfAnAccess: an access that a tenant's users made is in a lane of its own, with all others of that tenant,
// whatever it says.
func TestFlowOfAnAccess(t *testing.T) {
	c := &controller{ofSystem: newLane(0, limit, maxWait), own: newLane(ownPace, ownLimit, maxOwnWait),
		some: newEvent(), someOwn: newEvent()}
	defer c.ofSystem.shutDown()
	defer c.own.shutDown()
	c.known, _ = c.informer()
	for key, want := range map[string]string{"argocd": "own=false team-a true",
		"argocd.team-b.tenant": "own=true team-b true", "gone.team-b.tenant": "own=true team-b false",
		"gone": "own=false system false"} {
		a := newAccess() // of team-a
		a.Name = key
		if key[:4] != "gone" {
			if err := c.known.Add(a); err != nil {
				t.Fatal(err)
			}
		}
		_, own := c.laneOf(key)
		of, there := c.flowOf(key)
		if got := fmt.Sprintf("own=%v %s %v", own, of, there); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	for tenant, want := range map[string]string{"team-a": "argocd", "team-b": "argocd.team-b.tenant"} {
		if keys, err := c.known.IndexKeys(byTenant, tenant); err != nil || !slices.Equal(keys, []string{want}) {
			t.Errorf("accesses to %s: %v, %v", tenant, keys, err)
		}
	}
}

// TestOwnAccessIsReadInItsSpace: what an access in the space of a tenant gives is of that tenant, and it is stored
// as it was.
func TestOwnAccessIsReadInItsSpace(t *testing.T) {
	for _, said := range []string{"", "team-b", "team-a"} {
		a := newAccess()
		a.Name, a.Spec.Tenant = "argocd.team-b.tenant", said
		w := &work{inside: a.Name, said: said, isOwn: true}
		w.read(a.DeepCopy())
		if w.a.Name != "argocd" || w.a.Spec.Tenant != "team-b" {
			t.Errorf("it is read as %s of %s", w.a.Name, w.a.Spec.Tenant)
		}
		if got := subject(w.a, "uid").Organization; !slices.Equal(got, []string{"tenant:team-b"}) {
			t.Errorf("its certificate is of %q", got)
		}
		if got := bindingOf(w.a).Name; got != "a4s:access:argocd:u" {
			t.Errorf("its binding is %s", got)
		}
		if owner := ownerOf(w.a); owner.Name != "argocd" || owner.UID != a.UID {
			t.Errorf("its Secret is of %+v", owner)
		}
		if is := w.stored(); is.Name != a.Name || is.Spec.Tenant != said {
			t.Errorf("it is stored as %s of %s", is.Name, is.Spec.Tenant)
		}
	}
}

// TestOwnSecretsAreThoseOfTheirSpace: a label says nothing about the accesses of others.
func TestOwnSecretsAreThoseOfTheirSpace(t *testing.T) {
	c := &controller{ofSystem: newLane(0, limit, maxWait), own: newLane(ownPace, ownLimit, maxOwnWait),
		some: newEvent(), someOwn: newEvent()}
	defer c.ofSystem.shutDown()
	defer c.own.shutDown()
	c.known, _ = c.informer()
	for _, name := range []string{"x.team-a.tenant", "x"} {
		a := newAccess()
		a.Name = name
		if err := c.known.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range [][3]string{{"argocd.team-b", "team-a", "x"}, {"argocd.team-a", "other", "x"},
		{"argocd", "team-a", "x"}, {"argocd", "team-a", "x.team-a.tenant"}, {"argocd.team-a", "team-a", "y"}} {
		if c.ownsSecret(secretAt(at)) != "" {
			t.Errorf("%v is one of an access", at)
		}
	}
	if got := c.ownsSecret(secretAt([3]string{"argocd.team-a", "team-a", "x"})); got != "x.team-a.tenant" {
		t.Errorf("the Secret of an access is that of %q", got)
	}
}

func secretAt(at [3]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: at[0], Name: at[1],
		Labels: map[string]string{tenantapi.AccessLabel: at[2]}}}
}

// TestLittleIsKeptOfOwnAccesses: what users of a tenant write beside what an access says is not kept.
func TestLittleIsKeptOfOwnAccesses(t *testing.T) {
	for name, want := range map[string]int{"x": 5, "x.team-a.tenant": 0} {
		a := newAccess()
		a.Name, a.Labels, a.Annotations = name, map[string]string{"a": "b"}, map[string]string{"a": "b"}
		a.OwnerReferences = []metav1.OwnerReference{{Name: "x"}}
		a.Finalizers, a.GenerateName = []string{"a/b"}, "x"
		a.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		spec := a.Spec.DeepCopy()
		obj, err := kept(a)
		is, ok := obj.(*tenantapi.TenantAccess)
		if err != nil || !ok {
			t.Fatalf("%T, %v", obj, err)
		}
		if got := len(is.Labels) + len(is.Annotations) + len(is.OwnerReferences) + len(is.Finalizers) +
			len(is.GenerateName); got != want ||
			len(is.ManagedFields) > 0 || is.Name != name || !apiequality.Semantic.DeepEqual(&is.Spec, spec) {
			t.Errorf("%s is kept as %+v", name, is)
		}
	}
}

// TestGoneAccesses: what a tenant makes and deletes at once takes no turn, or its users could make any number wait:
// for more than they may have at a time, and for looking through them the accesses of all other tenants, too.
func TestGoneAccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{ofSystem: newLane(0, limit, maxWait), own: newLane(ownPace, ownLimit, maxOwnWait),
			some: newEvent(), someOwn: newEvent()}
		c.known, _ = c.informer()
		go c.own.sort(c.flowOf)
		defer c.ofSystem.shutDown()
		defer c.own.shutDown()
		stays := newAccess()
		stays.Name = "stays.team-b.tenant"
		if err := c.known.Add(stays); err != nil {
			t.Fatal(err)
		}
		c.own.queue.Add(stays.Name)
		synctest.Wait()
		for i := range 100 {
			a := newAccess()
			a.Name = fmt.Sprintf("x%d.team-b.tenant", i)
			for _, change := range []func(any) error{c.known.Add, c.known.Delete} {
				if err := change(a); err != nil {
					t.Fatal(err)
				}
				c.own.queue.Add(a.Name)
				synctest.Wait()
			}
			c.own.queue.AddRateLimited(a.Name) // as one that could not be done
		}
		time.Sleep(2 * maxOwnWait)
		synctest.Wait()
		if has := c.own.turns.flows["team-b"].keys; !slices.Equal(has, []string{stays.Name}) {
			t.Errorf("%d accesses wait for their turn, %q", len(has), has[:min(2, len(has))])
		}
		for i := range 100 {
			if n := c.own.queue.NumRequeues(fmt.Sprintf("x%d.team-b.tenant", i)); n > 0 {
				t.Fatalf("the failures of one that is gone are remembered: %d", n)
			}
		}
	})
}
