package registry

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	unversionedvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/node"
	nodeconvert "k8s.io/kubernetes/pkg/apis/node/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// mostOfNodes bounds what the scheduler compares with each node, and what each pod is given.
const mostOfNodes = 16

func validateScheduling(tenant string, s *tenantapi.TenantScheduling, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	if tenant == space.System {
		return field.ErrorList{field.Forbidden(path,
			"pods of the system space run on all nodes, also on those that tenants have for themselves alone")}
	}
	of := path.Child("nodeSelector")
	errs := unversionedvalidation.ValidateLabels(s.NodeSelector, of)
	if n := len(s.NodeSelector); n > mostOfNodes {
		errs = append(errs, field.TooMany(of, n, mostOfNodes))
	}
	if s.Exclusive && len(s.NodeSelector) == 0 {
		errs = append(errs, field.Required(of, "exclusive keeps others off the nodes with these labels"))
	}
	of = path.Child("tolerations")
	if n := len(s.Tolerations); n > mostOfNodes {
		return append(errs, field.TooMany(of, n, mostOfNodes))
	}
	var in node.Scheduling
	if err := nodeconvert.Convert_v1_Scheduling_To_node_Scheduling(&nodev1.Scheduling{Tolerations: s.Tolerations}, &in,
		nil); err != nil {
		return append(errs, field.InternalError(of, err))
	}
	return append(errs,
		corevalidation.ValidateTolerations(in.Tolerations, of, corevalidation.PodValidationOptions{})...)
}

// warnOfNodes says who is locked out by labels that nodes have anyway.
func warnOfNodes(t *tenantapi.Tenant) []string {
	if !t.KeepsNodes() {
		return nil
	}
	return warnOfLabels(t.Spec.Scheduling)
}

func warnOfLabels(s *tenantapi.TenantScheduling) []string {
	for key := range s.NodeSelector {
		if key != corev1.LabelOSStable && key != corev1.LabelArchStable {
			return nil
		}
	}
	return []string{"spec.scheduling.exclusive: most nodes have the labels of spec.scheduling.nodeSelector, " +
		"and those that do run no pods of any other tenant"}
}

// awaken has the space of a tenant that keeps nodes made at once. A dormant one is not read at
// a start (server/tenancy/storage/awake.go), and others would get its nodes then.
func awaken(t *tenantapi.Tenant) {
	if t.KeepsNodes() {
		toBeMade(t)
	}
}

// toBeMade has the space of a dormant tenant made.
func toBeMade(t *tenantapi.Tenant) {
	if t.Dormant() {
		meta.RemoveStatusCondition(&t.Status.Conditions, tenantapi.SpaceReady)
	}
}
