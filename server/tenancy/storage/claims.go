package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
)

// Upstream looks for the volume of a claim among all free volumes of the
// cluster, in the controller manager and in the scheduler. A label selector is
// the one thing by which a claim can choose among them, so those who bind see
// every claim with a selector for the volumes of its own space, which carry
// the label of their tenant (stamp.go). Nobody else sees it: provisioners
// refuse claims that have a selector. Admission takes it out of what comes back.

// binders are the users as which upstream reads claims to bind them, and
// takes the result of a write for the claim.
var binders = map[string]bool{
	"system:kube-controller-manager":                             true,
	"system:serviceaccount:kube-system:persistent-volume-binder": true,
	"system:kube-scheduler":                                      true,
}

// binds reports whether claims are shown as those who bind them see them.
func (m *objectKeys) binds(ctx context.Context) bool {
	if m.resource != (schema.GroupResource{Resource: "persistentvolumeclaims"}) {
		return false
	}
	if _, addressed := space.FromContext(ctx); addressed {
		return false
	}
	user, ok := request.UserFrom(ctx)
	return ok && binders[user.GetName()]
}

// confineClaim shows a claim with the selector. What it refers to may be shared
// with the watch cache and is left alone.
func confineClaim(claim *core.PersistentVolumeClaim) {
	tenant, _ := space.SplitNamespace(claim.Namespace)
	own := metav1.LabelSelectorRequirement{Key: space.Label, Operator: metav1.LabelSelectorOpDoesNotExist}
	if tenant != space.System {
		own.Operator, own.Values = metav1.LabelSelectorOpIn, []string{tenant}
	}
	selector := &metav1.LabelSelector{}
	if s := claim.Spec.Selector; s != nil {
		selector.MatchLabels = s.MatchLabels
		selector.MatchExpressions = s.MatchExpressions[:len(s.MatchExpressions):len(s.MatchExpressions)]
	}
	selector.MatchExpressions = append(selector.MatchExpressions, own)
	claim.Spec.Selector = selector
}

// confineClaims shows the claims in what was read: one, or a list.
func confineClaims(obj runtime.Object) {
	switch o := obj.(type) {
	case *core.PersistentVolumeClaim:
		confineClaim(o)
	case *core.PersistentVolumeClaimList:
		for i := range o.Items {
			confineClaim(&o.Items[i])
		}
	}
}

// confinedCopy is a claim as it is shown.
func confinedCopy(obj runtime.Object) runtime.Object {
	if claim, ok := obj.(*core.PersistentVolumeClaim); ok {
		shown := *claim
		confineClaim(&shown)
		return &shown
	}
	return obj
}
