package noderanges

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var cluster = []Range{{netip.MustParsePrefix("10.42.0.0/16"), 24}}

// TestRead: only what the controller of ranges would take.
func TestRead(t *testing.T) {
	for text, ok := range map[string]bool{
		"10.42.7.0/24": true, "10.42.255.0/24": true, "10.42.7.9/32": false, "10.42.7.0/25": false,
		"10.42.0.0/16": false,
		"10.43.7.0/24": false, "10.42.7.1/24": false, "fd00::/24": false, "": false, "x": false, "0.0.0.0/0": false,
		"::ffff:10.42.7.0/120": false,
	} {
		if _, err := Read([]string{text}, cluster); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	// internal/logging goes by the text, which comes back to the controller through the API.
	const want = "a node of this cluster has 1, not 2"
	if _, err := Read([]string{"10.42.7.0/24", "10.42.8.0/24"}, cluster); err == nil || err.Error() != want {
		t.Errorf("two ranges where there is one: %v", err)
	}
}

// TestUnfit names each node with a range that it cannot keep, and no other.
func TestUnfit(t *testing.T) {
	node := func(name string, cidrs ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
		if len(cidrs) > 0 {
			n.Spec.PodCIDR = cidrs[0]
		}
		return n
	}
	nodes := []*corev1.Node{node("none"), node("good", "10.42.1.0/24"), node("outside", "192.0.2.0/24"),
		node("one", "10.42.1.7/32"), node("twice", "10.42.1.0/24"), node("other", "10.42.2.0/24")}
	unfit := Unfit(slices.Values(nodes), cluster)
	if len(unfit) != 3 || unfit["outside"] == nil || unfit["one"] == nil || unfit["twice"] == nil {
		t.Errorf("%v", unfit)
	}
	if unfit := Unfit(slices.Values(nodes), nil); len(unfit) > 0 {
		t.Errorf("where nobody gives ranges: %v", unfit)
	}
}

// TestUnfitAreThoseThatOverlap compares with what it means, for nodes of two families.
func TestUnfitAreThoseThatOverlap(t *testing.T) {
	both := append(slices.Clone(cluster), Range{netip.MustParsePrefix("fd00::/56"), 64})
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 46))
		var nodes []*corev1.Node
		var fit [][]netip.Prefix
		want := map[string]bool{}
		for i := range r.IntN(12) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
			n.Spec.PodCIDRs = []string{fmt.Sprintf("10.42.%d.0/%d", r.IntN(12), 24+r.IntN(8)/7),
				fmt.Sprintf("fd00:0:0:%x::/64", r.IntN(12))}[:1+r.IntN(2)]
			nodes = append(nodes, n)
			of, err := Read(n.Spec.PodCIDRs, both)
			if err != nil {
				want[n.Name] = true
				continue
			}
			if slices.ContainsFunc(fit, func(other []netip.Prefix) bool { return Overlap(other, of) }) {
				want[n.Name] = true
			}
			fit = append(fit, of)
		}
		got := Unfit(slices.Values(nodes), both)
		for _, n := range nodes {
			if (got[n.Name] != nil) != want[n.Name] {
				t.Fatalf("seed %d: %s: %v, want %v", seed, n.Name, got[n.Name], want[n.Name])
			}
		}
	}
}

// BenchmarkUnfit is one look at 4,000 nodes, as a server's health takes one every few seconds: by comparing each
// with each, and as it is.
func BenchmarkUnfit(b *testing.B) {
	var nodes []*corev1.Node
	for i := range 4000 {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)},
			Spec: corev1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)}}})
	}
	in := []Range{{netip.MustParsePrefix("10.0.0.0/8"), 24}}
	b.Run("each with each", func(b *testing.B) {
		for b.Loop() {
			for i, n := range nodes {
				of, err := Read(n.Spec.PodCIDRs, in)
				if err != nil {
					b.Fatal(err)
				}
				for _, other := range nodes[:i] {
					if Overlap(Stored(other.Spec.PodCIDRs), of) {
						b.Fatal("they overlap")
					}
				}
			}
		}
	})
	b.Run("by range", func(b *testing.B) {
		for b.Loop() {
			if unfit := Unfit(slices.Values(nodes), in); len(unfit) > 0 {
				b.Fatal(unfit)
			}
		}
	})
}
