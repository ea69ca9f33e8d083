package storage

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
)

func claim(namespace string, selector *metav1.LabelSelector) *core.PersistentVolumeClaim {
	return &core.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"},
		Spec: core.PersistentVolumeClaimSpec{Selector: selector}}
}

// TestClaimsChooseVolumesOfTheirSpace: what those who bind see selects the
// volumes of the claim's own space, and of these what the claim asks for.
func TestClaimsChooseVolumesOfTheirSpace(t *testing.T) {
	fast := &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
	for _, c := range []struct {
		claim   *core.PersistentVolumeClaim
		volume  labels.Set
		matches bool
	}{
		{claim("default.a", nil), labels.Set{space.Label: "a"}, true},
		{claim("default.a", nil), labels.Set{space.Label: "b"}, false},
		{claim("default.a", nil), labels.Set{}, false},
		{claim("default", nil), labels.Set{}, true},
		{claim("default", nil), labels.Set{space.Label: "a"}, false},
		{claim("default.a", fast), labels.Set{space.Label: "a"}, false},
		{claim("default.a", fast), labels.Set{space.Label: "a", "disk": "fast"}, true},
		{claim("default.a", fast), labels.Set{space.Label: "b", "disk": "fast"}, false},
	} {
		before := c.claim.DeepCopy()
		shown := map[string]runtime.Object{
			"event":  shown(watch.Event{Type: watch.Modified, Object: c.claim}, confinedCopy).Object,
			"result": c.claim.DeepCopy(),
		}
		list := &core.PersistentVolumeClaimList{Items: []core.PersistentVolumeClaim{*c.claim}}
		confineClaims(list)
		confineClaims(shown["result"])
		shown["list"] = &list.Items[0]
		for how, obj := range shown {
			selector, err := metav1.LabelSelectorAsSelector(obj.(*core.PersistentVolumeClaim).Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			if got := selector.Matches(c.volume); got != c.matches {
				t.Errorf("%s: %s claims %v: %t", how, c.claim.Namespace, c.volume, got)
			}
		}
		if s := c.claim.Spec.Selector; (s == nil) != (before.Spec.Selector == nil) ||
			s != nil && len(s.MatchExpressions) > 0 {
			t.Errorf("the shared object was changed: %v", s)
		}
	}
}

func TestOnlyThoseWhoBindSeeTheSelector(t *testing.T) {
	claims, volumes := schema.GroupResource{Resource: "persistentvolumeclaims"},
		schema.GroupResource{Resource: "persistentvolumes"}
	as := func(name string) context.Context {
		return request.WithUser(t.Context(), &user.DefaultInfo{Name: name})
	}
	for _, c := range []struct {
		ctx      context.Context
		resource schema.GroupResource
		want     bool
	}{
		{as("system:kube-scheduler"), claims, true},
		{as("system:kube-controller-manager"), claims, true},
		{as("system:serviceaccount:kube-system:persistent-volume-binder"), claims, true},
		{as("system:kube-scheduler"), volumes, false},
		{space.WithTenant(as("system:kube-scheduler"), "a"), claims, false},
		{as("system:serviceaccount:kube-system:provisioner"), claims, false},
		{as("admin"), claims, false},
		{t.Context(), claims, false},
	} {
		u, _ := request.UserFrom(c.ctx)
		if got := (&objectKeys{resource: c.resource}).binds(c.ctx); got != c.want {
			t.Errorf("%v reads %s: %t", u, c.resource, got)
		}
	}
}
