package admission

import (
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/tenancy/nodes"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

func deviceGuard(t *testing.T, of annotated) *guard {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, extended := range map[string]string{"gpu.example.com": "example.com/gpu",
		"big.example.com": "example.com/gpu", "nic.example.com": "example.com/nic"} {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &extended}}
		if err := store.Add(class); err != nil {
			t.Fatal(err)
		}
	}
	g, err := newGuard(of, nodes.New(of))
	if err != nil {
		t.Fatal(err)
	}
	g.devices.classes, g.classes = resourcelisters.NewDeviceClassLister(store), classes(t)
	return g
}

// TestDevicesAreAllowances: classes and administrator's access, wherever they are
// asked for, and by whomever, with and without the annotation.
func TestDevicesAreAllowances(t *testing.T) {
	claims := func(spec string) []string {
		return []string{`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","spec":` + spec + `}`,
			`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","spec":{"spec":` + spec + `}}`}
	}
	exactly := func(fields string) []string {
		return claims(`{"devices":{"requests":[{"name":"ok","exactly":{"deviceClassName":"gpu.example.com"}},` +
			`{"name":"r","exactly":{` + fields + `}}]}}`)
	}
	pod := func(spec string) []string { return []string{`{"apiVersion":"v1","kind":"Pod","spec":{` + spec + `}}`} }
	const requests = `[{"name":"c","image":"i","resources":{"requests":{"`
	gpu := annotated{allowances.DeviceClasses: "gpu.example.com"}
	for _, c := range []struct {
		name   string
		bodies []string
		tenant annotated
		text   string // of the refusal, "" for none
	}{
		{"any class without the annotation", exactly(`"deviceClassName":"nic.example.com"`), nil, ""},
		{"a class of the list", exactly(`"deviceClassName":"gpu.example.com"`), gpu, ""},
		{"another class", exactly(`"deviceClassName":"nic.example.com"`), gpu, "requests[1].exactly.deviceClassName"},
		{"all", exactly(`"deviceClassName":"nic.example.com"`), annotated{allowances.DeviceClasses: "*"}, ""},
		{"another class as the second choice", claims(`{"devices":{"requests":[{"name":"r","firstAvailable":[` +
			`{"name":"a","deviceClassName":"gpu.example.com"},{"name":"b","deviceClassName":"nic.example.com"}]}]}}`),
			gpu,
			"requests[0].firstAvailable[1].deviceClassName"},
		{"administrator's access", exactly(`"deviceClassName":"gpu.example.com","adminAccess":true`), nil,
			"spec.allow.deviceAdminAccess"},
		{"administrator's access of a trusted tenant", exactly(`"deviceClassName":"gpu.example.com",` +
			`"adminAccess":true`),
			annotated{allowances.PodSecurity: "privileged"}, "spec.allow.deviceAdminAccess"},
		{"no administrator's access", exactly(`"deviceClassName":"gpu.example.com","adminAccess":false`), nil, ""},
		{"administrator's access that is allowed", exactly(`"deviceClassName":"gpu.example.com","adminAccess":true`),
			annotated{allowances.DeviceAdminAccess: "true"}, ""},
		{"administrator's access that is not", exactly(`"deviceClassName":"gpu.example.com","adminAccess":true`),
			annotated{allowances.DeviceAdminAccess: "false"}, "spec.allow.deviceAdminAccess"},
		{"every taint", exactly(`"deviceClassName":"gpu.example.com","tolerations":[{"operator":"Exists"}]`), nil,
			"tolerates every taint"},
		{"one taint", exactly(`"deviceClassName":"gpu.example.com","tolerations":[{"key":"x",` +
			`"operator":"Exists"}]`), nil, "tolerates the taint x"},
		{"one taint that is allowed", exactly(`"deviceClassName":"gpu.example.com","tolerations":[{"key":"x",` +
			`"operator":"Exists"}]`), annotated{allowances.Tolerations: "x"}, ""},
		{"a resource of a class", pod(`"containers":` + requests + `example.com/nic":1}}}]`),
			annotated{allowances.DeviceClasses: "nic.example.com"}, ""},
		{"a resource without the annotation", pod(`"containers":` + requests + `example.com/nic":1}}}]`), nil, ""},
		{"a resource of another class", pod(`"containers":` + requests + `example.com/nic":1}}}]`), gpu,
			"the DeviceClass nic.example.com"},
		{"a resource of two classes", pod(`"containers":` + requests + `example.com/gpu":1}}}]`), gpu,
			"the DeviceClass big.example.com"},
		{"a resource of an init container", pod(`"initContainers":` + requests + `example.com/nic":1}}}]`), gpu,
			"the DeviceClass nic.example.com"},
		{"a limit alone", pod(`"containers":[{"name":"c","image":"i","resources":{"limits":{"example.com/nic":1}}}]`),
			gpu,
			"the DeviceClass nic.example.com"},
		{"a resource that is called like a class",
			pod(`"containers":` + requests + `deviceclass.resource.kubernetes.io/nic.example.com":1}}}]`), gpu,
			"the DeviceClass nic.example.com"},
		{"a resource of no class", pod(`"containers":` + requests + `example.com/other":1}}}]`), gpu, ""},
	} {
		for _, body := range c.bodies {
			g := deviceGuard(t, c.tenant)
			object, kind, err := legacyscheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			now := internal(t, *kind, object)
			if p, ok := now.(*core.Pod); ok {
				p.Spec.SecurityContext = &core.PodSecurityContext{}
			}
			for _, byTenant := range []bool{true, false} {
				err := g.check(t.Context(), "t1", byTenant, update(t, *kind, now, nil, ""))
				if (err != nil) != (c.text != "") || err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s, %s: %v", c.name, kind.Kind, err)
				}
				again := update(t, *kind, now, now.DeepCopyObject(), "")
				if err := g.check(t.Context(), "t1", byTenant, again); err != nil {
					t.Errorf("%s, %s, which was there: %v", c.name, kind.Kind, err)
				}
			}
		}
	}
}

func TestAdminNamespaces(t *testing.T) {
	labelled := func(labels map[string]string) *core.Namespace {
		return &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n.t1", Labels: labels}}
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	is, was := map[string]string{"resource.kubernetes.io/admin-access": "true"},
		map[string]string{"resource.k8s.io/admin-access": "true"}
	for _, c := range []struct {
		name     string
		now, old *core.Namespace
		tenant   annotated
		refused  bool
	}{
		{"a new one", labelled(is), nil, nil, true},
		{"by the former name", labelled(was), nil, nil, true},
		{"an old one", labelled(is), labelled(nil), nil, true},
		{"whatever it says", labelled(map[string]string{"resource.kubernetes.io/admin-access": "no"}),
			labelled(nil), nil,
			true},
		{"one that has it", labelled(is), labelled(is), nil, false},
		{"one that loses it", labelled(nil), labelled(is), nil, false},
		{"one that may", labelled(is), nil, annotated{allowances.DeviceAdminAccess: "true"}, false},
		{"another label", labelled(map[string]string{"example.com/admin-access": "true"}), nil, nil, false},
	} {
		var old runtime.Object
		if c.old != nil {
			old = c.old
		}
		g := deviceGuard(t, c.tenant)
		if err := g.check(t.Context(), "t1", true, update(t, kind, c.now, old, "")); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := g.check(t.Context(), "t1", false, update(t, kind, c.now, old, "")); err != nil {
			t.Errorf("%s, by the system: %v", c.name, err)
		}
	}
}

// TestRequestsOfDevicesAreAllDecided fails when Kubernetes adds something to what a
// claim asks for, until somebody has decided whether it is an allowance.
func TestRequestsOfDevicesAreAllDecided(t *testing.T) {
	decided := map[string]string{
		"requests": "each is looked at", "constraints": "among devices of the claim",
		"config": "for the driver, which knows whose it is",
		"name":   "a name", "exactly": "looked at", "firstAvailable": "each is looked at",
		"deviceClassName": "an allowance", "adminAccess": "an allowance",
		"selectors": "among devices of the class", "tolerations": "looked at", "capacity": "of the device",
		"derivedAttributes": "of the device",
		"allocationMode":    "counted by the limits", "count": "counted by the limits",
	}
	used := map[string]bool{}
	for _, typ := range []reflect.Type{reflect.TypeFor[resourcev1.DeviceClaim](),
		reflect.TypeFor[resourcev1.DeviceRequest](), reflect.TypeFor[resourcev1.ExactDeviceRequest](),
		reflect.TypeFor[resourcev1.DeviceSubRequest]()} {
		for i := range typ.NumField() {
			name := jsonName(typ.Field(i))
			used[name] = true
			if decided[name] == "" {
				t.Errorf("%s of a %s is not decided", name, typ.Name())
			}
		}
	}
	for name := range decided {
		if !used[name] {
			t.Errorf("there is no %s any more", name)
		}
	}
}
