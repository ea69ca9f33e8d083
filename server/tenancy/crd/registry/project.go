package registry

import (
	"crypto/sha256"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// carried are the labels and annotations that a tenant sees of a CRD of
// the system: whose it is, and what clients look for to know which release of an
// API they have before them. All others are the administrators' own: the range
// names other tenants, and what was applied last is the whole of it.
func carried(key string) bool {
	switch key {
	case crd.SharingPolicy, apiextensionsv1.KubeAPIApprovedAnnotation,
		"gateway.networking.k8s.io/bundle-version", "gateway.networking.k8s.io/channel",
		"controller-gen.kubebuilder.io/version":
		return true
	}
	return false
}

func carry(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		if carried(key) {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// project is a CRD of the system as a tenant that it serves sees it: what
// the API is, and not how the cluster has it. It shares what is below with the
// original, which the watch cache has.
func project(tenant string, crd *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	out := *crd
	out.ObjectMeta = metav1.ObjectMeta{
		Name: crd.Name, UID: uidIn(tenant, crd.UID), ResourceVersion: crd.ResourceVersion, Generation: crd.Generation,
		CreationTimestamp: crd.CreationTimestamp, DeletionTimestamp: crd.DeletionTimestamp,
		DeletionGracePeriodSeconds: crd.DeletionGracePeriodSeconds,
		Labels:                     carry(crd.Labels), Annotations: carry(crd.Annotations),
	}
	if c := crd.Spec.Conversion; c != nil {
		// Who converts, and by whose certificate, is the cluster's business.
		out.Spec.Conversion = &apiextensions.CustomResourceConversion{Strategy: c.Strategy,
			ConversionReviewVersions: c.ConversionReviewVersions}
	}
	out.Status.Conditions = nil
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensions.Terminating {
			c.Message = "" // it says of the objects of the system
		}
		out.Status.Conditions = append(out.Status.Conditions, c)
	}
	return &out
}

// uidIn is the UID of a CRD of the system in the space of a tenant. It is
// not that of the system: what names an owner by it would hold up the deletion
// of the system's CRD.
func uidIn(tenant string, uid types.UID) types.UID {
	sum := sha256.Sum256([]byte(string(uid) + "/" + tenant))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}
