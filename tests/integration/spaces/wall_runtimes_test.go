package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

const (
	inPods   = "/api/v1/namespaces/default/pods"
	inClaims = "/api/v1/namespaces/default/persistentvolumeclaims"
	asDryRun = "?dryRun=All"
)

// podBody is a pod with some more of its metadata and of its spec, each of which is
// empty or ends in a comma.
func podBody(meta, spec string) string {
	return `{"metadata":{` + meta + `"generateName":"x-"},"spec":{` + spec +
		`"containers":[{"name":"c","image":"i"}]}}`
}

// typedAs is the metadata of a pod with the annotation of a type.
func typedAs(name string) string {
	return `"annotations":{"` + workload.Annotation + `":"` + name + `"},`
}

// holds sets an allowance, "" for none, and waits until the API server knows it.
func (p *plane) holds(t *testing.T, s *space, key, value string, known func() bool) {
	t.Helper()
	if value == "" {
		p.disallow(t, s.name, key)
	} else {
		p.allow(t, s.name, key, value)
	}
	eventually(t, key+"="+value+" to hold", func(context.Context) (bool, error) { return known(), nil })
}

// makesPod tries to make a pod, and what comes of it.
func (s *space) makesPod(t *testing.T, query, body string) (code int, answer string, pod *corev1.Pod) {
	t.Helper()
	code, answer = do(t, s.config, http.MethodPost, inPods+query, body, nil)
	pod = &corev1.Pod{}
	if code == http.StatusCreated {
		if err := json.Unmarshal([]byte(answer), pod); err != nil {
			t.Fatal(err)
		}
	}
	return code, answer, pod
}

func classOf(pod *corev1.Pod) string {
	if pod.Spec.RuntimeClassName == nil {
		return ""
	}
	return *pod.Spec.RuntimeClassName
}

// TestWallW6RuntimeClasses: a list of runtime classes holds for a pod that names none
// and for one that says its type by annotation, and a machine is charged for however
// it was asked for.
func TestWallW6RuntimeClasses(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	for _, class := range []string{
		`{"metadata":{"name":"heavy","annotations":{"` + workload.Annotation + `":"vm"}},"handler":"heavy",` +
			`"overhead":{"podFixed":{"memory":"300Mi"}}}`,
		`{"metadata":{"name":"boxed"},"handler":"runsc"}`,
		`{"metadata":{"name":"gpu","annotations":{"` + workload.TenantsAnnotation + `":"` + workload.TenantsListed +
			`"}},"handler":"nvidia"}`,
	} {
		post(t, p.Admin, "/apis/node.k8s.io/v1/runtimeclasses", class)
	}
	s := p.bareTenant(t, "t1")
	plain := podBody("", "")
	named := func(class string) string { return podBody("", `"runtimeClassName":"`+class+`",`) }
	both := func(class, annotation string) string {
		return podBody(typedAs(annotation), `"runtimeClassName":"`+class+`",`)
	}
	type row struct{ body, class, refused string }
	for _, c := range []struct {
		level, value string
		rows         []row
	}{
		{"", "", []row{
			{plain, "", ""}, {named("boxed"), "boxed", ""}, {podBody(typedAs("vm"), ""), "vm", ""},
			{podBody(typedAs("container"), ""), "", ""}, {both("heavy", "vm"), "heavy", ""},
			{podBody(typedAs("unikernel"), ""), "", "unknown workload type"},
			{both("vm", "container"), "", "contradict each other"}, {both("boxed", "vm"), "", "contradict each other"},
			{named("gpu"), "", "is for tenants whose list of RuntimeClasses names it"},
		}},
		{"", "vm", []row{
			{plain, "vm", ""}, {podBody(typedAs("vm"), ""), "vm", ""}, {named("vm"), "vm", ""},
			{podBody(typedAs("container"), ""), "", "none of the RuntimeClasses of this space (vm) is of the type " +
				"container"},
			{named("container"), "", "is not one of this space's: vm"}, {named("heavy"), "",
				"is not one of this space's"},
			{both("heavy", "vm"), "", "is not one of this space's"}, {named("gpu"), "", "is not one of this space's"},
		}},
		{"", "container", []row{
			{plain, "container", ""}, {podBody(typedAs("vm"), ""), "", "none of the RuntimeClasses"},
			{podBody(typedAs("container"), ""), "container", ""}, {named("vm"), "", "is not one of this space's"},
		}},
		{"", "boxed, heavy", []row{
			{plain, "boxed", ""}, {podBody(typedAs("vm"), ""), "heavy", ""},
			{podBody(typedAs("container"), ""), "boxed", ""},
		}},
		{"", "container,gpu", []row{{plain, "container", ""}, {named("gpu"), "gpu", ""}}},
		{"", "*", []row{{plain, "", ""}, {podBody(typedAs("vm"), ""), "vm", ""}, {named("heavy"), "heavy", ""},
			{named("gpu"), "gpu", ""}}},
		{"privileged", "vm", []row{{plain, "vm", ""}, {named("container"), "", "is not one of this space's"}}},
	} {
		p.holds(t, s, allowances.PodSecurity, c.level, func() bool {
			code, _, _ := s.makesPod(t, asDryRun, podBody("", `"hostNetwork":true,`+"\"runtimeClassName\":\"vm\","))
			return (code == http.StatusCreated) == (c.level == "privileged")
		})
		p.holds(t, s, allowances.RuntimeClasses, c.value, func() bool {
			_, _, pod := s.makesPod(t, asDryRun, plain)
			return classOf(pod) == c.rows[0].class
		})
		for _, r := range c.rows {
			code, answer, pod := s.makesPod(t, asDryRun, r.body)
			if r.refused != "" {
				if code != http.StatusForbidden || !strings.Contains(answer, r.refused) {
					t.Errorf("%q: %s: %d %.400s, want %s", c.value, r.body, code, answer, r.refused)
				}
				continue
			}
			if code != http.StatusCreated || classOf(pod) != r.class {
				t.Errorf("%q: %s: %d, the class %q, want %q: %.300s", c.value, r.body, code, classOf(pod), r.class,
					answer)
			}
			overhead := map[string]string{"vm": "192Mi", "heavy": "300Mi"}[r.class]
			if got := pod.Spec.Overhead.Memory(); overhead != "" && got.Cmp(quantity(overhead)) != 0 {
				t.Errorf("%q: %s: the overhead is %s, want %s", c.value, r.body, got, overhead)
			}
		}
	}
	p.holds(t, s, allowances.PodSecurity, "", func() bool { return true })
	p.holds(t, s, allowances.RuntimeClasses, "", func() bool {
		_, _, pod := s.makesPod(t, asDryRun, plain)
		return classOf(pod) == ""
	})
	testTypeOfAPodStays(t, p, s)
}

// testTypeOfAPodStays: a machine counts with its overhead, and nobody makes one of a
// pod that is there by writing the annotation later, by whatever subresource, or by
// a policy of the tenant.
func testTypeOfAPodStays(t *testing.T, p *plane, s *space) {
	pod := func(name, meta string) {
		t.Helper()
		body := `{"metadata":{` + meta + `"name":"` + name + `"},"spec":{"schedulerName":"nobody","containers":` +
			`[{"name":"c","image":"i","resources":{"limits":{"memory":"1Mi"}}}]}}`
		if code, answer := do(t, s.config, http.MethodPost, inPods, body, nil); code != http.StatusCreated {
			t.Fatalf("%s: %d %.300s", name, code, answer)
		}
	}
	pod("machine", typedAs("vm"))
	eventually(t, "the machine to be charged for", func(context.Context) (bool, error) {
		u := p.usage(t, s.name, "memory")
		return u.Used.Cmp(quantity("193Mi")) == 0, nil
	})
	pod("plain", "")
	const merge = "Content-Type: application/merge-patch+json"
	change := `{"metadata":{"annotations":{"` + workload.Annotation + `":%s}}}`
	patch := func(path, value string) (int, string) {
		return do(t, s.config, http.MethodPatch, inPods+path, strings.ReplaceAll(change, "%s", value), []string{merge})
	}
	for _, path := range []string{"/plain", "/plain/status"} {
		if code, answer := patch(path, `"vm"`); code != http.StatusForbidden || !strings.Contains(answer, "new pod") {
			t.Errorf("%s: %d %.300s", path, code, answer)
		}
	}
	// They write nothing of the metadata.
	patch("/plain/ephemeralcontainers", `"vm"`)
	patch("/plain/resize", `"vm"`)
	got, err := s.client.CoreV1().Pods("default").Get(t.Context(), "plain", metav1.GetOptions{})
	if err != nil || got.Annotations[workload.Annotation] != "" {
		t.Errorf("the pod is of the type %q, %v", got.Annotations[workload.Annotation], err)
	}
	if code, answer := patch("/machine", `"container"`); code != http.StatusForbidden ||
		!strings.Contains(answer, "contradict") {
		t.Errorf("a machine that is none any more: %d %.300s", code, answer)
	}
	if code, answer := patch("/machine", "null"); code != http.StatusOK {
		t.Errorf("a machine by its class alone: %d %.300s", code, answer)
	}
	if code, answer := do(t, s.config, http.MethodPatch, inPods+"/plain", `{"metadata":{"labels":{"a":"b"}}}`,
		[]string{merge}); code != http.StatusOK {
		t.Errorf("another change: %d %.300s", code, answer)
	}
	s.mutates(t, "pods", "true", `Object{metadata: Object.metadata{annotations: {'`+workload.Annotation+`': 'vm'}}}`)
	eventually(t, "a policy to make machines, which are charged for", func(context.Context) (bool, error) {
		_, _, pod := s.makesPod(t, asDryRun, podBody("", ""))
		if pod.Annotations[workload.Annotation] == "" {
			return false, nil
		}
		if classOf(pod) != "vm" || pod.Spec.Overhead.Memory().Cmp(quantity("192Mi")) != 0 {
			t.Fatalf("a policy has made a machine with the class %q and the overhead %v", classOf(pod),
				pod.Spec.Overhead)
		}
		return true, nil
	})
	p.holds(t, s, allowances.RuntimeClasses, "container", func() bool {
		code, answer, _ := s.makesPod(t, asDryRun, podBody("", ""))
		return code == http.StatusForbidden && strings.Contains(answer, "contradict")
	})
}

// mutates has a policy of the tenant change new objects, by an object to apply or by a
// list of patches.
func (s *space) mutates(t *testing.T, resource, condition, change string) {
	t.Helper()
	how := `"patchType":"ApplyConfiguration","applyConfiguration"`
	if strings.HasPrefix(change, "[") {
		how = `"patchType":"JSONPatch","jsonPatch"`
	}
	post(t, s.config, registration+"mutatingadmissionpolicies",
		`{"metadata":{"name":"m"},"spec":{"failurePolicy":"Fail","reinvocationPolicy":"Never",`+
			`"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],`+
			`"resources":["`+resource+`"]}]},"matchConditions":[{"name":"c","expression":"`+condition+`"}],`+
			`"mutations":[{`+how+`:{"expression":"`+change+`"}}]}}`)
	post(t, s.config, registration+"mutatingadmissionpolicybindings",
		`{"metadata":{"name":"m"},"spec":{"policyName":"m"}}`)
}
