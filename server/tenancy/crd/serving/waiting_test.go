package serving

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deleted(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.DeletionTimestamp = &metav1.Time{Time: time.Now()}
}

func establishedNow(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Status.Conditions[0].LastTransitionTime = metav1.Now()
}

// TestRequestsThatWait: what waits while the tenant's CRD changes or goes is answered by what
// the tenant has then, and the same whether or not another tenant has what it was.
func TestRequestsThatWait(t *testing.T) {
	for _, of := range []struct {
		verb, name string
		to         func() *apiextensionsv1.CustomResourceDefinition
		after      time.Duration // of waiting
		want       int
	}{
		{"create", "changed", changed, 0, http.StatusOK},
		{"create", "changed later", changed, makingTakes + time.Second, http.StatusOK},
		{"list", "changed", changed, 0, http.StatusOK},
		{"watch", "changed", changed, 0, http.StatusOK},
		{"create", "gone", gone, 0, http.StatusNotFound},
		{"create", "gone later", gone, makingTakes + time.Second, http.StatusNotFound},
		{"list", "gone", gone, 0, http.StatusNotFound},
		{"watch", "gone", gone, 0, http.StatusNotFound},
		{"create", "deleted", going, 0, http.StatusForbidden},
		{"create", "deleted later", going, makingTakes + time.Second, http.StatusForbidden},
		{"list", "deleted", going, 0, http.StatusOK},
		{"create", "changed and deleted", changedAndGoing, 0, http.StatusForbidden},
	} {
		var took [2]time.Duration
		for n, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s shared %t", of.verb, of.name, shared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { took[n] = waits(t, of.verb, of.after, of.want, of.to, shared) })
			})
		}
		if took[0] != took[1] {
			t.Errorf("%s %s takes %s alone, %s else", of.verb, of.name, took[0], took[1])
		}
	}
}

func changed() *apiextensionsv1.CustomResourceDefinition { return served(described, establishedNow) }

func gone() *apiextensionsv1.CustomResourceDefinition { return nil }

func going() *apiextensionsv1.CustomResourceDefinition { return served(establishedNow, deleted) }

func changedAndGoing() *apiextensionsv1.CustomResourceDefinition {
	return served(described, establishedNow, deleted)
}

// waits has a CRD become another one while a request waits, and says how long that took.
func waits(
	t *testing.T, verb string, after time.Duration, want int, to func() *apiextensionsv1.CustomResourceDefinition,
	shared bool,
) time.Duration {
	c, handlers, _ := commonsOf(t)
	i := newTenant()
	if shared {
		other := newTenant()
		follows(t, other, c, "other", served(establishedNow))
		asks(t, other, "list")
	}
	was := follows(t, i, c, "a", served(establishedNow))
	began, answered := time.Now(), make(chan int)
	go func() { answered <- asks(t, i, verb) }()
	time.Sleep(after)
	synctest.Wait()
	first := (*handlers)[0].serves.Load()
	now := follows(t, i, c, "a", to())
	if verb == "watch" && now != nil {
		time.Sleep(time.Minute)
		follows(t, i, c, "a", nil)
	}
	code := <-answered
	if code != want {
		t.Errorf("answered with %d, want %d", code, want)
	}
	if now != was && (*handlers)[0].serves.Load() != first {
		t.Error("it is answered by what the tenant had")
	}
	took := time.Since(began)
	time.Sleep(time.Minute)
	synctest.Wait()
	return took
}

// serverOfOne serves one tenant, a.
func serverOfOne(t *testing.T) (*Server, *instance) {
	t.Helper()
	c, _, _ := commonsOf(t)
	i := newTenant()
	i.stop = func() {}
	s := &Server{instances: map[string]*instance{"a": i}}
	s.commons.newHandler, s.commons.of, s.commons.options = c.newHandler, c.of, c.options
	return s, i
}

// TestOwnHandlerKnowsWhatIsSharedNoMore: a request that comes when a CRD is shared no more is
// served by the tenant's own handler, which knows then what the CRD has become.
func TestOwnHandlerKnowsWhatIsSharedNoMore(t *testing.T) {
	s, i := serverOfOne(t)
	was, now := served(), served(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.Conditions = nil })
	s.local("a", nil, was)
	shares := func() int {
		i.mu.RLock()
		defer i.mu.RUnlock()
		return len(i.shares)
	}
	if shares() != 1 {
		t.Fatal("it is not shared")
	}
	s.commons.mu.Lock() // what takes the share back comes to here
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		s.local("a", was, now)
	}()
	for shares() > 0 {
		runtime.Gosched()
	}
	if got, err := i.view.Lister().Get(now.Name); err != nil || got != now {
		t.Errorf("its own handler has what it was, %v", err)
	}
	s.commons.mu.Unlock()
	<-followed
}

// TestStoragesEndBehindRequests: what a tenant leaves ends when its requests have, and
// neither the handler nor another tenant's storage ends with it.
func TestStoragesEndBehindRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, handlers, storages := commonsOf(t)
		a, b := newTenant(), newTenant()
		left := follows(t, a, c, "a", served())
		follows(t, b, c, "b", served())
		storages["a"] = newTenantStorage("a")
		storages["a"].asked, storages["a"].goOn = make(chan struct{}), make(chan struct{})
		answered := make(chan int)
		go func() { answered <- asks(t, a, "get") }()
		<-storages["a"].asked
		follows(t, a, c, "a", nil)
		synctest.Wait()
		if storages["a"].isDestroyed() {
			t.Error("a storage ended before the request that reads from it")
		}
		close(storages["a"].goOn)
		if code := <-answered; code != http.StatusOK {
			t.Errorf("the request is answered with %d", code)
		}
		synctest.Wait()
		if !storages["a"].isDestroyed() {
			t.Error("it does not end")
		}
		if _, err := left.storage(nil); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("there is another one: %v", err)
		}
		if code := asks(t, b, "get"); code != http.StatusOK || storages["b"].isDestroyed() || len(c.of) != 1 {
			t.Errorf("the other tenant gets %d", code)
		}
		// A watch holds it until it has begun, and then ends with it.
		storages["b"].asked, storages["b"].goOn = make(chan struct{}), make(chan struct{})
		go func() { answered <- asks(t, b, "watch") }()
		<-storages["b"].asked
		storages["b"].asked = nil
		view := (*handlers)[0].view
		follows(t, b, c, "b", nil)
		synctest.Wait()
		if storages["b"].isDestroyed() || view.size() != 1 || len(c.of) != 0 {
			t.Error("a storage ended, or its handler, before a watch of it began")
		}
		close(storages["b"].goOn)
		if code := <-answered; code != http.StatusOK || !storages["b"].isDestroyed() || view.size() != 0 {
			t.Errorf("the watch is answered with %d, and %d CRDs are left", code, view.size())
		}
	})
}

// TestRequestsThatAreOverHoldNothing: a request that stays in the handler when its context has
// ended, as one does whose client reads nothing, holds no storage. It holds the handler, as
// another tenant would that has the same.
func TestRequestsThatAreOverHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, handlers, storages := commonsOf(t)
		a := newTenant()
		follows(t, a, c, "a", served())
		storages["a"] = newTenantStorage("a")
		storages["a"].asked, storages["a"].goOn = make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan int)
		go func() { answered <- asksWithin(ctx, a, "get") }()
		<-storages["a"].asked
		view := (*handlers)[0].view
		follows(t, a, c, "a", nil)
		synctest.Wait()
		if storages["a"].isDestroyed() || view.size() != 1 {
			t.Error("a storage ended, or its handler, before the request was over")
		}
		cancel()
		synctest.Wait()
		if !storages["a"].isDestroyed() || view.size() != 1 {
			t.Error("a request that is over holds a storage, or no handler")
		}
		close(storages["a"].goOn)
		if <-answered; view.size() != 0 {
			t.Error("the handler stays")
		}
	})
}

// TestNobodyWaitsForTheEndOfStorages: neither who follows the CRDs of all tenants nor a
// request waits until what a tenant left is destroyed.
func TestNobodyWaitsForTheEndOfStorages(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, _, storages := commonsOf(t)
			a := newTenant()
			follows(t, a, c, "a", served())
			asks(t, a, "get")
			storages["a"].destroying = time.Hour
			began, leave := time.Now(), func() {}
			if held {
				leave = a.hold("foos.example.com").end
			}
			follows(t, a, c, "a", nil)
			leave()
			if took := time.Since(began); took > 0 {
				t.Errorf("held %t: it took %s", held, took)
			}
			<-storages["a"].destroyed
		})
	}
}

// TestNobodyLearnsByTheTime: the first request of a tenant takes as long as if nobody had the
// same CRD, and so does the finalizer that comes first.
func TestNobodyLearnsByTheTime(t *testing.T) {
	for name, first := range map[string]func(t *testing.T, i *instance){
		"a request": func(t *testing.T, i *instance) { asks(t, i, "list") },
		"the finalizer": func(t *testing.T, i *instance) {
			if _, err := i.GetCustomResourceListerCollectionDeleter(served()); err != nil {
				t.Error(err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, handlers, _ := commonsOf(t)
			for _, tenant := range []string{"a", "b", "c"} {
				i := newTenant()
				follows(t, i, c, tenant, served())
				for _, want := range []time.Duration{makingTakes, 0} {
					began := time.Now()
					first(t, i)
					if took := time.Since(began); took != want {
						t.Errorf("%s of %s took %s, want %s", name, tenant, took, want)
					}
				}
			}
			for n, h := range *handlers {
				if kept := h.view.size() > 0; kept != (n == 0) {
					t.Errorf("handler %d is kept: %t", n, kept)
				}
			}
		})
	}
}
