package noderanges

import (
	"net/netip"
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
	node := func(name string, cidrs ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
		if len(cidrs) > 0 {
			n.Spec.PodCIDR = cidrs[0]
		}
		return n
	}
	nodes := []corev1.Node{node("none"), node("good", "10.42.1.0/24"), node("outside", "192.0.2.0/24"),
		node("one", "10.42.1.7/32"), node("twice", "10.42.1.0/24"), node("other", "10.42.2.0/24")}
	unfit := Unfit(nodes, cluster)
	if len(unfit) != 3 || unfit["outside"] == nil || unfit["one"] == nil || unfit["twice"] == nil {
		t.Errorf("%v", unfit)
	}
	if unfit := Unfit(nodes, nil); len(unfit) > 0 {
		t.Errorf("where nobody gives ranges: %v", unfit)
	}
}
