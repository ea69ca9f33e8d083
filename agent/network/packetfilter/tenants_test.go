package packetfilter

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/agent/network/localpods"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func pods(of map[string]localpods.Pod) map[netip.Addr]localpods.Pod {
	out := map[netip.Addr]localpods.Pod{}
	for a, p := range of {
		out[netip.MustParseAddr(a)] = p
	}
	return out
}

func TestTenantRules(t *testing.T) {
	dual := []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("fd00:42::/56")}
	for name, s := range map[string]tenantState{
		"empty": {clusters: dual[:1], bridge: "cni-a4s0"},
		"system": {clusters: dual[:1], bridge: "cni-a4s0",
			local: pods(map[string]localpods.Pod{"10.42.0.5": {Tenant: "system"}}),
			known: pods(map[string]localpods.Pod{"10.42.1.5": {Tenant: "t1"}})},
		"tenants": {
			clusters: dual, bridge: "cni-a4s0",
			local: pods(map[string]localpods.Pod{
				"10.42.0.5": {Tenant: "t1"}, "10.42.0.6": {Tenant: "2"}, "10.42.0.7": {Tenant: "system"},
				"10.42.0.8":  {Tenant: "system", Shared: true},
				"fd00:42::5": {Tenant: "t1"}, "10.42.0.9": {Tenant: "t1; flush ruleset"},
			}),
			known: pods(map[string]localpods.Pod{
				"10.42.0.5": {Tenant: "t3"}, // told before the address changed hands
				"10.42.0.0": {Tenant: "system", Shared: true}, "10.42.0.1": {Tenant: "system", Shared: true},
				"10.42.1.5": {Tenant: "t1"}, "10.42.1.6": {Tenant: "t3"}, "fd00:42:0:1::5": {Tenant: "t1"},
				"10.42.1.7": {Tenant: "system"},
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".nft")
			tx := knftables.NewFake(knftables.InetFamily, TableName).NewTransaction()
			s.render().change(tx, newTable())
			got := tx.String()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
