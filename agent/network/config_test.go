package network

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/problem"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (go test -update rewrites it):\n%s", path, got)
	}
}

func TestRenderedConfigs(t *testing.T) {
	for _, tc := range []struct {
		golden string
		render func() ([]byte, error)
	}{
		{"net-conf-vxlan.json",
			func() ([]byte, error) { return renderNetConf("10.42.0.0/16", "vxlan", netfilter.Nftables) }},
		{"net-conf-host-gw.json",
			func() ([]byte, error) { return renderNetConf("10.42.7.9/16", "host-gw", netfilter.Iptables) }},
		{"10-a4s.conflist", func() ([]byte, error) {
			return renderConflist("/var/lib/a4s", "10.42.3.0/24", 1450, netfilter.Nftables)
		}},
	} {
		got, err := tc.render()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, tc.golden, got)
	}
}

func TestBadNetworkSettingsAreInput(t *testing.T) {
	for _, tc := range []struct{ cidr, backend, source string }{
		{"10.42.0.0", "vxlan", "--cluster-cidr"},
		{"fd00:42::/56", "vxlan", "--cluster-cidr"},
		{"10.42.0.0/16", "wireguard", "--flannel-backend"},
	} {
		_, err := renderNetConf(tc.cidr, tc.backend, netfilter.Nftables)
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != tc.source || in.Want == "" {
			t.Errorf("renderNetConf(%s, %s) = %v", tc.cidr, tc.backend, err)
		}
	}
}

func TestBridgeNameFitsAnInterface(t *testing.T) {
	if len(BridgeName) > 15 {
		t.Errorf("%s has %d characters, the kernel takes 15", BridgeName, len(BridgeName))
	}
}

func TestNodeStateTakesTheIPv4Range(t *testing.T) {
	for _, tc := range []struct {
		node corev1.Node
		want nodeState
	}{
		{corev1.Node{}, nodeState{}},
		{corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "10.42.1.0/24"}}, nodeState{podCIDR: "10.42.1.0/24"}},
		{corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{"flannel.alpha.coreos.com/kube-subnet-manager": "true"},
			},
			Spec: corev1.NodeSpec{PodCIDR: "fd00::/64", PodCIDRs: []string{"fd00::/64", "10.42.2.0/24"}},
		}, nodeState{podCIDR: "10.42.2.0/24", registered: true}},
	} {
		if got := stateOf(&tc.node); got != tc.want {
			t.Errorf("stateOf = %+v, want %+v", got, tc.want)
		}
	}
}

func TestChangesOfTheNodeEndTheNetwork(t *testing.T) {
	const cidr = "10.42.1.0/24"
	for _, tc := range []struct {
		name   string
		states []nodeState
		want   error
	}{
		{"another range", []nodeState{{cidr, true}, {"10.42.9.0/24", true}}, errRangeChanged},
		{"annotations gone", []nodeState{{cidr, false}, {cidr, true}, {"", false}}, errUnregistered},
	} {
		states := make(chan nodeState, len(tc.states))
		for _, s := range tc.states {
			states <- s
		}
		if err := watchForChange(t.Context(), states, cidr); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}
