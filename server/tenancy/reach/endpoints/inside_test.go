package endpoints

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// directory are partitions that join later.
type directory struct {
	mu   sync.Mutex
	all  []*partitionapi.Partition
	turn chan struct{}
}

func (d *directory) Settled() bool             { return true }
func (d *directory) Addresses(string) []string { return nil }

func (d *directory) Partitions() []*partitionapi.Partition {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}

func (d *directory) Changes() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turn
}

func (d *directory) join(p *partitionapi.Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, p)
	close(d.turn)
	d.turn = make(chan struct{})
}

// TestWallW8WhatComesInsideLater: addresses that were outside when a tenant wrote
// them are taken off when a partition, a node or a server has them.
func TestWallW8WhatComesInsideLater(t *testing.T) {
	const outside, ofPartition, ofNode, ofServer = "198.51.100.1", "10.142.0.5", "203.0.113.9", "203.0.113.10"
	slice := func(namespace, name string, addresses ...string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}}}
	}
	// Upstream's slices have the pods in the network of a node that a trusted
	// tenant runs.
	upstreams := slice("default.a", "upstreams", ofNode)
	upstreams.Labels = map[string]string{discoveryv1.LabelManagedBy: managedBy,
		discoveryv1.LabelServiceName: "selects"}
	selects := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default.a", Name: "selects"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}}}
	client := fake.NewClientset(slice("default.a", "x", outside, ofPartition, ofNode, ofServer), upstreams, selects,
		slice("default", "of-system", ofPartition, ofNode))
	d := &directory{turn: make(chan struct{})}
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	defer func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}()
	group.Start(t.Context(), New(Options{Client: client, Pool: interning.New(),
		Inside: inside.New([]netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, d)}))
	in := func(namespace, name string) (out []string) {
		o, err := client.DiscoveryV1().EndpointSlices(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range o.Endpoints {
			out = append(out, e.Addresses...)
		}
		return out
	}
	left := func(when string, want ...string) {
		t.Helper()
		deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ticks := time.Tick(10 * time.Millisecond); !slices.Equal(in("default.a", "x"), want); {
			select {
			case <-ticks:
			case <-deadline.Done():
				t.Fatalf("%s: there is %q, and should be %q", when, in("default.a", "x"), want)
			}
		}
	}
	watched := func() bool { // what a fake client stores before it is watched is lost
		of := map[string]bool{}
		for _, a := range client.Actions() {
			of[a.GetResource().Resource] = of[a.GetResource().Resource] || a.GetVerb() == "watch"
		}
		return of["nodes"] && of["endpointslices"]
	}
	for ticks := time.Tick(10 * time.Millisecond); !watched(); {
		<-ticks
	}
	left("before", outside, ofPartition, ofNode, ofServer)
	d.join(&partitionapi.Partition{Spec: partitionapi.PartitionSpec{ClusterCIDR: "10.142.0.0/16"}})
	left("a partition joins", outside, ofNode, ofServer)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ofNode}}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	left("a node joins", outside, ofServer)
	if _, err := client.DiscoveryV1().EndpointSlices("default").Create(t.Context(),
		slice("default", "kubernetes", ofServer), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	left("a server joins", outside)
	if got := in("default.a", "upstreams"); !slices.Equal(got, []string{ofNode}) {
		t.Errorf("upstream's slice has %q", got)
	}
	if got := in("default", "of-system"); !slices.Equal(got, []string{ofPartition, ofNode}) {
		t.Errorf("the system's slice has %q", got)
	}
	if got := in("default", "kubernetes"); !slices.Equal(got, []string{ofServer}) {
		t.Errorf("the API's slice has %q", got)
	}
}
