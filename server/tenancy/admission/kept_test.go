package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// keeping are tenants of which one has objects of a template.
type keeping struct {
	annotated
	of tenantapi.AppliedTemplate
}

func (k keeping) Keeper(
	_ context.Context, tenant string, r schema.GroupResource, namespace, name string,
) (template, object string, err error) {
	kind, ok := templates.KindOf(r)
	if ref := kind.Ref(namespace, name); ok && tenant == "t1" && k.of.Has(ref) {
		return "gold", ref.String(), nil
	}
	if tenant == "unknown" {
		return "", "", errors.New("the datastore is away")
	}
	return "", "", nil
}

// TestWhatTemplatesKeepStays: an object of a template is known by its name in the status of the Tenant, whatever
// way it is changed.
func TestWhatTemplatesKeepStays(t *testing.T) {
	g := &guard{permits: permits{keeping{of: tenantapi.AppliedTemplate{Objects: []tenantapi.TemplateObject{
		{Kind: "ResourceQuota", Namespace: "default", Name: "q"}, {Kind: "Namespace", Name: "team"},
		{Kind: "ClusterRole", Name: "reader"}, {Kind: "ServiceAccount", Namespace: "default", Name: "ci"},
	}}}}}
	const rbac, create = "rbac.authorization.k8s.io", admission.Create
	const update, remove = admission.Update, admission.Delete
	quota := &core.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "default.t1"}}
	for name, c := range map[string]struct {
		tenant, group, resource, namespace, object, sub string
		op                                              admission.Operation
		old                                             runtime.Object
		refused                                         bool
	}{
		"a change":              {"t1", "", "resourcequotas", "default.t1", "q", "", update, quota, true},
		"its status":            {"t1", "", "resourcequotas", "default.t1", "q", "status", update, quota, true},
		"its deletion":          {"t1", "", "resourcequotas", "default.t1", "q", "", remove, quota, true},
		"before it is read":     {"t1", "", "resourcequotas", "default.t1", "q", "", remove, nil, true},
		"among others":          {"t1", "", "resourcequotas", "default.t1", "", "", remove, quota, true},
		"all of a namespace":    {"t1", "", "resourcequotas", "default.t1", "", "", remove, nil, false},
		"one of the name":       {"t1", "", "configmaps", "default.t1", "q", "", update, nil, false},
		"another namespace":     {"t1", "", "resourcequotas", "web.t1", "q", "", update, nil, false},
		"another tenant":        {"t2", "", "resourcequotas", "default.t2", "q", "", update, nil, false},
		"making it":             {"t1", "", "resourcequotas", "default.t1", "q", "", create, nil, true},
		"making another":        {"t1", "", "resourcequotas", "default.t1", "p", "", create, nil, false},
		"a token":               {"t1", "", "serviceaccounts", "default.t1", "ci", "token", create, nil, false},
		"making a cluster role": {"t1", rbac, "clusterroles", "", "reader.t1.tenant", "", create, nil, true},
		"making a namespace":    {"t1", "", "namespaces", "team.t1", "team.t1", "", create, nil, true},
		"the namespace":         {"t1", "", "namespaces", "team.t1", "team.t1", "", remove, nil, true},
		"its finalizers":        {"t1", "", "namespaces", "team.t1", "team.t1", "finalize", update, nil, true},
		"a cluster role":        {"t1", rbac, "clusterroles", "", "reader.t1.tenant", "", update, nil, true},
		"another cluster role":  {"t1", rbac, "clusterroles", "", "writer.t1.tenant", "", update, nil, false},
		"a kind of the tenant": {"t1", "example.com", "clusterroles", "", "reader.t1.tenant", "", update, nil,
			false},
	} {
		resource := schema.GroupVersionResource{Group: c.group, Version: "v1", Resource: c.resource}
		attr := admission.NewAttributesRecord(nil, c.old, schema.GroupVersionKind{}, c.namespace, c.object, resource,
			c.sub, c.op, nil, false, nil)
		err := g.checkKept(t.Context(), c.tenant, attr)
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "an administrator of the cluster can change the template") {
			t.Errorf("%s: %v does not say who may", name, err)
		}
	} // What is not known is no leave.
	attr := admission.NewAttributesRecord(nil, quota, schema.GroupVersionKind{}, "default.unknown", "q",
		schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}, "", update, nil, false, nil)
	if err := g.checkKept(t.Context(), "unknown", attr); !errors.Is(err, errKeeperUnknown) {
		t.Errorf("of a tenant that cannot be read: %v", err)
	}
}
