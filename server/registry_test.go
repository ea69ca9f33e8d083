package server

import (
	"reflect"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/groups"
)

// TestServersWithoutAGroupAddNothing: they say nothing that others need not know, count nothing,
// follow nobody, and leave the transports of clients as they are.
func TestServersWithoutAGroupAddNothing(t *testing.T) {
	w := groups.New(groups.Options{Server: "one", Balances: true})
	own := servers.Server{Name: "one", Address: "10.0.0.1:6443"}
	if got, applied := w.Lease(own, false, nil); got != (servers.Server{}) || applied != nil {
		t.Errorf("it says %+v", got)
	}
	if got, applied := w.Lease(own, true, nil); got.Name != "one" || got.Group != "0" || applied != nil {
		t.Errorf("to those who need to know it says %+v", got)
	}
	client, inside, config := fake.NewClientset(), &rest.Config{Host: "a"}, &rest.Config{Host: "b"}
	all, err := w.Follow(nil, client, inside, config)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := all.Client(); err != nil || c != client || all.Wrap != nil || len(all.Components) > 0 ||
		!reflect.DeepEqual([]*rest.Config{inside, config}, []*rest.Config{{Host: "a"}, {Host: "b"}}) {
		t.Errorf("%v, %+v %v", c, all, err)
	}
	if c, err := w.Components(groups.Work{}); err != nil || len(c) > 0 || w.Endpoints() != nil || w.Load() != nil {
		t.Errorf("%d components, %v", len(c), err)
	}
}
