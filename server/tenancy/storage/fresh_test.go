package storage_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// foos are custom resources.
func foos() resource {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	return resource{
		GroupResource: schema.GroupResource{Group: version.Group, Resource: "foos"}, prefix: "/example.com/foos",
		namespaced: true, version: version,
		newObject: func() runtime.Object {
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(version.WithKind("Foo"))
			return obj
		},
		newList: func() runtime.Object {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(version.WithKind("FooList"))
			return list
		},
	}
}

// oneSeat gives the only seat that there is.
func oneSeat(t *testing.T) (acquire func() *fairqueue.Seat) {
	queue := fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 8, Busy: func() int { return 1000 }})
	return func() *fairqueue.Seat {
		t.Helper()
		seat, err := queue.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return seat
	}
}

// TestFreshnessIsWaitedForWithoutASeat: a list that waits for its cache lets others compute.
func TestFreshnessIsWaitedForWithoutASeat(t *testing.T) {
	etcd, acquire := plainetcd.Run(t), oneSeat(t)
	cached := getter{genericregistry.StorageWithCacher()}
	for _, c := range []struct {
		resource
		options generic.RESTOptionsGetter
	}{
		{configMaps(), storage.Decorate(cached, storage.Options{})},
		{foos(), storage.Bound(cached, "a", nil)},
	} {
		s := open(t, etcd, c.resource, c.options)
		// Most lists wait, for the next time that the datastore says how far it is. A few that ask it how
		// far it is wait for that.
		const lists = 20
		gave := 0
		for range lists {
			if _, err := etcd.Put(t.Context(), "/elsewhere", "x"); err != nil {
				t.Fatal(err)
			}
			var listed atomic.Bool
			seat, done := acquire(), make(chan error, 1)
			go func() {
				err := s.GetList(fairqueue.With(in(t, "a"), seat), s.prefix, s.options(nil), s.newList())
				listed.Store(true)
				seat.Release()
				done <- err
			}()
			other := acquire()
			if !listed.Load() {
				gave++
			}
			other.Release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if gave < lists/2 {
			t.Errorf("%d of %d lists of %s gave their seat to others", gave, lists, s.Resource)
		}
	}
}

// TestFreshLists: what was written before a list is in it, and pages go on.
func TestFreshLists(t *testing.T) {
	s := open(t, plainetcd.Run(t), configMaps(), storage.Decorate(getter{genericregistry.StorageWithCacher()},
		storage.Options{}))
	seat := oneSeat(t)()
	defer seat.Release()
	ctx := fairqueue.With(in(t, "a"), seat)
	for i := range 20 {
		s.create(t, "default.a", fmt.Sprint("x", i))
		if got, _ := s.list(t, ctx, s.prefix, nil); len(got) != i+1 {
			t.Fatalf("after %d were made a list has %d", i+1, len(got))
		}
		got, page := s.list(t, ctx, s.prefix, func(o *apistorage.ListOptions) { o.Predicate.Limit = 1 })
		if len(got) != 1 || (page.GetContinue() == "") != (i == 0) {
			t.Fatalf("a page of %d has %v, and goes on %q", i+1, got, page.GetContinue())
		}
	}
	err := s.GetList(ctx, s.prefix, s.options(func(o *apistorage.ListOptions) { o.Predicate.Continue = "x" }),
		s.newList())
	if !apierrors.IsBadRequest(err) {
		t.Errorf("a page of nothing: %v", err)
	}
}
