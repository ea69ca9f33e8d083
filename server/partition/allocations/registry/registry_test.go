package registry

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

type node = allocations.NodeAllocation

func allocation() *node {
	return &node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Shares: []allocations.Share{
			{Partition: "tp1", Pods: 2, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
				HostPorts: []allocations.HostPort{{Protocol: corev1.ProtocolTCP, IP: "0.0.0.0", Port: 80}}},
			{Partition: "tp2", Pods: 1},
		},
		Awaited: []string{"tp1", "tp2"},
	}
}

func TestValidation(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*node)
		want   string // "" for no error
	}{
		"a good one": {func(*node) {}, ""},
		"two shares of one": {func(a *node) { a.Shares[1].Partition = "tp1" },
			"shares[1].partition: Dup"},
		"a share of nobody": {func(a *node) { a.Shares[1].Partition = "" }, "shares[1].partition"},
		"less than nothing": {func(a *node) { a.Shares[0].Requests["cpu"] = resource.MustParse("-1") },
			"negative"},
		"fewer than no pods": {func(a *node) { a.Shares[0].Pods = -1 }, "pods"},
		"a resource of spaces": {func(a *node) { a.Shares[0].Requests["a b"] = resource.MustParse("1") },
			"requests"},
		"port 0":      {func(a *node) { a.Shares[0].HostPorts[0].Port = 0 }, "port"},
		"no address":  {func(a *node) { a.Shares[0].HostPorts[0].IP = "x" }, "ip"},
		"no protocol": {func(a *node) { a.Shares[0].HostPorts[0].Protocol = "x" }, "protocol"},
		"too many": {func(a *node) {
			a.Shares = make([]allocations.Share, maxShares+1)
		}, "Too many"},
	} {
		t.Run(what, func(t *testing.T) {
			a := allocation()
			c.change(a)
			err := validate(a).ToAggregate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestPartitionsChangeTheirOwn share and no other.
func TestPartitionsChangeTheirOwn(t *testing.T) {
	const tp1 = allocations.UserPrefix + "tp1"
	for what, c := range map[string]struct {
		user   string
		change func(*node)
		ok     bool
	}{
		"own share":         {tp1, func(a *node) { a.Shares[0].Pods = 9 }, true},
		"own share away":    {tp1, func(a *node) { a.Shares = a.Shares[1:] }, true},
		"own waiting":       {tp1, func(a *node) { a.Awaited = a.Awaited[1:] }, true},
		"another's":         {tp1, func(a *node) { a.Shares[1].Pods = 9 }, false},
		"another's away":    {tp1, func(a *node) { a.Shares = a.Shares[:1] }, false},
		"another's waiting": {tp1, func(a *node) { a.Awaited = a.Awaited[:1] }, false},
		"a new one": {tp1, func(a *node) {
			a.Shares = append(a.Shares, allocations.Share{Partition: "tp3", Pods: 1})
		}, false},
		"administrator": {"system:admin", func(a *node) { a.Shares = nil }, true},
	} {
		t.Run(what, func(t *testing.T) {
			a := allocation()
			c.change(a)
			ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: c.user})
			if errs := newStrategy().ValidateUpdate(ctx, a, allocation()); (len(errs) == 0) != c.ok {
				t.Errorf("got %v", errs)
			}
		})
	}
}
