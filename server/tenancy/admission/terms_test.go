package admission

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/kubernetes/pkg/apis/core"
)

func many[T any](n int, of T) []T { return slices.Repeat([]T{of}, n) }

// TestTermsOfPodsAreBounded: what the scheduler goes through for each node has a bound in
// every list it stands in, for new pods and for changed ones.
func TestTermsOfPodsAreBounded(t *testing.T) {
	required := func(n int) *core.PodAffinity {
		return &core.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: many(n, core.PodAffinityTerm{})}
	}
	preferred := func(n int) *core.PodAntiAffinity {
		return &core.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: many(n,
			core.WeightedPodAffinityTerm{})}
	}
	ofNodes := func(n, values int) *core.NodeAffinity {
		term := core.NodeSelectorTerm{MatchExpressions: []core.NodeSelectorRequirement{{Key: "k",
			Operator: core.NodeSelectorOpIn, Values: many(values, "v")}}}
		return &core.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &core.NodeSelector{
			NodeSelectorTerms: many(n, term)}}
	}
	labels := map[string]string{}
	for i := range 2001 {
		labels[fmt.Sprint("k", i)] = "v"
	}
	selector := &metav1.LabelSelector{MatchExpressions: many(2001, metav1.LabelSelectorRequirement{Key: "k",
		Operator: metav1.LabelSelectorOpExists})}
	claim := core.Volume{VolumeSource: core.VolumeSource{
		PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{}}}
	for _, c := range []struct {
		what string
		spec core.PodSpec
		text string // of the refusal, "" for none
	}{
		{"affinity of nodes", core.PodSpec{Affinity: &core.Affinity{NodeAffinity: ofNodes(100, 1)}}, ""},
		{"a term too many", core.PodSpec{Affinity: &core.Affinity{NodeAffinity: ofNodes(101, 1)}},
			"spec.affinity has 101 terms: it may have 100"},
		{"of all kinds of affinity", core.PodSpec{Affinity: &core.Affinity{NodeAffinity: ofNodes(40, 1),
			PodAffinity: required(40), PodAntiAffinity: preferred(40)}}, "spec.affinity has 120 terms"},
		{"values", core.PodSpec{Affinity: &core.Affinity{NodeAffinity: ofNodes(2, 1000)}},
			"spec has 2002 requirements"},
		{"of a selector", core.PodSpec{TopologySpreadConstraints: []core.TopologySpreadConstraint{
			{LabelSelector: selector}}}, "spec has 2001 requirements"},
		{"labels of nodes", core.PodSpec{NodeSelector: labels}, "spec has 2001 requirements"},
		{"namespaces", core.PodSpec{Affinity: &core.Affinity{PodAffinity: &core.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []core.PodAffinityTerm{{Namespaces: many(2001, "n")}}}}},
			"spec has 2001 requirements"},
		{"spread", core.PodSpec{TopologySpreadConstraints: many(101, core.TopologySpreadConstraint{})},
			"spec.topologySpreadConstraints has 101 constraints"},
		{"tolerations", core.PodSpec{Tolerations: many(101, core.Toleration{})}, "spec.tolerations has 101"},
		{"claims", core.PodSpec{ResourceClaims: many(101, core.PodResourceClaim{})}, "spec.resourceClaims has 101"},
		{"claims of volumes", core.PodSpec{Volumes: many(101, claim)}, "spec.volumes has 101 claims of volumes"},
		{"volumes without claims", core.PodSpec{Volumes: many(500, core.Volume{})}, ""},
		{"containers", core.PodSpec{Containers: many(2001, core.Container{})}, "spec has 2001"},
		{"their ports", core.PodSpec{InitContainers: []core.Container{{Ports: many(2000, core.ContainerPort{})}}},
			"spec has 2001"},
	} {
		pod := &core.Pod{Spec: c.spec}
		err := checkAsked(pod, nil)
		switch {
		case c.text == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)):
			t.Errorf("%s: %v, want %s", c.what, err, c.text)
		}
		if err := checkAsked(pod, pod); err != nil {
			t.Errorf("%s: what is there already: %v", c.what, err)
		}
		if c.text != "" && checkAsked(pod, &core.Pod{}) == nil {
			t.Errorf("%s: a change is not refused", c.what)
		}
	}
}

// TestFieldsOfPodsThatAreLong: each list or map of a pod is bounded, or something else than
// the scheduler goes through it.
func TestFieldsOfPodsThatAreLong(t *testing.T) {
	bounded := strings.Fields("Volumes InitContainers Containers NodeSelector Affinity Tolerations Overhead " +
		"TopologySpreadConstraints ResourceClaims Resources")
	others := map[string]string{
		"EphemeralContainers": "they ask for nothing", "ImagePullSecrets": "the kubelet's",
		"HostAliases":     "the kubelet's",
		"SecurityContext": "the kubelet's", "DNSConfig": "the kubelet's", "ReadinessGates": "the kubelet's",
		"SchedulingGates": "one is enough, and the scheduler looks no further", "OS": "has no list",
		"SchedulingGroup": "has no list", "EvictionResponders": "eviction's",
	}
	of := reflect.TypeFor[core.PodSpec]()
	for i := range of.NumField() {
		f := of.Field(i)
		kind, elem := f.Type.Kind(), f.Type
		if kind == reflect.Pointer {
			elem = f.Type.Elem()
		}
		if kind != reflect.Slice && kind != reflect.Map && elem.Kind() != reflect.Struct {
			continue
		}
		if _, other := others[f.Name]; !other && !slices.Contains(bounded, f.Name) {
			t.Errorf("nothing is decided of spec.%s", f.Name)
		}
	}
}
