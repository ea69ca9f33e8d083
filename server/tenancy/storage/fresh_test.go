package storage_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// TestFreshnessIsWaitedForWithoutASeat: a list that waits for its cache lets others compute, and shows
// what was written before it.
func TestFreshnessIsWaitedForWithoutASeat(t *testing.T) {
	s := open(t, plainetcd.Run(t), configMaps(), storage.Decorate(getter{genericregistry.StorageWithCacher()},
		storage.Options{}))
	queue := fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 8, Busy: func() int { return 1000 }})
	acquire := func() *fairqueue.Seat {
		t.Helper()
		seat, err := queue.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return seat
	}
	list := func(seat *fairqueue.Seat, change func(*apistorage.ListOptions)) error {
		return s.GetList(fairqueue.With(in(t, "a"), seat), s.prefix, s.options(change), s.newList())
	}
	// Most lists wait, for the next time that the datastore says how far it is.
	gave := false
	for deadline := time.Now().Add(30 * time.Second); !gave && time.Now().Before(deadline); {
		if _, err := s.etcd.Put(t.Context(), "/elsewhere", "x"); err != nil {
			t.Fatal(err)
		}
		var listed atomic.Bool
		seat, done := acquire(), make(chan error, 1)
		go func() {
			err := list(seat, nil)
			listed.Store(true)
			seat.Release()
			done <- err
		}()
		other := acquire()
		gave = !listed.Load()
		other.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if !gave {
		t.Error("a list that waits keeps its seat")
	}

	for i := range 20 {
		s.create(t, "default.a", fmt.Sprint("x", i))
		seat := acquire()
		ctx := fairqueue.With(in(t, "a"), seat)
		if got, _ := s.list(t, ctx, s.prefix, nil); len(got) != i+1 {
			t.Fatalf("after %d were made a list has %d", i+1, len(got))
		}
		got, page := s.list(t, ctx, s.prefix, func(o *apistorage.ListOptions) { o.Predicate.Limit = 1 })
		if len(got) != 1 || (page.GetContinue() == "") != (i == 0) {
			t.Fatalf("a page of %d has %v, and goes on %q", i+1, got, page.GetContinue())
		}
		seat.Release()
	}
	seat := acquire()
	defer seat.Release()
	err := list(seat, func(o *apistorage.ListOptions) { o.Predicate.Continue = "x" })
	if !apierrors.IsBadRequest(err) {
		t.Errorf("a page of nothing: %v", err)
	}
}
