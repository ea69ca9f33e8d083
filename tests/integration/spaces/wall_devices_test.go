package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

const (
	deviceAPI      = "/apis/resource.k8s.io/v1/"
	ownClaims      = deviceAPI + "namespaces/default/resourceclaims"
	claimTemplates = deviceAPI + "namespaces/default/resourceclaimtemplates"
	asMergePatch   = "Content-Type: application/merge-patch+json"
)

// deviceNode is a machine with devices d0, d1, ... of a driver, and a class of them
// that pods have as a resource, too.
func (p *plane) deviceNode(t *testing.T, devices int) {
	t.Helper()
	p.machine(t, "n1")
	var list []string
	for i := range devices {
		list = append(list, fmt.Sprintf(`{"name":"d%d"}`, i))
	}
	post(t, p.Admin, deviceAPI+"resourceslices", `{"metadata":{"name":"n1"},"spec":{"driver":"gpu.example.com",`+
		`"nodeName":"n1","pool":{"name":"n1","generation":1,"resourceSliceCount":1},"devices":[`+
		strings.Join(list, ",")+`]}}`)
	for class, extended := range map[string]string{"gpu.example.com": "example.com/gpu",
		"nic.example.com": "example.com/nic"} {
		post(t, p.Admin, deviceAPI+"deviceclasses", `{"metadata":{"name":"`+class+
			`"},"spec":{"extendedResourceName":"`+
			extended+`","selectors":[{"cel":{"expression":"device.driver == '`+class+`'"}}]}}`)
	}
}

func claimOf(class, fields string) string {
	return `{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"` + class + `"` + fields + `}}]}}`
}

func claimBody(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

// claimer is a pod that wants a claim.
func claimer(name, claim string) *corev1.Pod {
	pod := simplePod(name)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &claim}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "r"}}
	return pod
}

// allocated waits until a claim is, and tells the device.
func (s *space) allocated(t *testing.T, claim string) (device string) {
	t.Helper()
	eventually(t, "the claim "+claim+" of "+s.name+" to be allocated", func(ctx context.Context) (bool, error) {
		got, err := s.client.ResourceV1().ResourceClaims("default").Get(ctx, claim, metav1.GetOptions{})
		if err != nil || got.Status.Allocation == nil || len(got.Status.Allocation.Devices.Results) == 0 {
			return false, err
		}
		device = got.Status.Allocation.Devices.Results[0].Device
		return true, nil
	})
	return device
}

// stolen is an allocation of a device.
func stolen(device string) string {
	return `{"devices":{"results":[{"request":"r","driver":"gpu.example.com","pool":"n1","device":"` + device +
		`"}]},` +
		`"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In",` +
		`"values":["n1"]}]}]}}`
}

// TestWallW1ClaimStatus: the status of a claim of devices is the system's, in every
// encoding and by every way.
func TestWallW1ClaimStatus(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.bareTenant(t, "a"), p.bareTenant(t, "b")
	p.deviceNode(t, 2)
	ctx := t.Context()

	post(t, b.config, ownClaims, claimBody("theirs", claimOf("gpu.example.com", "")))
	if _, err := b.client.CoreV1().Pods("default").Create(ctx, claimer("web", "theirs"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	device := b.allocated(t, "theirs")

	const path = ownClaims + "/stolen"
	// A status that comes with a new claim is nobody's.
	post(t, a.config, ownClaims, `{"metadata":{"name":"stolen"},"spec":`+claimOf("gpu.example.com", "")+
		`,"status":{"allocation":`+stolen(device)+`}}`)
	apply := func(body string) string {
		return `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"stolen"},` + body + `}`
	}
	if code, answer := do(t, a.config, http.MethodPatch, path+"?fieldManager=x&force=true", apply(`"spec":`+
		claimOf("gpu.example.com", "")+`,"status":{"allocation":`+stolen(device)+`}`),
		[]string{"Content-Type: application/apply-patch+yaml"}); code != http.StatusOK {
		t.Errorf("applying a claim with a status: %d %.300s", code, answer)
	}
	unallocated := func() {
		t.Helper()
		claim, err := a.client.ResourceV1().ResourceClaims("default").Get(ctx, "stolen", metav1.GetOptions{})
		if err != nil || claim.Status.Allocation != nil && len(claim.Status.Allocation.Devices.Results) > 0 ||
			len(claim.Status.ReservedFor)+len(claim.Status.Devices) > 0 {
			t.Errorf("the claim of a has the status %+v, %v", claim.Status, err)
		}
	}
	unallocated()
	allocation := `{"status":{"allocation":` + stolen(device) + `}}`
	for _, version := range []string{"v1", "v1beta2", "v1beta1"} {
		path := strings.Replace(path, "v1", version, 1)
		for media, body := range map[string]string{
			"application/merge-patch+json":           allocation,
			"application/strategic-merge-patch+json": allocation,
			"application/json-patch+json": `[{"op":"add","path":"/status/allocation","value":` + stolen(device) +
				`}]`,
			"application/apply-patch+yaml": strings.Replace(apply(allocation[1:len(allocation)-1]), "k8s.io/v1",
				"k8s.io/"+version, 1),
		} {
			query := ""
			if media == "application/apply-patch+yaml" {
				query = "?fieldManager=x&force=true"
			}
			code, answer := do(t, a.config, http.MethodPatch, path+"/status"+query, body,
				[]string{"Content-Type: " + media})
			if version != "v1" && code == http.StatusNotFound {
				continue // a version that is not served
			}
			if code != http.StatusForbidden || !strings.Contains(answer,
				"status.allocation is written by the system only") {
				t.Errorf("%s of %s: %d %.400s", media, version, code, answer)
			}
		}
	}
	unallocated()
	testWallW1Typed(t, a, device)
	unallocated()
	testWallW1Reviews(t, a)
	testWallW1Honest(t, p, a, b, device)
	unallocated()
}

// testWallW1Typed writes by a client that speaks protobuf.
func testWallW1Typed(t *testing.T, a *space, device string) {
	cfg := rest.CopyConfig(a.config)
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	claims := client.ResourceV1().ResourceClaims("default")
	for name, change := range map[string]func(*resourcev1.ResourceClaimStatus){
		"status.allocation": func(s *resourcev1.ResourceClaimStatus) {
			s.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com",
					Pool:   "n1",
					Device: device}}}}
		},
		"status.reservedFor": func(s *resourcev1.ResourceClaimStatus) {
			s.Allocation = &resourcev1.AllocationResult{}
			s.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "1"}}
		},
	} {
		claim, err := claims.Get(t.Context(), "stolen", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(&claim.Status)
		if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), name+" is written by the system only") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testWallW1Reviews asks what upstream asks besides. About binding the roles decide, as in a
// request; what would be bound, admission does.
func testWallW1Reviews(t *testing.T, a *space) {
	for sub, verbs := range map[string][]string{"binding": {"update", "patch"},
		"driver": {"associated-node:update", "arbitrary-node:update", "arbitrary-node:patch"}} {
		for _, verb := range verbs {
			for _, ns := range []string{"", "default"} {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "resource.k8s.io",
						Resource: "resourceclaims", Subresource: sub, Verb: verb, Namespace: ns}}}
				got, err := a.client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review,
					metav1.CreateOptions{})
				if err != nil || got.Status.Allowed != (sub == "binding") {
					t.Errorf("%s of resourceclaims/%s: %+v, %v", verb, sub, got.Status, err)
				}
			}
		}
	}
}

// testWallW1Honest: what people and the system do with claims goes on.
func testWallW1Honest(t *testing.T, p *plane, a, b *space, device string) {
	ctx := t.Context()
	// A policy of the tenant is not asked about what the scheduler writes.
	a.changes(t, "resource.k8s.io:resourceclaims/status", "Object{status: Object.status{allocation: "+
		"Object.status.allocation{devices: Object.status.allocation.devices{results: []}}}}")
	a.marker(t)
	post(t, a.config, ownClaims, claimBody("mine", claimOf("gpu.example.com", "")))
	if _, err := a.client.CoreV1().Pods("default").Create(ctx, claimer("web", "mine"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := a.allocated(t, "mine"); got == device {
		t.Errorf("a and b have the device %s", got)
	}
	// A driver says how a device is.
	code, answer := do(t, p.Admin, http.MethodPatch, deviceAPI+"namespaces/default.b/resourceclaims/theirs/status",
		`{"status":{"devices":[{"driver":"gpu.example.com","pool":"n1","device":"`+device+`","conditions":[`+
			`{"type":"Ready","status":"True","reason":"X","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`+
			`]}]}}`,
		[]string{asMergePatch})
	if code != http.StatusOK {
		t.Errorf("a driver writes status.devices: %d %.300s", code, answer)
	}
	// The tenant does not.
	if code, answer := do(t, b.config, http.MethodPatch, ownClaims+"/theirs/status", `{"status":{"devices":null}}`,
		[]string{asMergePatch}); code < http.StatusBadRequest {
		t.Errorf("the tenant removes status.devices: %d %.300s", code, answer)
	}
	for _, body := range []string{`{"status":{"allocation":null}}`, `{"status":{"reservedFor":null}}`} {
		if code, answer := do(t, b.config, http.MethodPatch, ownClaims+"/theirs/status", body,
			[]string{asMergePatch}); code < http.StatusBadRequest {
			t.Errorf("the tenant gives a device back that is in use by %s: %d %.300s", body, code, answer)
		}
	}
	if got := b.allocated(t, "theirs"); got != device {
		t.Errorf("b had %s and has %s", device, got)
	}
	// As upstream's conformance test does, which gives nobody anything.
	post(t, b.config, ownClaims, claimBody("empty", claimOf("gpu.example.com", "")))
	if code, answer := do(t, b.config, http.MethodPatch, ownClaims+"/empty/status", `{"status":{"allocation":{}}}`,
		[]string{asMergePatch}); code != http.StatusOK || !strings.Contains(answer, `"allocation":{`) {
		t.Errorf("an allocation of nothing: %d %.300s", code, answer)
	}
	if code, answer := do(t, b.config, http.MethodPatch, ownClaims+"/theirs", `{"metadata":{"labels":{"a":"b"}}}`,
		[]string{asMergePatch}); code != http.StatusOK {
		t.Errorf("a label on a claim: %d %.300s", code, answer)
	}
}

// TestWallW2AdminAccess: administrator's access, classes and the number of devices
// are allowances, by whatever way they are asked for.
func TestWallW2AdminAccess(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	p.deviceNode(t, 4)
	const admin = `,"adminAccess":true`
	label := `{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}`
	namespace := func(code int) {
		t.Helper()
		eventually(t, "the label of a namespace", func(context.Context) (bool, error) {
			got, answer := do(t, a.config, http.MethodPatch, "/api/v1/namespaces/default?dryRun=All", label,
				[]string{asMergePatch})
			if got != code && got != http.StatusForbidden && got != http.StatusOK {
				return false, fmt.Errorf("%d %s", got, answer)
			}
			return got == code, nil
		})
	}
	namespace(http.StatusForbidden)
	if code, answer := do(t, a.config, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"n",`+
		label[len(`{"metadata":{`):], nil); code != http.StatusForbidden {
		t.Errorf("a new namespace: %d %.300s", code, answer)
	}
	// Where an administrator of the cluster has labelled it, a claim needs the allowance, too.
	if code, answer := do(t, p.Admin, http.MethodPatch, "/api/v1/tenants/a/namespaces/default", label,
		[]string{asMergePatch}); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	spec := claimOf("gpu.example.com", admin)
	makes := func(code int, what string) {
		t.Helper()
		for path, body := range map[string]string{ownClaims: claimBody("x", spec),
			claimTemplates: claimBody("x", `{"spec":`+spec+`}`)} {
			eventually(t, path+" "+what, func(context.Context) (bool, error) {
				got, answer := do(t, a.config, http.MethodPost, path+"?dryRun=All", body, nil)
				if got == http.StatusForbidden &&
					!strings.Contains(answer, allowances.Field(allowances.DeviceAdminAccess)) ||
					got != http.StatusForbidden && got != http.StatusCreated {
					return false, fmt.Errorf("%d %s", got, answer)
				}
				return got == code, nil
			})
		}
	}
	makes(http.StatusForbidden, "without an allowance")
	p.allow(t, "a", allowances.PodSecurity, "privileged")
	makes(http.StatusForbidden, "of a trusted tenant without an allowance")
	p.disallow(t, "a", allowances.PodSecurity)
	p.allow(t, "a", allowances.DeviceAdminAccess, "true")
	makes(http.StatusCreated, "with it")
	namespace(http.StatusOK)
	p.disallow(t, "a", allowances.DeviceAdminAccess)
	makes(http.StatusForbidden, "without it again")

	t.Run("classes", func(t *testing.T) { testWallW2Classes(t, p, a) })
	t.Run("limits", func(t *testing.T) { testWallW2Limits(t, p, p.bareTenant(t, "c")) })
}

func testWallW2Classes(t *testing.T, p *plane, a *space) {
	pod := func(resource string) string {
		return `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"` +
			resource +
			`":"1"}}}]}}`
	}
	const pods = "/api/v1/namespaces/default/pods"
	nic := claimOf("nic.example.com", "")
	ways := []struct{ path, body string }{
		{ownClaims, claimBody("x", nic)},
		{claimTemplates, claimBody("x", `{"spec":`+nic+`}`)},
		{ownClaims, claimBody("x", `{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"a",`+
			`"deviceClassName":"gpu.example.com"},{"name":"b","deviceClassName":"nic.example.com"}]}]}}`)},
		{pods, pod("example.com/nic")},
		{pods, pod("deviceclass.resource.kubernetes.io/nic.example.com")},
	}
	each := func(code int, what string) {
		t.Helper()
		for _, way := range ways {
			last := ""
			eventually(t, what+": "+way.path+" "+way.body, func(context.Context) (bool, error) {
				got, answer := do(t, a.config, http.MethodPost, way.path+"?dryRun=All", way.body, nil)
				last = answer
				return got == code && (code != http.StatusForbidden || strings.Contains(answer,
					"nic.example.com")), nil
			})
			if t.Failed() {
				t.Log(last)
			}
		}
	}
	each(http.StatusCreated, "without an annotation all classes are there")
	p.allow(t, "a", allowances.DeviceClasses, "gpu.example.com")
	each(http.StatusForbidden, "another class")
	if code, answer := do(t, a.config, http.MethodPost, ownClaims+"?dryRun=All", claimBody("x",
		claimOf("gpu.example.com", "")), nil); code != http.StatusCreated {
		t.Errorf("a class of the list: %d %.300s", code, answer)
	}
	// What a controller makes of a template is judged as well.
	d := deployment("web")
	d.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/nic": quantity("1")}
	if _, err := a.client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.says(t, "FailedCreate", "the DeviceClass nic.example.com")
	p.allow(t, "a", allowances.DeviceClasses, "nic.example.com,gpu.example.com")
	each(http.StatusCreated, "classes of the list")
	p.disallow(t, "a", allowances.DeviceClasses)
}

// says waits for an event.
func (s *space) says(t *testing.T, reason, text string) {
	t.Helper()
	eventually(t, "the event "+reason+" about "+text, func(ctx context.Context) (bool, error) {
		events, err := s.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return true, nil
			}
		}
		return false, nil
	})
}

func testWallW2Limits(t *testing.T, p *plane, c *space) {
	ctx := t.Context()
	used := func(want int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d devices to be used", want), func(context.Context) (bool, error) {
			u := p.usage(t, "c", "devices.gpu.example.com")
			return u.Used.Value() == want && (u.Limit == nil || u.Limit.Value() == 2), nil
		})
	}
	post(t, c.config, ownClaims, claimBody("one", claimOf("gpu.example.com", "")))
	used(1)
	p.bounded(t, "c", `{"devices":{"gpu.example.com":2}}`)
	// All at once: one more has room.
	var made atomic.Int64
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("at-once-%d", i)}}
			claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r",
				Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
			_, err := c.client.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{})
			switch {
			case err == nil:
				made.Add(1)
			case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded limit of the tenant: "+
				"devices.gpu.example.com, requested: 1, used: 2, limited: 2"):
				t.Errorf("past the limit: %v", err)
			}
		})
	}
	group.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("%d claims were made at once, one had room", n)
	}
	used(2)
	for name, spec := range map[string]string{
		"all of them": claimOf("gpu.example.com", `,"allocationMode":"All"`),
		"the first of two": `{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"a","deviceClassName":` +
			`"nic.example.com"},{"name":"b","deviceClassName":"gpu.example.com"}]}]}}`,
	} {
		if code, answer := do(t, c.config, http.MethodPost, ownClaims, claimBody("x", spec),
			nil); code != http.StatusForbidden || !strings.Contains(answer, "gpu.example.com") {
			t.Errorf("%s: %d %.300s", name, code, answer)
		}
	}
	// What is there can be changed, and what is not bounded be had.
	if code, answer := do(t, c.config, http.MethodPatch, ownClaims+"/one", `{"metadata":{"labels":{"a":"b"}}}`,
		[]string{asMergePatch}); code != http.StatusOK {
		t.Errorf("a label: %d %.300s", code, answer)
	}
	post(t, c.config, ownClaims, claimBody("other", claimOf("nic.example.com", `,"count":5`)))
	// A claim by a template, and one for a resource of a pod.
	post(t, c.config, claimTemplates, claimBody("by-template", `{"spec":`+claimOf("gpu.example.com", "")+`}`))
	templated := claimer("templated", "")
	templated.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "r",
		ResourceClaimTemplateName: new("by-template")}
	extended := simplePod("extended")
	extended.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": quantity("1")}
	for _, pod := range []*corev1.Pod{templated, extended} {
		if _, err := c.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.says(t, "FailedResourceClaimCreation", "devices.gpu.example.com")
	c.says(t, "FailedScheduling", "devices.gpu.example.com")
	used(2)
	if err := c.client.CoreV1().Pods("default").Delete(ctx, "templated", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	// A device less, and the pod gets it.
	if err := c.client.ResourceV1().ResourceClaims("default").Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod to get a device by its resource", func(ctx context.Context) (bool, error) {
		pod, err := c.client.CoreV1().Pods("default").Get(ctx, "extended", metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "" && pod.Status.ExtendedResourceClaimStatus != nil, err
	})
	used(2)
}

// TestWallW17PriorityOfGroups: with the gate on that is off today, groups of pods
// have the priorities that pods may have, and no others.
func TestWallW17PriorityOfGroups(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, func(cfg *config.Server) {
		cfg.KubeAPIServerArgs = []string{"feature-gates=GenericWorkload=true",
			"runtime-config=scheduling.k8s.io/v1beta1=true"}
	})
	post(t, p.Admin, "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"high"},"value":1000}`)
	a := p.bareTenant(t, "a")
	const api = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/"
	group := `"schedulingPolicy":{"gang":{"minCount":2}}`
	bodies := func(priority string) map[string]string {
		return map[string]string{
			"podgroups": `{"metadata":{"name":"x"},"spec":{` + priority + group + `}}`,
			"workloads": `{"metadata":{"name":"x"},"spec":{"podGroupTemplates":[{"name":"g",` + priority + group +
				`}]}}`,
		}
	}
	each := func(priority string, code int, text string) {
		t.Helper()
		for resource, body := range bodies(priority) {
			last := ""
			eventually(t, fmt.Sprintf("%d for %s with %s", code, resource, priority), func(context.Context) (bool,
				error) {
				got, answer := do(t, a.config, http.MethodPost, api+resource+"?dryRun=All", body, nil)
				if last = answer; got >= http.StatusInternalServerError || got == http.StatusNotFound {
					return false, fmt.Errorf("%d %s", got, answer)
				}
				return got == code && strings.Contains(answer, text), nil
			})
			if t.Failed() {
				t.Log(last)
			}
		}
	}
	each("", http.StatusCreated, "")
	each(`"priorityClassName":"high",`, http.StatusForbidden, allowances.Field(allowances.PriorityClasses))
	for resource, body := range bodies(`"priorityClassName":"system-node-critical",`) {
		// Upstream itself finds the number of a PodGroup too high.
		if code, answer := do(t, a.config, http.MethodPost, api+resource+"?dryRun=All", body, nil); code !=
			http.StatusForbidden && code != http.StatusUnprocessableEntity {
			t.Errorf("%s of the cluster's own priority: %d %.300s", resource, code, answer)
		}
	}
	p.allow(t, "a", allowances.PriorityClasses, "high")
	each(`"priorityClassName":"high",`, http.StatusCreated, "")
	p.disallow(t, "a", allowances.PriorityClasses)
	each(`"priorityClassName":"high",`, http.StatusForbidden, "")
	// Whoever makes it for the tenant.
	eventually(t, "an administrator of the cluster to be judged alike", func(context.Context) (bool, error) {
		code, _ := do(t, p.Admin, http.MethodPost, strings.Replace(api, "default", "default.a", 1)+
			"podgroups?dryRun=All",
			bodies(`"priorityClassName":"high",`)["podgroups"], nil)
		return code == http.StatusForbidden, nil
	})
	// The conditions of a group are the tenant's.
	post(t, a.config, api+"podgroups", bodies("")["podgroups"])
	if code, answer := do(t, a.config, http.MethodPatch, api+"podgroups/x/status",
		`{"status":{"conditions":[{"type":"PodGroupInitiallyScheduled","status":"False","reason":"Unschedulable",`+
			`"message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		[]string{asMergePatch}); code != http.StatusOK {
		t.Errorf("a condition of a group: %d %.300s", code, answer)
	}
}
