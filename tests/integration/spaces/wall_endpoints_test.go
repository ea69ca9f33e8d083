package spaces_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/tests/nstest"
)

// wallSlice is an EndpointSlice of a Service with these addresses.
func wallSlice(name, labels string, addresses ...string) string {
	endpoints := make([]string, len(addresses))
	for i, a := range addresses {
		endpoints[i] = `{"addresses":["` + a + `"]}`
	}
	return `{"metadata":{"name":"` + name + `","labels":{"kubernetes.io/service-name":"` + name + `"` + labels +
		`}},"addressType":"IPv4","ports":[{"port":80}],"endpoints":[` + strings.Join(endpoints, ",") + `]}`
}

// TestWallV12EndpointsOfAPodThatIsGone: an address that a tenant's pod had is
// given to the next pod, whosever that is, so nothing of the tenant may lead
// there any more: whatever wrote it, and whatever the tenant's admission says.
func TestWallV12EndpointsOfAPodThatIsGone(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	// Upstream's slices have pods of nodes that there are.
	if _, err := p.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	run := func(s *space, name, ip, phase string, finalizers ...string) {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}, Finalizers: finalizers},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name},
			Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		if err := p.admin.CoreV1().Pods("default."+s.name).
			Bind(t.Context(), bind, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.podIs(t, s, name, ip, phase)
	}
	const slices, olds = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
		"/api/v1/namespaces/default/endpoints"
	create := func(s *space, path, body string) {
		t.Helper()
		eventually(t, "it is created: "+body, func(context.Context) (bool, error) {
			code, answer := do(t, s.config, http.MethodPost, path, body, nil)
			if code != http.StatusCreated && code != http.StatusForbidden { // the guard's informer lags a moment
				return false, fmt.Errorf("%d: %.300s", code, answer)
			}
			return code == http.StatusCreated, nil
		})
	}
	noneLeft := func(what, address string) {
		t.Helper()
		eventually(t, what+": nothing leads to "+address, func(ctx context.Context) (bool, error) {
			_, in := get(t, a.config, slices)
			_, old := get(t, a.config, olds)
			return !strings.Contains(in, `"`+address+`"`) && !strings.Contains(old, `"`+address+`"`), nil
		})
	}
	const merge = "Content-Type: application/merge-patch+json"
	forged := `,"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io"`
	service := func(name, selector string) {
		create(a, "/api/v1/namespaces/default/services",
			`{"metadata":{"name":"`+name+`"},"spec":{"ports":[{"port":80}]`+selector+`}}`)
	}

	run(a, "stays", "10.42.0.6", "Running")
	for i, c := range []struct {
		name string
		end  func(pod, ip string)
	}{
		{"deleted at once", func(pod, _ string) {
			if err := a.client.CoreV1().Pods("default").
				Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
				t.Fatal(err)
			}
		}},
		{"being deleted", func(pod, _ string) {
			if err := a.client.CoreV1().Pods("default").Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"ended", func(pod, ip string) { p.podIs(t, a, pod, ip, "Succeeded") }},
		{"got another address", func(pod, _ string) { p.podIs(t, a, pod, "10.42.0.200", "Running") }},
		{"somebody else has the address", func(pod, ip string) { run(b, "after-"+pod, ip, "Running") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, ip := fmt.Sprintf("pod-%d", i), fmt.Sprintf("10.42.0.%d", 10+i)
			run(a, pod, ip, "Running", "example.com/keep")
			name := fmt.Sprintf("own-%d", i)
			create(a, slices, wallSlice(name, "", ip, "10.42.0.6", "192.0.2.7"))
			create(a, slices, wallSlice(name+"-forged", forged, ip))
			create(a, olds, `{"metadata":{"name":"`+name+`-old"},"subsets":[{"addresses":[{"ip":"`+ip+
				`"},{"ip":"192.0.2.7"}],"ports":[{"port":80}]},{"notReadyAddresses":[{"ip":"`+ip+
				`"}],"ports":[{"port":81}]}]}`)
			c.end(pod, ip)
			noneLeft(c.name, ip)
			_, left := get(t, a.config, slices+"/"+name)
			_, old := get(t, a.config, olds+"/"+name+"-old")
			if !strings.Contains(left, "10.42.0.6") || !strings.Contains(left, "192.0.2.7") ||
				!strings.Contains(old, "192.0.2.7") {
				t.Errorf("what is the tenant's or outside is gone too: %.500s\n%.500s", left, old)
			}
			// Nor does it come back.
			eventually(t, "the address is refused", func(context.Context) (bool, error) {
				code, _ := do(t, a.config, http.MethodPatch, slices+"/"+name,
					`{"endpoints":[{"addresses":["`+ip+`"]}]}`, []string{merge})
				return code == http.StatusForbidden, nil
			})
			if c.name == "being deleted" { // the object stays, by its finalizer and its grace
				if _, err := a.client.CoreV1().Pods("default").Get(t.Context(), pod, metav1.GetOptions{}); err != nil {
					t.Errorf("the pod: %v", err)
				}
			}
		})
	}

	// What the tenant's admission refuses its users it does not refuse to
	// upstream's controllers and to the correction.
	service("selected", `,"selector":{"app":"chosen"}`)
	run(a, "chosen", "10.42.0.40", "Running")
	eventually(t, "upstream's slice has the pod", func(context.Context) (bool, error) {
		_, in := get(t, a.config, slices)
		_, old := get(t, a.config, olds+"/selected")
		return strings.Contains(in, "10.42.0.40") && strings.Contains(old, "10.42.0.40"), nil
	})
	service("mine", "")
	create(a, slices, wallSlice("mine", "", "10.42.0.40"))
	const admission = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	create(a, admission+"ies", `{"metadata":{"name":"no"},"spec":{"matchConstraints":{"resourceRules":[{`+
		`"apiGroups":["discovery.k8s.io",""],"apiVersions":["v1"],"operations":["UPDATE","DELETE"],`+
		`"resources":["endpointslices","endpoints"]}]},"validations":[{"expression":"false","message":"not mine"}]}}`)
	create(a, admission+"ybindings",
		`{"metadata":{"name":"no"},"spec":{"policyName":"no","validationActions":["Deny"]}}`)
	eventually(t, "the tenant's policy refuses updates", func(context.Context) (bool, error) {
		_, answer := do(t, a.config, http.MethodPatch, slices+"/mine",
			`{"metadata":{"annotations":{"x":"y"}}}`, []string{merge})
		return strings.Contains(answer, "not mine"), nil
	})
	if err := a.client.CoreV1().Pods("default").
		Delete(t.Context(), "chosen", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	noneLeft("the admission of the tenant refuses it", "10.42.0.40")
}

// TestWallV12ProxyOfAPodThatEnded: the API server stands behind the walls, so its
// proxy leads to no address that a pod of the tenant only had.
func TestWallV12ProxyOfAPodThatEnded(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	const ip = "10.42.0.50"
	nstest.Shell(t, "ip addr add "+ip+"/32 dev lo")
	listener, err := net.Listen("tcp", ip+":8080")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "whoever is there")
	})}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	create := func(s *space, name string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(what string, want bool) {
		t.Helper()
		for _, name := range []string{"had:8080", "http:had:8080"} {
			eventually(t, what+": "+name, func(context.Context) (bool, error) {
				code, body := get(t, a.config, "/api/v1/namespaces/default/pods/"+name+"/proxy/")
				// The informer lags a moment.
				return want == (code == http.StatusOK) && want == strings.Contains(body, "whoever"), nil
			})
		}
	}
	create(a, "had")
	p.podIs(t, a, "had", ip, "Running")
	answers("a pod that runs", true)
	create(b, "has")
	p.podIs(t, b, "has", ip, "Running")
	answers("somebody else's pod has the address", false)
	p.podIs(t, b, "has", "10.42.0.51", "Running")
	answers("and no longer", true)
	p.podIs(t, a, "had", ip, "Succeeded")
	answers("it has ended", false)
}

// podIs sets the status of a pod as its kubelet does.
func (p *plane) podIs(t *testing.T, s *space, name, ip, phase string) {
	t.Helper()
	status := `{"status":{"phase":"` + phase + `","podIP":"` + ip + `","podIPs":[{"ip":"` + ip +
		`"}],"conditions":[{"type":"Ready","status":"True"}]}}`
	if _, err := p.admin.CoreV1().Pods("default."+s.name).
		Patch(t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
