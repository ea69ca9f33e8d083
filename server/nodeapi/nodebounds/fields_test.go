package nodebounds

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestEveryFieldIsDecided: the tables have all fields of upstream's types and no others, so
// that what a new Kubernetes brings is refused, and named here, until it is decided.
func TestEveryFieldIsDecided(t *testing.T) {
	for _, c := range []struct {
		what  string
		of    any
		table []rule
	}{
		{"metadata of a Node", metav1.ObjectMeta{}, metaRules()},
		{"spec of a Node", core.NodeSpec{}, specRules()},
		{"status of a Node", core.NodeStatus{}, statusRules()},
		{"metadata of a Pod", metav1.ObjectMeta{}, podMetaRules()},
		{"status of a Pod", core.PodStatus{}, podRules(func(*change) error { return nil })},
	} {
		rules := map[string]bool{}
		for _, r := range c.table {
			if rules[r.field] {
				t.Errorf("%s: %s is twice in the table", c.what, r.field)
			}
			if !r.free && r.judge == nil && r.why == "" {
				t.Errorf("%s: %s is refused without a reason", c.what, r.field)
			}
			rules[r.field] = true
		}
		kind := reflect.TypeOf(c.of)
		for i := range kind.NumField() {
			if name := kind.Field(i).Name; !rules[name] {
				t.Errorf("%s: decide whether a node may say %s", c.what, name)
			}
			delete(rules, kind.Field(i).Name)
		}
		for name := range rules {
			t.Errorf("%s has no field %s", c.what, name)
		}
	}
}

// TestHardwareAddress reads what flannel writes, and takes nothing else for it.
func TestHardwareAddress(t *testing.T) {
	for data, want := range map[string]string{
		"": "", "null": "", `{"VNI":1,"VtepMAC":"0a:0B:0c:0d:0e:0f"}`: "0a:0b:0c:0d:0e:0f",
		`{"vtepmac":"0A-0b-0c-0d-0e-0f"}`: "0a:0b:0c:0d:0e:0f",
	} {
		if got, err := hardwareAddress(data); err != nil || got != want {
			t.Errorf("%s: %q, %v", data, got, err)
		}
	}
	for _, data := range []string{"x", "[]", "{}", `{"VtepMAC":"0a:0b:0c:0d:0e:0f:00:01"}`, `{"VtepMAC":1}`} {
		if got, err := hardwareAddress(data); err == nil {
			t.Errorf("%s: %q", data, got)
		}
	}
}

// TestLabelsOfTraffic: a node cannot let itself in to what nodes are told that take requests from outside.
func TestLabelsOfTraffic(t *testing.T) {
	for _, key := range []string{"node.kubernetes.io/exclude-from-external-load-balancers", "a4s.io/enable-lb",
		"a4s.io/lb-pool", "a4s.io/lb-partition", "svccontroller.k3s.cattle.io/enablelb"} {
		with := &core.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: "true", "own": "x"}}}
		other := &core.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: "y", "own": "x"}}}
		without := &core.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"own": "y"}}}
		for _, c := range []struct {
			was, now *core.Node
			creates  bool
			ok       bool
		}{
			{with, without, false, false}, {without, with, false, false}, {with, other, false, false},
			{without, with, true, true}, {with, with, false, true}, {without, &core.Node{}, false, true},
		} {
			if err := labelsOfTraffic(&change{was: c.was, now: c.now, creates: c.creates}); (err == nil) != c.ok {
				t.Errorf("%s: %v to %v: %v", key, c.was.Labels, c.now.Labels, err)
			}
		}
	}
}
