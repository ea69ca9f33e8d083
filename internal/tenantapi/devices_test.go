package tenantapi

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestLimitsOfDevices(t *testing.T) {
	l, err := ParseLimits([]string{"devices.gpu.example.com=2", "devices.nic=5", "devices.nic=none"})
	if err != nil || !maps.Equal(l.Devices, map[string]int64{"gpu.example.com": 2}) {
		t.Errorf("%v, %v", l, err)
	}
	for setting, want := range map[string]string{
		"devices.gpu=two": "whole number",
		"devices.gpu=-1":  "limits.devices[gpu]",
		"devices.=1":      "DeviceClass",
		"devices=1":       "devices.CLASS",
		"devices.G_U=1":   "DeviceClass",
	} {
		if _, err := ParseLimits([]string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
	own := &TenantLimits{Devices: map[string]int64{"gpu": 0}}
	over := own.Over(&TenantLimits{Devices: map[string]int64{"gpu": 3, "nic": 1}})
	if !maps.Equal(over.Devices, map[string]int64{"gpu": 0, "nic": 1}) || len(own.Devices) != 1 {
		t.Errorf("%v over the limits of all, of %v", over.Devices, own.Devices)
	}
	if errs := own.Validate(field.NewPath("limits")); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestDevicesSurviveProtobufAndCopying(t *testing.T) {
	zero := int64(0)
	in := &Tenant{Spec: TenantSpec{Limits: &TenantLimits{Pods: &zero,
		Devices: map[string]int64{"gpu.example.com": 2, "nic": 0}}}}
	data, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := &Tenant{}
	if err := out.Unmarshal(data); err != nil || !maps.Equal(in.Spec.Limits.Devices, out.Spec.Limits.Devices) ||
		*out.Spec.Limits.Pods != 0 {
		t.Errorf("%v, %v", out.Spec.Limits, err)
	}
	if again, err := out.Marshal(); err != nil || string(again) != string(data) {
		t.Errorf("encoded otherwise: %v", err)
	}
	c := in.DeepCopy()
	c.Spec.Limits.Devices["nic"] = 9
	if in.Spec.Limits.Devices["nic"] != 0 {
		t.Error("a copy shares its devices")
	}
}
