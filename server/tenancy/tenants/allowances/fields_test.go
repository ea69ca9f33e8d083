package allowances

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestEveryAllowanceHasAField: an annotation, its field and the name of the field belong together, and the
// types have no other field.
func TestEveryAllowanceHasAField(t *testing.T) {
	of, seen := reflect.TypeFor[tenantapi.TenantAllowances](), map[string]bool{}
	for _, key := range All() {
		if key == PodSecurity {
			continue
		}
		seen[name(key)] = true
		a := &tenantapi.TenantAllowances{}
		want := "x"
		if at := below(a, key); at.flag != nil {
			yes := true
			*at.flag, want = &yes, "true"
		} else {
			*at.list = []string{"x"}
		}
		for i := range of.NumField() {
			tag, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if set := !reflect.ValueOf(*a).Field(i).IsZero(); set != (tag == name(key)) {
				t.Errorf("%s: the field %s is set: %t", key, tag, set)
			}
		}
		if got := Effective(&tenantapi.Tenant{Spec: tenantapi.TenantSpec{Allow: a}}, nil, key); got != want {
			t.Errorf("%s is %q", key, got)
		}
	}
	if len(seen) != of.NumField() {
		t.Errorf("%d names for %d fields", len(seen), of.NumField())
	}
}

// TestWhatHolds: the Tenant's field, its annotation, its template's field, in this order, each allowance for itself.
func TestWhatHolds(t *testing.T) {
	no := false
	from := &tenantapi.TenantTemplate{Spec: tenantapi.TenantTemplateSpec{PodSecurity: "restricted",
		Allow: &tenantapi.TenantAllowances{StorageClasses: []string{"slow"}, NodeNames: new(true),
			VolumeTypes: []string{"nfs"}, LoadBalancerPorts: []string{"none"}}}}
	tenant := func(annotations map[string]string, spec tenantapi.TenantSpec) *tenantapi.Tenant {
		t := &tenantapi.Tenant{Spec: spec}
		t.Annotations = annotations
		return t
	}
	annotated := map[string]string{PodSecurity: "privileged", StorageClasses: "fast,usual", NodeNames: "true"}
	both := tenantapi.TenantSpec{PodSecurity: "baseline",
		Allow: &tenantapi.TenantAllowances{StorageClasses: []string{"none"}, NodeNames: &no,
			VolumeTypes: []string{"iscsi"}}}
	for name, c := range map[string]struct {
		t    *tenantapi.Tenant
		from *tenantapi.TenantTemplate
		want map[string]string
	}{
		"nothing": {tenant(nil, tenantapi.TenantSpec{}), nil, map[string]string{}},
		"the template": {tenant(nil, tenantapi.TenantSpec{}), from, map[string]string{PodSecurity: "restricted",
			StorageClasses: "slow", NodeNames: "true", VolumeTypes: "nfs", LoadBalancers: "none"}},
		"annotations": {tenant(annotated, tenantapi.TenantSpec{}), from, map[string]string{PodSecurity: "privileged",
			StorageClasses: "fast,usual", NodeNames: "true", VolumeTypes: "nfs", LoadBalancers: "none"}},
		"fields": {tenant(annotated, both), from, map[string]string{PodSecurity: "baseline",
			StorageClasses: "none", NodeNames: "false", VolumeTypes: "iscsi", LoadBalancers: "none"}},
		"fields alone": {tenant(annotated, both), nil, map[string]string{PodSecurity: "baseline",
			StorageClasses: "none", NodeNames: "false", VolumeTypes: "iscsi"}},
	} {
		for _, key := range All() {
			if got := Effective(c.t, c.from, key); got != c.want[key] {
				t.Errorf("%s: %s is %q, want %q", name, key, got, c.want[key])
			}
		}
	}
	level, shown := Shown(tenant(map[string]string{LoadBalancers: "false", StorageClasses: "a, b"}, both), from)
	if level != "baseline" || !slices.Equal(shown.LoadBalancerPorts, []string{"none"}) || *shown.NodeNames ||
		!slices.Equal(shown.StorageClasses, []string{"none"}) || shown.DeviceAdminAccess != nil {
		t.Errorf("%s, %+v", level, shown)
	}
	if level, shown := Shown(tenant(nil, tenantapi.TenantSpec{}), nil); level != "baseline" || shown != nil {
		t.Errorf("%s, %+v", level, shown)
	}
	if l := ParseList("none"); !l.Said || !l.Narrows() || l.Has("none") || l.String() != "none" {
		t.Errorf("none: %+v", l)
	}
}

// TestFieldsThatCannotBe: what is wrong, by the field that it is in.
func TestFieldsThatCannotBe(t *testing.T) {
	type allow = tenantapi.TenantAllowances
	for name, c := range map[string]struct {
		level string
		a     allow
		field string
	}{
		"nothing": {},
		"all": {level: "restricted", a: allow{VolumeTypes: []string{"nfs"}, CSIDrivers: []string{"Csi.example.com"},
			HostPorts: []string{"80", "9000-9010"}, LoadBalancerPorts: []string{"none"},
			TolerationKeys: []string{"example.com/gpu"}, PriorityClasses: []string{"*"}}},
		"a level":        {level: "strict", field: "spec.podSecurity"},
		"a type":         {a: allow{VolumeTypes: []string{"nsf"}}, field: "spec.allow.volumeTypes[0]"},
		"a driver":       {a: allow{CSIDrivers: []string{"a", "b,c"}}, field: "spec.allow.csiDrivers[1]"},
		"no port":        {a: allow{HostPorts: []string{"http"}}, field: "spec.allow.hostPorts[0]"},
		"no ports":       {a: allow{HostPorts: []string{""}}, field: "spec.allow.hostPorts[0]"},
		"a flag":         {a: allow{LoadBalancerPorts: []string{"true"}}, field: "spec.allow.loadBalancerPorts[0]"},
		"two ports":      {a: allow{LoadBalancerPorts: []string{"1,2"}}, field: "spec.allow.loadBalancerPorts[0]"},
		"a key":          {a: allow{TolerationKeys: []string{"a b"}}, field: "spec.allow.tolerationKeys[0]"},
		"no name":        {a: allow{DeviceClasses: []string{""}}, field: "spec.allow.deviceClasses[0]"},
		"a comma":        {a: allow{StorageClasses: []string{"a,*"}}, field: "spec.allow.storageClasses[0]"},
		"twice":          {a: allow{PriorityClasses: []string{"a", "a"}}, field: "spec.allow.priorityClasses[1]"},
		"all and one":    {a: allow{PriorityClasses: []string{"a", "*"}}, field: "spec.allow.priorityClasses[1]"},
		"none and one":   {a: allow{DeviceClasses: []string{"none", "a"}}, field: "spec.allow.deviceClasses[0]"},
		"no pods at all": {a: allow{RuntimeClasses: []string{"none"}}, field: "spec.allow.runtimeClasses"},
		"many":           {a: allow{StorageClasses: make([]string, mostItems+1)}, field: "spec.allow.storageClasses"},
	} {
		errs := Check(c.level, &c.a, field.NewPath("spec"))
		if c.field == "" && len(errs) > 0 || c.field != "" && (len(errs) != 1 || errs[0].Field != c.field) {
			t.Errorf("%s: %v, want an error of %q", name, errs, c.field)
		}
	}
}

func TestWarningsOfAnnotations(t *testing.T) {
	is := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{PodSecurity: "baseline"}}
	is.Annotations = map[string]string{PodSecurity: "privileged", NodeNames: "true", "example.com/x": ""}
	got := Warnings(is, map[string]string{NodeNames: "true"})
	if len(got) != 1 || got[0] != "metadata.annotations[a4s.io/pod-security]: deprecated; "+
		"use spec.podSecurity instead, which is set and goes before it" {
		t.Errorf("%q", got)
	}
	if got := Warnings(is, nil); len(got) != 2 || !strings.HasSuffix(got[1], "use spec.allow.nodeNames instead") {
		t.Errorf("%q", got)
	}
	if got := Warnings(is, is.Annotations); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
