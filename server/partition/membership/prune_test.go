package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// TestPrune: a server that does not answer for a minute is gone, one that answers in between
// is not, and a partition whose servers are down keeps their addresses.
func TestPrune(t *testing.T) {
	server := func(i int) partitionapi.PartitionServer {
		return partitionapi.PartitionServer{Name: fmt.Sprint("s", i), Address: fmt.Sprintf("192.0.2.%d:6443", i)}
	}
	all := []partitionapi.PartitionServer{server(1), server(2), server(3)}
	down := map[string]bool{}
	p := &Pruner{Self: server(1), Servers: func() []partitionapi.PartitionServer { return all },
		Answers: func(_ context.Context, address string) error {
			if down[address] {
				return errors.New("down")
			}
			return nil
		}}
	now := time.Now()
	// after is what is gone after some time.
	after := func(d time.Duration) string {
		now = now.Add(d)
		out := ""
		for _, s := range p.round(t.Context(), now) {
			out += s.Server + " "
		}
		return out
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: gone are %q, want %q", what, got, want)
		}
	}
	check("all are there", after(away), "")
	down[server(2).Address] = true
	check("it went", after(away), "")
	check("it was asked before a minute had passed", after(away-1), "")
	down[server(2).Address] = false
	check("it answers", after(1), "")
	down[server(2).Address] = true
	check("it went again", after(1), "")
	check("a minute later", after(away), "s2 ")
	down[server(3).Address] = true
	check("only one is to be taken out", after(1), "s2 ")
	check("both are", after(away), "s2 s3 ")
	p.Least = 2
	check("too few remain", after(away), "")
	p.Least, all = 0, all[1:]
	check("this one is not in the list itself", after(away), "")
}

// TestGoneServersAreTakenOut of the list, but never the one that says so, nor one that has
// another address by now.
func TestGoneServersAreTakenOut(t *testing.T) {
	p := &partitionapi.Partition{Spec: partitionapi.PartitionSpec{Servers: []partitionapi.PartitionServer{
		{Name: "a", Address: "192.0.2.1:6443"}, {Name: "b", Address: "192.0.2.2:6443"},
		{Name: "c", Address: "192.0.2.3:6443"},
	}}}
	req := joinapi.PartitionRequest{Server: "a", Address: "192.0.2.1:6443", Gone: []joinapi.PartitionServer{
		{Server: "a", Address: "192.0.2.1:6443"}, {Server: "b", Address: "192.0.2.2:6443"},
		{Server: "c", Address: "192.0.2.33:6443"}}}
	if !setServer(p, req) {
		t.Error("nothing changed")
	}
	if got := fmt.Sprint(p.Addresses()); got != "[192.0.2.1:6443 192.0.2.3:6443]" {
		t.Errorf("it has %s", got)
	}
	if setServer(p, req) {
		t.Error("the same changed it again")
	}
}

// TestAChangedRangeOfNodePorts is taken over, as what doctor advises, and not from a server that
// does not say one.
func TestAChangedRangeOfNodePorts(t *testing.T) {
	req := joinapi.PartitionRequest{Server: "a", Address: "192.0.2.1:6443", NodePortRange: "30000-32767"}
	p := newPartition(req)
	for _, c := range []struct {
		says, want string
		changes    bool
	}{
		{"30000-32767", "30000-32767", false},
		{"33000-33999", "33000-33999", true},
		{"33000-33999", "33000-33999", false},
		{"", "33000-33999", false},
	} {
		req.NodePortRange = c.says
		if changed := take(p, req); changed != c.changes || p.Spec.NodePortRange != c.want {
			t.Errorf("it says %q: changed %t, %s", c.says, changed, p.Spec.NodePortRange)
		}
	}
	// Who takes out servers that are gone has not just started: it may run with the former range.
	req.NodePortRange, req.Gone = "30000-32767", []joinapi.PartitionServer{{Server: "b"}}
	if take(p, req); p.Spec.NodePortRange != "33000-33999" {
		t.Errorf("who prunes puts the range back: %s", p.Spec.NodePortRange)
	}
}

// TestTheRangesOfAPartitionStay: a server with others than the partition was registered with is not one of it.
func TestTheRangesOfAPartitionStay(t *testing.T) {
	was := joinapi.PartitionRequest{Name: "tp2", Identity: "id", Roles: []string{"tenant"},
		ServiceCIDR: "10.44.0.0/16", ClusterCIDR: "10.142.0.0/16", NodePortRange: "28000-29999"}
	p := newPartition(was)
	for what, c := range map[string]struct {
		change func(*joinapi.PartitionRequest)
		want   string // "" for no error
	}{
		"the same":         {func(*joinapi.PartitionRequest) {}, ""},
		"other node ports": {func(r *joinapi.PartitionRequest) { r.NodePortRange = "26000-26999" }, ""},
		"other Services": {func(r *joinapi.PartitionRequest) { r.ServiceCIDR = "10.43.0.0/16" },
			"--service-cidr 10.44"},
		"other pods": {func(r *joinapi.PartitionRequest) { r.ClusterCIDR = "10.42.0.0/16" },
			"--cluster-cidr 10.142"},
		"another identity": {func(r *joinapi.PartitionRequest) { r.Identity = "x" }, "another partition"},
		"other roles":      {func(r *joinapi.PartitionRequest) { r.Roles = nil }, "roles"},
	} {
		req := was
		c.change(&req)
		err := same(p, req)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
