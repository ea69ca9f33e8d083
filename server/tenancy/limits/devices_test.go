package limits

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func exactly(class string, mode resourceapi.DeviceAllocationMode, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: mode, Count: count}}
}

// TestClaimsCountTheirWorstCase: as many devices as a claim can be given.
func TestClaimsCountTheirWorstCase(t *testing.T) {
	const exact, all = resourceapi.DeviceAllocationModeExactCount, resourceapi.DeviceAllocationModeAll
	first := func(of ...resourceapi.DeviceSubRequest) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: "r", FirstAvailable: of}
	}
	sub := func(class string, mode resourceapi.DeviceAllocationMode, count int64) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{DeviceClassName: class, AllocationMode: mode, Count: count}
	}
	for name, c := range map[string]struct {
		requests []resourceapi.DeviceRequest
		devices  numbers
		all      []string
	}{
		"nothing": {nil, nil, nil},
		"two requests": {[]resourceapi.DeviceRequest{exactly("gpu", exact, 2), exactly("gpu", exact, 1)},
			numbers{"gpu": 3}, nil},
		"two classes": {[]resourceapi.DeviceRequest{exactly("gpu", exact, 2), exactly("nic", exact, 1)},
			numbers{"gpu": 2, "nic": 1}, nil},
		"the first that there is": {[]resourceapi.DeviceRequest{first(sub("gpu", exact, 1), sub("gpu", exact, 4),
			sub("nic", exact, 2)), exactly("gpu", exact, 1)}, numbers{"gpu": 5, "nic": 2}, nil},
		"all": {[]resourceapi.DeviceRequest{exactly("gpu", all, 0), first(sub("nic", exact, 1), sub("nic", all, 0))},
			numbers{"gpu": 32, "nic": 32}, []string{"gpu", "nic"}},
		"what nobody knows yet": {[]resourceapi.DeviceRequest{exactly("gpu", "Most", 1)}, numbers{}, []string{"gpu"}},
	} {
		claim := &resourceapi.ResourceClaim{}
		claim.Spec.Devices.Requests = c.requests
		// One that the scheduler makes for the resources of a pod.
		ofPod := claim.DeepCopy()
		ofPod.Annotations = map[string]string{"resource.kubernetes.io/extended-resource-claim": "true"}
		controls := true
		ofPod.OwnerReferences = []metav1.OwnerReference{{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod",
			Name: "p", Controller: &controls}}
		for _, claim := range []*resourceapi.ResourceClaim{claim, ofPod} {
			got := chargeOf(claim).claim
			if got == nil {
				if c.devices != nil {
					t.Errorf("%s: counts nothing", name)
				}
				continue
			}
			if !maps.Equal(got.devices, c.devices) || !slices.Equal(got.all, c.all) {
				t.Errorf("%s: %v, all of %q", name, got.devices, got.all)
			}
		}
	}
}

// TestDevicesAreExact: whatever happens at once, as many are claimed as may be.
func TestDevicesAreExact(t *testing.T) {
	l, limits, none := newAccounting(), map[string]int64{"gpu": 5}, amounts{}
	claimed := charge{claim: &claim{devices: numbers{"gpu": 2, "nic": 7}}}
	made := createNamed(t, l, claimed, reservation{devices: claimed.claim.devices}, func() bool {
		_, _, ok := l.reserveDevices("t", claimed.claim.devices, limits)
		return ok
	})
	if made != 2 {
		t.Errorf("%d claims of 2 devices were made, 5 devices are the limit", made)
	}
	if used := l.usedDevices("t"); used["gpu"] != 4 || used["nic"] != 14 {
		t.Errorf("%v", used)
	}
	if class, used, ok := l.reserveDevices("t", numbers{"gpu": 2}, limits); ok || class != "gpu" || used != 4 {
		t.Errorf("%s, %d, %v", class, used, ok)
	}
	if _, _, ok := l.reserveDevices("t", numbers{"gpu": 1, "fpga": 100}, limits); !ok {
		t.Error("the last device cannot be had")
	}
	l.release("t", &none, reservation{devices: numbers{"gpu": 1, "fpga": 100}})
	l.begin()
	l.end(made)
	if used := l.usedDevices("t"); len(used) > 0 || len(l.accounts) > 0 {
		t.Errorf("nothing is there any more, and %v is used", used)
	}
}

// TestDevicesInTheStatus: classes with a limit, and few of the names that a tenant
// makes up.
func TestDevicesInTheStatus(t *testing.T) {
	l := New(Options{Defaults: &tenantapi.TenantLimits{Devices: map[string]int64{"nic": 1}}})
	made := charge{claim: &claim{devices: numbers{"gpu": 2, "big": 9}}}
	for i := range 100 {
		made.claim.devices[fmt.Sprintf("x%d", i)] = 1
	}
	l.accounting.put("t", "k", 1, 1, isObject, made)
	tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"},
		Spec: tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{Devices: map[string]int64{"gpu": 4}}}}
	got := deviceUsage(l, tenant)
	if len(got) != 2+namedClasses || got[0].Name != "devices.gpu" || got[0].Used.Value() != 2 ||
		got[0].Limit.Value() != 4 || got[1].Name != "devices.nic" || got[1].Limit.Value() != 1 ||
		got[2].Name != "devices.big" || got[2].Limit != nil || got[2].Counts == "" {
		t.Errorf("%+v", got)
	}
}
