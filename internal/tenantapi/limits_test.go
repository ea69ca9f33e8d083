package tenantapi

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestLimitsFromSettings(t *testing.T) {
	l, err := ParseLimits([]string{"pods=none", "cpu=1500m", "bytes=1Gi", "objects=7"})
	if err != nil {
		t.Fatal(err)
	}
	if l.Pods != nil || l.CPU.MilliValue() != 1500 || l.Bytes.Value() != 1<<30 || *l.Objects != 7 ||
		*l.LoadBalancers != 10 {
		t.Errorf("%+v", l)
	}
	for setting, want := range map[string]string{
		"pods":         "NAME=VALUE",
		"pots=1":       `no limit "pots"`,
		"pods=1Gi":     "whole number",
		"pods=-1":      "limits.pods",
		"cpu=much":     "the limit cpu",
		"memory=500m":  "limits.memory",
		"storage=-1Gi": "limits.storage",
		"bytes=9Ei":    "limits.bytes",
		"objects=":     "the limit objects",
		"share=0":      "limits.share: Invalid value: 0: must be 1 to 100",
		"share=101":    "limits.share",
	} {
		if _, err := ParseLimits([]string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
	if len(DefaultLimits().Validate(field.NewPath("x"))) > 0 || DefaultLimits().Bytes.Value() != 256<<20 ||
		*DefaultLimits().Definitions != 200 || DefaultLimits().DefinitionBytes.Value() != 16<<20 {
		t.Errorf("the defaults: %+v", DefaultLimits())
	}
}

func TestOwnLimitsGoBeforeThoseOfAll(t *testing.T) {
	two, zero := int64(2), int64(0)
	own := &TenantLimits{Pods: &two, Objects: &zero}
	l := own.Over(DefaultLimits())
	if *l.Pods != 2 || *l.Objects != 0 || *l.Definitions != 200 || l.Bytes == nil || l.Memory != nil {
		t.Errorf("%+v", l)
	}
	if own.Bytes != nil {
		t.Error("the tenant's own limits were changed")
	}
	if l := (*TenantLimits)(nil).Over(nil); l == nil || l.Pods != nil {
		t.Errorf("%+v", l)
	}
}

func TestLimitsSurviveProtobufAndCopying(t *testing.T) {
	five, q := int64(5), resource.MustParse("12Mi")
	in := &Tenant{
		Spec: TenantSpec{Limits: &TenantLimits{
			Namespaces: &five, Objects: &five, RequestsInFlight: &five, Bytes: &q, Pods: &five, CPU: &q,
			Memory: &q, Storage: &q,
			Definitions: &five, LoadBalancers: &five, EventsPerSecond: &five,
			Services: &five, NodePorts: &five, LoadBalancerPorts: &five, DefinitionBytes: &q,
			Watches: &five, Share: &five,
		}},
		Status: TenantStatus{Usage: []LimitUsage{{Name: LimitBytes, Used: q, Limit: &q, Counts: "all"},
			{Name: LimitCPU}}},
	}
	data, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := &Tenant{}
	if err := out.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(in, out) {
		t.Errorf("%+v became %+v", in.Spec.Limits, out.Spec.Limits)
	}
	c := in.DeepCopy()
	c.Spec.Limits.Bytes.Add(q)
	*c.Spec.Limits.Pods = 9
	c.Status.Usage[0].Limit.Add(q)
	if in.Spec.Limits.Bytes.Value() != 12<<20 || *in.Spec.Limits.Pods != 5 ||
		in.Status.Usage[0].Limit.Value() != 12<<20 {
		t.Error("a copy shares its values")
	}
}

// TestNamesOfLimits: the list and the struct have the same fields in the same order.
func TestNamesOfLimits(t *testing.T) {
	limits := reflect.TypeFor[TenantLimits]()
	fields := (&TenantLimits{}).fields()
	var tags []string
	for i := range limits.NumField() {
		if limits.Field(i).Type.Kind() != reflect.Map { // those have rules of their own
			tags = append(tags, limits.Field(i).Tag.Get("protobuf"))
		}
	}
	if len(fields) != len(tags) {
		t.Fatalf("%d fields of %d", len(fields), len(tags))
	}
	for i, f := range fields {
		if tag := tags[i]; !strings.HasSuffix(tag, ",opt,name="+f.name) {
			t.Errorf("%s has the tag %s", f.name, tag)
		}
	}
}

// TestEveryLimitSaysWhatItCounts: a new limit does, too.
func TestEveryLimitSaysWhatItCounts(t *testing.T) {
	for _, f := range (&TenantLimits{}).fields() {
		if Counts(f.name) == "" {
			t.Errorf("nothing says what counts towards %s", f.name)
		}
	}
	if Counts(LimitOfDevices("gpu.example.com")) == "" || Counts("other") != "" {
		t.Errorf("devices: %q, no limit: %q", Counts(LimitOfDevices("gpu.example.com")), Counts("other"))
	}
}
