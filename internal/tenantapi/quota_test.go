package tenantapi

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestNamesOfQuotas(t *testing.T) {
	for name, want := range map[string]string{
		"count/jobs.batch":           "jobs.batch true false",
		"count/secrets":              "secrets true false",
		"count/widgets.example.com":  "widgets.example.com true false",
		"secrets":                    "secrets true false",
		"services":                   "services true false",
		"pods":                       "pods false false",
		"limits.cpu":                 "pods false true",
		"requests.ephemeral-storage": "pods false false",
		"requests.hugepages-2Mi":     "pods false false",
		"requests.nvidia.com/gpu":    "pods false false",
		"services.nodeports":         "services false false",
		"requests.storage":           "persistentvolumeclaims false false",
		"fast.storageclass.storage.k8s.io/requests.storage":       "persistentvolumeclaims false false",
		"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "persistentvolumeclaims false false",
		"gpu.example.com.deviceclass.resource.k8s.io/devices":     "resourceclaims.resource.k8s.io false false",
	} {
		q, err := QuotaOf(name)
		if got := fmt.Sprint(q.Resource, q.Objects, q.Milli); err != nil || got != want || q.Counts == "" {
			t.Errorf("%s: %s (%q), %v, want %s", name, got, q.Counts, err, want)
		}
	}
	for name, want := range map[string]string{
		"":                           "names are count/RESOURCE.GROUP",
		"widgets":                    "names are count/RESOURCE.GROUP",
		"nvidia.com/gpu":             "requests.nvidia.com/gpu",
		"limits.nvidia.com/gpu":      "nothing counts it",
		"requests.gpu":               "nothing counts it",
		"requests.kubernetes.io/gpu": "not kubernetes.io",
		"requests.a b/gpu":           "such as requests.example.com/gpu",
		"count/":                     "such as count/jobs.batch",
		"count/Jobs.batch":           "such as count/jobs.batch",
		"count/jobs.ba/tch":          "such as count/jobs.batch",
		"hugepages-2":                "nothing counts it",
		"F_.storageclass.storage.k8s.io/requests.storage":      "name of a class",
		"requests.deviceclass.resource.kubernetes.io/gpu":      "say gpu.deviceclass.resource.k8s.io/devices",
		"services.loadbalancers/x" + strings.Repeat("x", 1000): "nothing counts it",
	} {
		if q, err := QuotaOf(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", name, q, err, want)
		}
	}
}

func TestLimitsOfQuotas(t *testing.T) {
	l, err := ParseLimits([]string{"quota.count/jobs.batch=2", "quota.limits.cpu=1500m", "quota.secrets=7",
		"quota.secrets=none"})
	if err != nil || len(l.Quota) != 2 || l.Quota["limits.cpu"] != resource.MustParse("1500m") {
		t.Errorf("%v, %v", l, err)
	}
	for setting, want := range map[string]string{
		"quota.pods=two":   "not a quantity",
		"quota.pods=-1":    "limits.quota[pods]",
		"quota.pods=500m":  "whole number",
		"quota.memory=9Ei": "must be at most",
		"quota.widgets=1":  "nothing counts it",
		"quota=1":          "quota.NAME",
	} {
		if _, err := ParseLimits([]string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
	many := &TenantLimits{Quota: map[string]resource.Quantity{}}
	for i := range mostQuotas + 1 {
		many.Quota[fmt.Sprintf("count/r%d.example.com", i)] = resource.MustParse("1")
	}
	if errs := many.Validate(field.NewPath("limits")); len(errs) != 1 || errs[0].Type != field.ErrorTypeTooMany {
		t.Error(errs)
	}
	own := &TenantLimits{Quota: map[string]resource.Quantity{"pods": resource.MustParse("1")}}
	over := own.Over(l)
	if len(over.Quota) != 3 || len(own.Quota) != 1 || len(l.Quota) != 2 {
		t.Errorf("%v over the limits of all, of %v", over.Quota, own.Quota)
	}
	in := &Tenant{Spec: TenantSpec{Limits: over}}
	data, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := &Tenant{}
	if err := out.Unmarshal(data); err != nil || fmt.Sprint(out.Spec.Limits.Quota) != fmt.Sprint(over.Quota) {
		t.Errorf("%v, %v", out.Spec.Limits, err)
	}
	if Counts(LimitOfQuota("pods")) == "" || Counts(LimitOfQuota("pots")) != "" {
		t.Error("what counts for pods, and for what is no name")
	}
}
