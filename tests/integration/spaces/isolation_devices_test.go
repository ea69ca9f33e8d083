package spaces_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plantDevices gives the tenant b a device, and makes classes of devices that all see.
func plantDevices(t *testing.T, p *plane, b *space) {
	t.Helper()
	for _, class := range []string{"gpu.example.com", "nic.example.com"} {
		post(t, p.Admin, deviceAPI+"deviceclasses", `{"metadata":{"name":"`+class+`"},"spec":{"extendedResourceName":`+
			`"example.com/`+class[:3]+`"}}`)
	}
	post(t, p.Admin, deviceAPI+"resourceslices", `{"metadata":{"name":"n1"},"spec":{"driver":"gpu.example.com",`+
		`"nodeName":"n1","pool":{"name":"n1","generation":1,"resourceSliceCount":1},`+
		`"devices":[{"name":"d0"},{"name":"d1"}]}}`)
	post(t, b.config, ownClaims, claimBody("web", claimOf("gpu.example.com", "")))
	code, answer := do(t, p.Admin, http.MethodPatch, deviceAPI+"namespaces/default.b/resourceclaims/web/status",
		`{"status":{"allocation":`+stolen("d0")+`}}`, []string{asMergePatch})
	if code != http.StatusOK {
		t.Fatalf("the allocation of b: %d %s", code, answer)
	}
}

// keepsDevices looks at who has devices: b has its own, and nobody else any.
func keepsDevices(t *testing.T, p *plane) {
	t.Helper()
	claims, err := p.admin.ResourceV1().ResourceClaims("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own, others := 0, 0
	for i := range claims.Items {
		claim := &claims.Items[i]
		has := claim.Status.Allocation != nil && len(claim.Status.Allocation.Devices.Results) > 0
		switch {
		case claim.Namespace == "default.b" && claim.Name == "web":
			own++
			if !has || claim.Status.Allocation.Devices.Results[0].Device != "d0" {
				t.Errorf("the device of b is not b's any more: %+v", claim.Status)
			}
		case has || len(claim.Status.ReservedFor)+len(claim.Status.Devices) > 0:
			t.Errorf("%s/%s has a device: %+v", claim.Namespace, claim.Name, claim.Status)
		default:
			others++
		}
		for _, r := range claim.Spec.Devices.Requests {
			if r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess {
				t.Errorf("%s/%s has administrator's access", claim.Namespace, claim.Name)
			}
		}
	}
	templates, err := p.admin.ResourceV1().ResourceClaimTemplates("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range templates.Items {
		for _, r := range template.Spec.Spec.Devices.Requests {
			if r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess {
				t.Errorf("the template %s/%s has administrator's access", template.Namespace, template.Name)
			}
		}
	}
	if own != 1 {
		t.Errorf("%d claims of b are there", own)
	}
	t.Logf("%d claims have no device", others)
}

// devices wants those of others: by the status of a claim, as an administrator, by
// templates and pods, or to let b lose its own.
func (g *attacker) devices(r *attack) (path string) {
	claims := "namespaces/" + pick(g, "default", "default", "default", "default.b", "kube-system") + "/resourceclaims"
	named := "/" + pick(g, "web", "web", "web", "web.b", "n"+strconv.Itoa(g.rand.IntN(8)))
	request := pick(g, claimOf("gpu.example.com", ""), claimOf("gpu.example.com", `,"adminAccess":true`),
		claimOf("gpu.example.com", `,"allocationMode":"All"`),
		claimOf("nic.example.com", `,"tolerations":[{"operator":"Exists"}]`),
		`{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"a","deviceClassName":"gpu.example.com",`+
			`"adminAccess":true}]}]}}`)
	meta := `{"metadata":{"name":"` + named[1:] + `"},`
	allocation := `"allocation":` + pick(g, stolen("d0"), stolen("d1"), "null", "{}",
		strings.Replace(stolen("d0"), `"device"`, `"adminAccess":true,"device"`, 1))
	status := `"status":{` + pick(g, allocation, allocation, allocation+
		`,"reservedFor":[{"resource":"pods","name":"web",`+
		`"uid":"1"}]`, `"reservedFor":null`, `"devices":[{"driver":"gpu.example.com","pool":"n1","device":"d0",`+
		`"networkData":{"ips":["10.42.0.8/32"]}}]`, `"devices":null`) + `}`
	switch g.rand.IntN(7) {
	case 0:
		r.body = meta + pick(g, "", status+",") + `"spec":` + request + `}`
		return deviceAPI + claims
	case 1:
		r.body = meta + `"spec":{"spec":` + request + `}}`
		return deviceAPI + claims + "templates"
	case 2:
		r.method, r.body = http.MethodPatch, `{"metadata":{"labels":{"`+pick(g, "resource.kubernetes.io/admin-access",
			"resource.k8s.io/admin-access")+`":"true"}}}`
		r.header.Set("Content-Type", "application/merge-patch+json")
		return "/api/v1/namespaces/" + pick(g, "default", "default", "default.b")
	case 3:
		r.body = `{"metadata":{"name":"dev` + strconv.Itoa(g.rand.IntN(8)) + `"},"spec":{"schedulerName":"nobody",` +
			`"resourceClaims":[{"name":"r","` + pick(g, "resourceClaimName", "resourceClaimTemplateName") + `":"` +
			named[1:] + `"}],"containers":[{"name":"c","image":"i","resources":{"limits":{"` + pick(g,
			"example.com/gpu",
			"deviceclass.resource.kubernetes.io/gpu.example.com") + `":"1"}}}]}}`
		return "/api/v1/namespaces/default/pods"
	default:
		r.method = pick(g, http.MethodPatch, http.MethodPatch, http.MethodPut)
		sub := pick(g, "/status", "/status", "/status", "", "/binding", "/driver")
		switch media := pick(g, "application/merge-patch+json", "application/json-patch+json",
			"application/strategic-merge-patch+json", "application/apply-patch+yaml"); {
		case r.method == http.MethodPut:
			r.body = meta + `"spec":` + claimOf("gpu.example.com", "") + `,` + status + `}`
		case media == "application/json-patch+json":
			r.header.Set("Content-Type", media)
			r.body = `[{"op":"` + pick(g, "add", "replace", "remove") + `","path":"/status/` + pick(g, "allocation",
				"reservedFor", "allocation/devices/results/0/device") + `","value":` + pick(g, stolen("d0"),
				`"d1"`) + `}]`
		default:
			r.header.Set("Content-Type", media)
			r.body = `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim",` + meta[1:] + status + `}`
			if media == "application/apply-patch+yaml" {
				sub += "?fieldManager=x&force=true"
			}
		}
		return deviceAPI + claims + named + sub
	}
}
