package registry

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestQuotasCountWhatThereIs: a name that would never count anything is refused, with what
// would be right.
func TestQuotasCountWhatThereIs(t *testing.T) {
	for name, want := range map[string]string{
		"count/jobs.batch": "",
		"count/secrets":    "",
		"count/clusterroles.rbac.authorization.k8s.io": "",
		"count/widgets.example.com":                    "",
		"count/leases.coordination.k8s.io":             "",
		"secrets":                                      "",
		"services.nodeports":                           "",
		"count/jobs":                                   "but count/jobs.batch",
		"count/jobs.btach":                             "but count/jobs.batch",
		"count/jbos.batch":                             "its group there are count/cronjobs.batch, count/jobs.batch",
		"count/widgets.example":                        `no group "example"`,
		"count/nodes":                                  "nodes are system-only",
		"count/daemonsets.apps":                        "system-only",
		"count/storageclasses.storage.k8s.io":          "shared read-only",
		"count/events":                                 "do not count",
		"count/events.events.k8s.io":                   "do not count",
		"count/pods.metrics.k8s.io":                    "do not count",
	} {
		errs := ValidateQuota(map[string]resource.Quantity{name: resource.MustParse("1")}, field.NewPath("x"))
		switch {
		case want == "" && len(errs) > 0:
			t.Errorf("%s: %v", name, errs)
		case want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), want)):
			t.Errorf("%s: %v, want %q", name, errs, want)
		}
	}
}

// TestNamesOfAnotherVersionStay: a Tenant whose limits name what this version does not count can
// still change, and go.
func TestNamesOfAnotherVersionStay(t *testing.T) {
	was := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{CRDPolicy: tenantapi.DefaultCRDPolicy,
		Limits: &tenantapi.TenantLimits{Quota: map[string]resource.Quantity{"count/gone": resource.MustParse("1")}}}}
	now := was.DeepCopy()
	now.Labels = map[string]string{"a": "b"}
	if errs := check(t.Context(), now, was); len(errs) > 0 {
		t.Errorf("a label: %v", errs)
	}
	now.Spec.Limits.Quota["count/gone"] = resource.MustParse("2")
	if errs := check(t.Context(), now, was); len(errs) == 0 {
		t.Error("what is not counted can be limited anew")
	}
}
