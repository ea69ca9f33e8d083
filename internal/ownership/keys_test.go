package ownership

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

const prefix = "/registry/pods/"

func TestRanges(t *testing.T) {
	dir := func(name string) Range { return Range{prefix + name + "/", prefix + name + "0"} }
	for _, c := range []struct {
		what       string
		configs    []Config
		group      string
		namespaces []string
		want       []Range
	}{
		{"everything", nil, "0", nil, []Range{{prefix, "/registry/pods0"}}},
		{"an end", []Config{config("0", "", "m")}, "0", nil, []Range{{prefix, prefix + "m"}}},
		{"a start", []Config{config("0", "m", "")}, "0", nil, []Range{{prefix + "m", "/registry/pods0"}}},
		{"namespaces outside", []Config{config("0", "m", "")}, "0", []string{"kube-system", "default", "zoo"},
			[]Range{dir("default"), dir("kube-system"), {prefix + "m", "/registry/pods0"}}},
		{"an end that begins with a name", []Config{config("0", "", "m-1")}, "0", nil,
			[]Range{{prefix, prefix + "m-1"}, dir("m")}},
		{"a start that begins with a name", []Config{config("0", "m-1", "")}, "0", nil,
			[]Range{{prefix + "m-1", prefix + "m/"}, {prefix + "m0", "/registry/pods0"}}},
		{"a listed tenant", []Config{config("0", "x", "x", "hot")}, "0", nil, []Range{dir("hot")}},
		{"nothing", []Config{config("0", "x", "x")}, "0", nil, nil},
	} {
		if got := NewTable(c.configs).Ranges(c.group, prefix, c.namespaces); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestTenantOf(t *testing.T) {
	for _, c := range []struct {
		layout space.Layout
		rest   string
		want   string
	}{
		{space.Namespaced, "default/web", space.System},
		{space.Namespaced, "t1/default/web", "t1"},
		{space.ClusterScoped, "pv1", space.System},
		{space.ClusterScoped, "t1/pv1", "t1"},
		{space.Namespaces, "default", space.System},
		{space.Namespaces, "t1/default", "t1"},
	} {
		if got := TenantOf(c.layout, c.rest); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.layout, c.rest, got, c.want)
		}
	}
}

// FuzzRanges: a key lies in the ranges of a group and is not foreign there exactly if
// the group holds its tenant, or if it is the system's. So it lies in those of one
// configured group at most.
func FuzzRanges(f *testing.F) {
	f.Add("m", "m-1", "hot", "a-b", "m", "default")
	f.Add("", "a-b-c", "a", "a-b", "a", "a")
	f.Add("t-0", "t", "t-0-1", "t-0", "t", "kube-system")
	f.Fuzz(func(t *testing.T, b1, b2, listed, tenant, other, namespace string) {
		for _, bound := range []string{b1, b2} {
			if strings.ContainsFunc(bound, func(r rune) bool { return !strings.ContainsRune("abmtx0129.-Az", r) }) {
				t.Skip()
			}
		}
		for _, name := range []string{listed, tenant, other, namespace} {
			if space.ValidateTenant(name) != nil {
				t.Skip()
			}
		}
		table := NewTable([]Config{
			config("0", "", b1, listed), config("1", b1, b2), config("2", b2, "", other),
		})
		keys := map[string]string{ // of tenants
			namespace + "/web": space.System, tenant + "/default/web": tenant, other + "/x/web": other,
			listed + "/" + namespace + "/web": listed, namespace + "/default/web": namespace,
		}
		owners := map[string]int{}
		for _, group := range table.Groups() {
			ranges := table.Ranges(group, prefix, []string{namespace})
			if !slices.IsSortedFunc(ranges, func(a, b Range) int { return strings.Compare(a.From, b.From) }) {
				t.Fatalf("not in order: %q", ranges)
			}
			for rest, of := range keys {
				within := slices.ContainsFunc(ranges, func(r Range) bool { return r.Has(prefix + rest) })
				got := within && !table.Foreign(group, space.Namespaced, rest)
				if want := of == space.System || table.Holds(group, of); got != want {
					t.Errorf("group %s, %s: in the ranges: %v, want %v\n%q", group, rest, got, want, ranges)
				}
				if got && of != space.System {
					owners[rest]++
				}
			}
		}
		for rest, n := range owners {
			if n > 1 {
				t.Errorf("%d groups hold %s", n, rest)
			}
		}
	})
}
