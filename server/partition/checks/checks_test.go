package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

func partition(name, ports string, servers int) *partitionapi.Partition {
	p := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: partitionapi.PartitionSpec{Roles: partitionapi.Roles(), NodePortRange: ports}}
	for i := range servers {
		p.Spec.Servers = append(p.Spec.Servers, partitionapi.PartitionServer{Name: fmt.Sprint("s", i),
			Address: fmt.Sprintf("%s-%d", name, i)})
	}
	return p
}

// TestCheck: each of what can be wrong is found, with its details, and is gone when it is over.
func TestCheck(t *testing.T) {
	all := []*partitionapi.Partition{partition("main", "30000-31000", 2), partition("tp2", "31001-32000", 2),
		partition("tp3", "32001-32767", 1)}
	down, off, version := map[string]bool{}, map[string]time.Duration{}, map[string]string{}
	o := Options{Self: "main", Own: "v1.37.2", Partitions: func() []*partitionapi.Partition { return all },
		Ping: func(_ context.Context, address string) (time.Time, error) {
			if down[address] {
				return time.Time{}, errors.New("refused")
			}
			return time.Now().Add(off[address]).Truncate(time.Second), nil
		},
		Version: func(_ context.Context, partition string) (string, error) {
			if v := version[partition]; v != "" {
				return v, nil
			}
			return "v1.37.5", nil
		}}
	r := health.NewRegistry()
	expect := func(what string, want ...string) {
		t.Helper()
		o.Check(t.Context(), r)
		var got []string
		for _, h := range r.Holdings() {
			got = append(got, fmt.Sprintf("%s %s", h.Code, h.Subject))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	detail := func(part string) {
		t.Helper()
		if h := r.Holdings(); len(h) != 1 || !strings.Contains(h[0].Detail, part) {
			t.Errorf("%+v do not say %q", h, part)
		}
	}
	expect("all is well")
	down["tp2-1"] = true
	expect("one server", "partition-server-unreachable tp2/s1")
	detail("tp2-1: refused")
	down["tp2-0"] = true
	expect("all of them", "partition-unreachable tp2")
	detail("s0 (tp2-0): refused; s1 (tp2-1): refused")
	clear(down)
	expect("they are back")
	all[2].Spec.Servers = nil
	expect("a partition without servers", "partition-unreachable tp3")
	all[2] = partition("tp3", "30500-30600", 1)
	expect("ports", "node-port-ranges-shared main, tp3")
	detail("main has 30000-31000, and tp3 has 30500-30600")
	all[2].Spec.Roles = []partitionapi.Role{partitionapi.RoleResource}
	expect("ports of a partition without Services")
	off["tp2-0"], off["tp3-0"], off["main-1"] = -time.Hour, 2*time.Second, time.Hour
	expect("clocks", "partition-clock main/s1", "partition-clock tp2/s0")
	clear(off)
	version["tp3"], version["tp2"] = "v1.36.3", "v1.37.0"
	expect("versions", "partition-version tp3")
	detail("it has v1.36.3, and this server v1.37.2")
	all = all[:1]
	expect("no other partition")
}

// TestAway: a clock that is right is not off, whenever in its second it is asked.
func TestAway(t *testing.T) {
	for i := range 1000 {
		now := time.Unix(1000, int64(i)*int64(time.Millisecond))
		if off := away(now.Truncate(time.Second), now, now); off != 0 {
			t.Fatalf("%v is off by %v", now, off)
		}
	}
}
