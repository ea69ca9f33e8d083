package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestRevisions: a revision holds a patch of its StatefulSet, in JSON also
// where the revision itself is protobuf, and whoever rolls back sends it.
func TestRevisions(t *testing.T) {
	revisions := Resource{Group: "apps", Version: "v1", Resource: "controllerrevisions",
		Kind: "ControllerRevision", Namespaced: true}
	patch := func(namespace, selector string) string {
		return `{"spec":{"template":{"$patch":"replace",` +
			`"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"namespaces":["` +
			namespace + `"],"namespaceSelector":{` + selector + `},"topologyKey":"z"}]}},` +
			`"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{}}}}}]}}}}`
	}
	inside := patch("x.t1", `"matchLabels":{"a4s.io/tenant":"t1"}`)
	for name, c := range map[string]struct {
		d        Direction
		in, want string
		err      error
	}{
		"out":              {Out, inside, patch("x", ""), nil},
		"in":               {In, patch("x", ""), inside, nil},
		"another tenant's": {Out, patch("x.t2", ""), "", ErrForeign},
		"some other program's": {Out, `{"anything":["x.t1",{"spec":{"template":1}}]}`,
			`{"anything":["x.t1",{"spec":{"template":1}}]}`, nil},
		"nothing": {Out, `null`, `null`, nil},
		"cut off": {Out, inside[:len(inside)-1], "", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := "default"
			if c.d == Out {
				namespace += ".t1"
			}
			r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: namespace},
				Revision: 7}
			r.Data = runtime.RawExtension{Raw: []byte(c.in)}
			p := protoProjector("t1")
			out, err := p.Proto(c.d, revisions, seal(t, "apps/v1", "ControllerRevision", r))
			if !errors.Is(err, c.err) {
				t.Fatalf("protobuf: %v", err)
			}
			if err == nil {
				if got := unseal(t, out, &appsv1.ControllerRevision{}); string(got.Data.Raw) != c.want ||
					got.Revision != 7 {
					t.Errorf("protobuf: revision %d of %s\nwant %s", got.Revision, got.Data.Raw, c.want)
				}
			}
			asJSON := `{"metadata":{"name":"web-1","namespace":"` + namespace + `"},"data":`
			text, err := p.JSON(c.d, revisions, []byte(asJSON+c.in+`,"revision":7}`))
			if !errors.Is(err, c.err) {
				t.Fatalf("JSON: %v", err)
			}
			if err == nil && !strings.Contains(string(text), `"data":`+c.want+`,"revision":7`) {
				t.Errorf("JSON: %s\nwant %s", text, c.want)
			}
		})
	}
}

// TestConditionsInAnAnnotation: autoscaling/v1 shows the conditions that v2 has
// in a text, in which names are mentioned.
func TestConditionsInAnAnnotation(t *testing.T) {
	const key = "autoscaling.alpha.kubernetes.io/conditions"
	inside := `[{"type":"ScalingActive","message":"unable to get metric m: ` +
		`Service on default.t1 web/x, not default.t2"}]`
	native := `[{"type":"ScalingActive","message":"unable to get metric m: Service on default web/x, not default.t2"}]`
	r := Resource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers",
		Kind: "HorizontalPodAutoscaler", Namespaced: true}
	h := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: r.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "h", Namespace: "default.t1",
			Annotations: map[string]string{key: inside, "own": "default.t1"}},
	}
	p := protoProjector("t1")
	out, err := p.Proto(Out, r, seal(t, "autoscaling/v1", r.Kind, h))
	if err != nil {
		t.Fatal(err)
	}
	got := unseal(t, out, &autoscalingv1.HorizontalPodAutoscaler{})
	if got.Annotations[key] != native || got.Annotations["own"] != "default.t1" {
		t.Errorf("protobuf: %v", got.Annotations)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = p.JSON(Out, r, text); err != nil {
		t.Fatal(err)
	}
	var fromJSON autoscalingv1.HorizontalPodAutoscaler
	if err := json.Unmarshal(text, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if fromJSON.Annotations[key] != native || fromJSON.Annotations["own"] != "default.t1" {
		t.Errorf("JSON: %v", fromJSON.Annotations)
	}
}
