package serving

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// TestKilledBetweenWritesOfAMove: this package writes nothing for a move, and answers from
// what it has in memory of the configurations, of which a move writes several. Who moves is
// ended after each write, and servers of both groups start there. All servers, those that ran
// before and those that start, answer for every tenant, and the parts of the two groups have
// each tenant once, whether the ranges overlap or leave a gap until the move is gone on with.
func TestKilledBetweenWritesOfAMove(t *testing.T) {
	tenants := []string{"a", "f", "m", "z"}
	type write struct{ group, start, end string }
	for name, c := range map[string]struct {
		writes []write
		// nobody are the tenants that no group has after a write: who writes by hand can
		// leave a gap, and every server answers for them all the same.
		nobody map[int][]string
	}{
		"overlap": {writes: []write{{"1", "f", ""}, {"0", "", "f"}, {"0", "", ""}, {"1", "\x7f", "\x7f"}}},
		"gap": {writes: []write{{"0", "", "f"}, {"1", "f", ""}, {"1", "z", ""}, {"0", "", "z"}},
			nobody: map[int][]string{0: {"f"}, 2: {"f", "m"}}},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := runEtcd(t)
			configure(t, etcd, "0", "", "m")
			configure(t, etcd, "1", "m", "")
			if _, err := etcd.Put(t.Context(), namespaces+"kube-system", ""); err != nil {
				t.Fatal(err)
			}
			servers := map[string][]storage.Interface{"0": {server(t, etcd, "0")}, "1": {server(t, etcd, "1")}}
			for _, tenant := range append(tenants, space.System) {
				create(t, servers["0"][0], tenant, "one", "")
			}
			for i, w := range c.writes {
				configure(t, etcd, w.group, w.start, w.end)
				for group := range servers {
					servers[group] = append(servers[group], server(t, etcd, group))
				}
				checkServers(t, fmt.Sprint("after write ", i+1), servers, tenants, c.nobody[i])
			}
		})
	}
}

// checkServers asks all servers for every tenant, for everything, and for their parts.
func checkServers(
	t *testing.T, when string, servers map[string][]storage.Interface,
	tenants, nobody []string,
) {
	t.Helper()
	everything := []string{"a/default/one", "f/default/one", "kube-system/one", "m/default/one", "z/default/one"}
	count := map[string]int{}
	for group, all := range servers {
		var first []string
		for i, s := range all {
			what := fmt.Sprintf("%s, server %d of group %s: ", when, i, group)
			for _, tenant := range tenants {
				equal(t, what+tenant, mustList(t, of(t, tenant), s, prefix+"/"+tenant+"/"), tenant+"/default/one")
			}
			equal(t, what+"everything", mustList(t, t.Context(), s, prefix), everything...)
			// A list of the part waits until the cache has seen the newest revision.
			part := mustList(t, partitionapi.WithPart(t.Context()), s, prefix)
			if i == 0 {
				first = part
			}
			equal(t, what+"the part, which the first server has, too", part, first...)
		}
		for _, item := range first {
			count[item]++
		}
	}
	for _, item := range everything {
		want := 1
		switch {
		case item == "kube-system/one":
			want = 2
		case slices.Contains(nobody, item[:1]):
			want = 0
		}
		if count[item] != want {
			t.Errorf("%s, %d groups hold %s, want %d", when, count[item], item, want)
		}
	}
}
