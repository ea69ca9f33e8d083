package templates

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

func raw(objects ...string) []runtime.RawExtension {
	var out []runtime.RawExtension
	for _, o := range objects {
		out = append(out, runtime.RawExtension{Raw: []byte(o)})
	}
	return out
}

func configMap(metadata, data string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{` + metadata + `},"data":{` + data + `}}`
}

const named = `"name":"c","namespace":"default"`

func acme() *tenantapi.Tenant {
	return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", Labels: map[string]string{"plan": "gold"},
		Annotations: map[string]string{"empty": "", "example.com/mail": "x@example.com",
			"long": strings.Repeat("x", 200<<10)}}}
}

// TestKindsAreTenants: what a template can have, spaces have, and nothing else has its name.
func TestKindsAreTenants(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		row, ok := kinds.New().Kind(k.Group, k.Kind)
		if !ok || row.Class != kinds.Tenant || row.Resource != k.Resource {
			t.Errorf("%v is %+v", k, row)
		}
		if row.Namespaced != k.Namespaced || seen[k.Kind] {
			t.Errorf("%v is namespaced: %v; seen: %v", k, row.Namespaced, seen[k.Kind])
		}
		seen[k.Kind] = true
		if found, ok := KindOf(schema.GroupResource{Group: k.Group, Resource: k.Resource}); !ok || found != k {
			t.Errorf("%v is found as %v", k, found)
		}
	}
	if _, ok := KindOf(schema.GroupResource{Group: "example.com", Resource: "roles"}); ok {
		t.Error("the kind of a tenant's definition is taken for one of Kubernetes")
	}
}

func TestPlaceholders(t *testing.T) {
	for in, want := range map[string]string{
		"a $(tenant.name) b":                        "a acme b",
		"$(tenant.labels['plan'])-x":                "gold-x",
		"$(tenant.annotations['example.com/mail'])": "x@example.com",
		"$(tenant.name)$(tenant.name)":              "acmeacme",
		"$$(tenant.name) $(tenant.name)":            "$(tenant.name) acme",
		"$(date) ${HOME} $x":                        "$(date) ${HOME} $x",
		"":                                          "",
	} {
		v := &values{tenant: acme()}
		if got, err := v.expand(in); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
		if _, err := (&values{}).expand(in); err != nil {
			t.Errorf("%q is refused: %v", in, err)
		}
	}
	for in, want := range map[string]string{
		"$(tenant.uid)":             "no placeholder $(tenant.uid)",
		"$(tenant.labels[plan])":    "no placeholder",
		"$(tenant.labels[''])":      "no placeholder",
		"$(tenant.labels['a'b'])":   "no placeholder",
		"x $(tenant.name":           "has no end",
		"$(tenant.labels['a)":       "no placeholder",
		"$(tenant.spec['plan'])":    "no placeholder",
		"$(tenant.labels['plan'] )": "no placeholder",
	} {
		if _, err := (&values{}).expand(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	// What a tenant has not is known when there is one.
	if _, err := (&values{tenant: acme()}).expand("$(tenant.labels['x'])"); err == nil ||
		!strings.Contains(err.Error(), `the Tenant acme has no label "x"`) {
		t.Errorf("%v", err)
	}
}

// TestValuesAreNotExpandedAgain: an annotation that looks like a placeholder is text.
func TestValuesAreNotExpandedAgain(t *testing.T) {
	tenant := acme()
	tenant.Annotations["a"] = "$(tenant.name)"
	v := &values{tenant: tenant}
	if got, err := v.expand("$(tenant.annotations['a'])"); err != nil || got != "$(tenant.name)" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	long := `"a":"` + strings.Repeat("x", tenantapi.MaxTemplateBytes) + `"`
	var many []string
	for i := range tenantapi.MaxTemplateObjects + 1 {
		many = append(many, configMap(fmt.Sprintf(`"name":"c%d","namespace":"default"`, i), ""))
	}
	for name, c := range map[string]struct {
		objects []string
		want    string // "" for none
	}{
		"nothing":   {nil, ""},
		"valid":     {[]string{configMap(named, `"a":"$(tenant.name)"`)}, ""},
		"no object": {[]string{`[]`}, "objects[0]: Invalid value"},
		"null":      {[]string{`null`}, "objects[0]: Invalid value"},
		"no kind":   {[]string{`{"apiVersion":"v1"}`}, "objects[0]: Invalid value"},
		"too many":  {many, "must have at most 64 items"},
		"too long":  {[]string{configMap(named, long)}, "bytes together"},
		"another kind": {[]string{`{"apiVersion":"v1","kind":"Pod","metadata":{` + named + `}}`},
			"objects[0]: Invalid value: \"v1 Pod\": must be one of"},
		"another group": {[]string{`{"apiVersion":"example.com/v1","kind":"Role","metadata":{` + named + `}}`},
			"must be one of"},
		"Secrets": {[]string{`{"apiVersion":"v1","kind":"Secret","metadata":{` + named + `}}`}, "spec.secrets"},
		"status": {[]string{`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{` + named + `},"status":{}}`},
			"objects[0].status: Forbidden"},
		"no metadata":  {[]string{`{"apiVersion":"v1","kind":"ConfigMap"}`}, "objects[0].metadata: Required"},
		"no name":      {[]string{configMap(`"namespace":"default"`, "")}, "objects[0].metadata.name: Required"},
		"no namespace": {[]string{configMap(`"name":"c"`, "")}, "objects[0].metadata.namespace: Required"},
		"a namespace of a cluster role": {
			[]string{`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{` + named + `}}`},
			"is in no namespace"},
		"owners":                   {[]string{configMap(named+`,"ownerReferences":[]`, "")}, "ownerReferences: Forb"},
		"finalizers":               {[]string{configMap(named+`,"finalizers":["a"]`, "")}, "finalizers: Forb"},
		"a tenant":                 {[]string{configMap(named+`,"tenant":"other"`, "")}, "metadata.tenant: Forbidden"},
		"our labels":               {[]string{configMap(named+`,"labels":{"a4s.io/tenant":"x"}`, "")}, "Forbidden"},
		"labels of a part of ours": {[]string{configMap(named+`,"annotations":{"x.a4s.io/y":"x"}`, "")}, "Forbidden"},
		"labels that are numbers":  {[]string{configMap(named+`,"labels":{"a":1}`, "")}, "must be a string"},
		"another space":            {[]string{configMap(`"name":"c","namespace":"default.b"`, "")}, "namespace: Inv"},
		"a path":                   {[]string{configMap(`"name":"../../x","namespace":"default"`, "")}, "name: Inv"},
		"a path in a role": {
			[]string{`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"a/b",` +
				`"namespace":"default"}}`}, "name: Invalid"},
		"a role of all": {
			[]string{`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"view"}}`},
			"all spaces share"},
		"the administrators": {
			[]string{`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":` +
				`"admin-role"}}`}, "administrators of the space"},
		"rules of others": {
			[]string{`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all"},` +
				`"rules":[],"aggregationRule":{}}`}, "objects[0].rules: Forbidden"},
		"the bundle of the system": {[]string{configMap(`"name":"kube-root-ca.crt","namespace":"default"`, "")},
			"the system writes the ConfigMap"},
		"a wrong name beside a placeholder": {[]string{configMap(
			`"name":"../x","namespace":"default","labels":{"a":"$(tenant.name)"}`, "")}, "name: Invalid"},
		"a namespace of the tenant": {[]string{configMap(`"name":"c","namespace":"web"`, "")},
			"must be a namespace that every space has"},
		"a namespace of its own": {[]string{configMap(`"name":"c","namespace":"web-$(tenant.name)"`, ""),
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web-$(tenant.name)"}}`}, ""},
		"twice": {[]string{configMap(named, ""), configMap(named, "")}, "objects[1].metadata.name: Duplicate"},
		"an unknown placeholder": {[]string{configMap(named, `"a":{"b":["x","$(tenant.x)"]}`)},
			"objects[0].data.a.b[1]: Invalid value"},
		"a placeholder in a name of a field": {[]string{configMap(named, `"$(tenant.name)":"x"`)},
			"no values in names of fields"},
	} {
		err := Check(&tenantapi.TenantTemplateSpec{Objects: raw(c.objects...)}, nil).ToAggregate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRender(t *testing.T) {
	template := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold"}}
	template.Spec.Objects = raw(
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b","namespace":`+
			`"team-$(tenant.name)"},"roleRef":{"kind":"ClusterRole","name":"view"}}`,
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-$(tenant.name)","labels":{"a":"b"}}}`,
		configMap(named, `"plan":"$(tenant.labels['plan'])"`))
	got, err := Render(template, acme())
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, o := range got {
		refs = append(refs, o.Ref().String())
		if o.GetLabels()[Label] != "gold" {
			t.Errorf("%v has the labels %v", o.Ref(), o.GetLabels())
		}
	}
	if want := "Namespace team-acme, ConfigMap default/c, RoleBinding team-acme/b"; strings.Join(refs, ", ") != want {
		t.Errorf("%q, want %q", refs, want)
	}
	if data, _ := got[1].Object["data"].(map[string]any); data["plan"] != "gold" {
		t.Errorf("%v", got[1].Object)
	}
	for name, object := range map[string]string{
		"objects[0].data.a: Invalid": configMap(named, `"a":"$(tenant.labels['none'])"`),
		"namespace: Required":        configMap(`"name":"c","namespace":"$(tenant.annotations['empty'])"`, ""),
		"metadata.namespace":         configMap(`"name":"c","namespace":"$(tenant.labels['plan'])"`, ""),
		"more than 262144 bytes": configMap(named, `"a":"$(tenant.annotations['long'])",`+
			`"b":"$(tenant.annotations['long'])"`),
		"metadata.name: Invalid": configMap(`"name":"$(tenant.annotations['example.com/mail'])","namespace":"default"`,
			""),
	} {
		template.Spec.Objects = raw(object)
		if _, err := Render(template, acme()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
