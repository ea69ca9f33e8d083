package controllers

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/a4s-io/a4s/internal/space"
)

// TestSpacesTakeTurns: the policies of a space are checked one after the other, those of another one meanwhile, and
// what fails is tried again for a bounded number of times.
func TestSpacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newSpaceTurns(time.Second)
		for _, native := range []string{"1", "2", "3"} {
			turns.add(space.ClusterName("a", native))
		}
		turns.add(space.ClusterName("b", "1"))
		turns.add("1")
		var order []string
		for range 5 {
			turns.next(func(name string, _ bool) error {
				tenant, _ := space.SplitClusterName(name)
				order = append(order, tenant)
				return nil
			})
		}
		if want := []string{"a", "b", space.System, "a", "a"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
		turns.add("fails")
		tries, start := 0, time.Now()
		for last := false; !last; {
			turns.next(func(_ string, l bool) error {
				if tries, last = tries+1, l; last {
					return nil
				}
				return errors.New("it fails")
			})
		}
		if tries != 5 || time.Since(start) != 15*time.Second {
			t.Errorf("%d tries in %s", tries, time.Since(start))
		}
		go turns.queue.ShutDown()
		if turns.next(func(name string, _ bool) error { return errors.New(name) }) {
			t.Error("there is more")
		}
	})
}

// TestKindsThatCannotBeRead: what upstream's checker would take as a kind that is not there is an error.
func TestKindsThatCannotBeRead(t *testing.T) {
	failure := errors.New("the space does not answer")
	asked := 0
	kinds := newKindsOfSpace(meta.NewDefaultRESTMapper(nil), func() (discovery.DiscoveryInterface, error) {
		asked++
		return nil, failure
	})
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if _, err := kinds.KindsFor(pods); err == nil || asked > 0 {
		t.Errorf("%v; the space was asked %d times for kinds of Kubernetes", err, asked)
	}
	_, err := kinds.KindsFor(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"})
	if !errors.Is(err, failure) || !errors.Is(kinds.failed, failure) {
		t.Errorf("%v, %v", err, kinds.failed)
	}
	kinds.failed = nil
	foo := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Foo"}
	if _, err := kinds.ResolveSchema(foo); err == nil || !errors.Is(kinds.failed, failure) || asked != 1 {
		t.Errorf("%v, %v, asked %d times", err, kinds.failed, asked)
	}
}
