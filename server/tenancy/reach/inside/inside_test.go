package inside

import (
	"errors"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

type directory struct {
	settled bool
	all     []*partitionapi.Partition
	servers map[string][]string
	turn    chan struct{}
}

func (d *directory) Settled() bool                         { return d.settled }
func (d *directory) Partitions() []*partitionapi.Partition { return d.all }
func (d *directory) Addresses(name string) []string        { return d.servers[name] }
func (d *directory) Changes() <-chan struct{}              { return d.turn }

func (d *directory) tell() {
	close(d.turn)
	d.turn = make(chan struct{})
}

// TestCluster: a partition counts from the moment that it is told of.
func TestCluster(t *testing.T) {
	d := &directory{turn: make(chan struct{})}
	c := New([]netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("fd00:42::/56")}, d)
	in := func(text string) bool {
		t.Helper()
		ip, ok := Parse(text)
		if !ok {
			t.Fatalf("%q is no address", text)
		}
		ranged, err1 := c.Range(ip)
		server, err2 := c.Server(ip)
		if (err1 == nil) != d.settled || (err2 == nil) != d.settled || (c.Known() == nil) != d.settled {
			t.Errorf("%s: %v, %v", text, err1, err2)
		}
		return ranged || server
	}
	if !in("10.42.3.4") || !in("::ffff:10.42.3.4") || !in("64:ff9b::a2a:304") || !in("010.042.3.4") ||
		!in("fd00:42:0::0:7") || in("10.142.0.1") {
		t.Error("own ranges do not count before anything is known")
	}
	if err := c.Known(); !errors.Is(err, ErrUnknown) {
		t.Errorf("it is known at once: %v", err)
	}
	d.settled = true
	d.all = []*partitionapi.Partition{{ObjectMeta: metav1.ObjectMeta{Name: "tp2"}, Spec: partitionapi.PartitionSpec{
		ServiceCIDR: "10.44.0.0/16", ClusterCIDR: "10.142.0.0/16"}}, {ObjectMeta: metav1.ObjectMeta{Name: "empty"}}}
	d.servers = map[string][]string{"tp2": {"192.0.2.2:6443", "[2001:db8::2]:6443", "api.example.com:6443", "junk"}}
	changed := c.Changes()
	d.tell()
	<-changed
	for address, want := range map[string]bool{"10.142.0.1": true, "10.44.0.1": true, "192.0.2.2": true,
		"2001:db8::2": true, "::ffff:192.0.2.2": true, "192.0.2.3": false, "10.45.0.1": false} {
		if got := in(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
	d.all = nil
	d.tell()
	if in("10.142.0.1") || in("192.0.2.2") || !in("10.42.0.1") {
		t.Error("a partition that has left still counts")
	}
	if alone := New(nil, nil); alone.Known() != nil || alone.Changes() != nil {
		t.Error("the only partition waits for others")
	}
	for _, text := range []string{"", "example.com", "10.42.0.0/16"} {
		if ip, ok := Parse(text); ok {
			t.Errorf("%q is %s", text, ip)
		}
	}
}
