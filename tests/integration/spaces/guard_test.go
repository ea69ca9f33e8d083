package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestTenantsCannotReachPastTheirSpaceThroughMachinesAndNetwork: what a tenant
// may do in a cluster of their own, they may not do to what all tenants share.
func TestTenantsCannotReachPastTheirSpaceThroughMachinesAndNetwork(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	running := func(s *space, name, ip string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		status := `{"status":{"podIP":"` + ip + `","podIPs":[{"ip":"` + ip + `"}]}}`
		if _, err := p.admin.CoreV1().Pods("default."+s.name).
			Patch(t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{},
				"status"); err != nil {
			t.Fatal(err)
		}
	}
	running(a, "mine", "10.42.0.7")
	running(b, "theirs", "10.42.0.8")
	if _, err := a.client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 81}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := func(spec string) string {
		return `{"metadata":{"generateName":"x-"},"spec":{` + spec + `}}`
	}
	slice := func(ip string) string {
		return `{"metadata":{"generateName":"x-"},"addressType":"IPv4","endpoints":[{"addresses":["` + ip + `"]}]}`
	}
	const pods, slices = "/api/v1/namespaces/default/pods",
		"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	const merge = "Content-Type: application/merge-patch+json"
	for _, c := range []struct {
		name, method, path, body string
		refused                  bool
	}{
		{"an ordinary pod", http.MethodPost, pods, pod(`"containers":[{"name":"c","image":"i"}]`), false},
		{"a privileged pod", http.MethodPost, pods,
			pod(`"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]`), true},
		{"a pod with a directory of the node", http.MethodPost, pods,
			pod(`"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","hostPath":{"path":"/"}}]`), true},
		{"a pod in the node's network", http.MethodPost, pods,
			pod(`"hostNetwork":true,"containers":[{"name":"c","image":"i"}]`), true},
		{"a pod with raw sockets", http.MethodPost, pods, pod(`"containers":[{"name":"c","image":"i",` +
			`"securityContext":{"capabilities":{"add":["NET_RAW"]}}}]`), true},
		{"a pod that displaces the cluster's own", http.MethodPost, pods,
			pod(`"priorityClassName":"system-node-critical","containers":[{"name":"c","image":"i"}]`), true},
		{"a volume that is a directory of the node", http.MethodPost, "/api/v1/persistentvolumes",
			`{"metadata":{"name":"x"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],` +
				`"hostPath":{"path":"/"}}}`, true},
		{"a Service that catches addresses", http.MethodPost, "/api/v1/namespaces/default/services",
			`{"metadata":{"name":"catch"},"spec":{"ports":[{"port":80}],"externalIPs":["192.0.2.7"]}}`, true},
		{"the status of a Service", http.MethodPatch, "/api/v1/namespaces/default/services/web/status",
			`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`, true},
		{"the status of a pod", http.MethodPatch, pods + "/mine/status",
			`{"status":{"podIP":"10.42.0.8","podIPs":[{"ip":"10.42.0.8"}]}}`, true},
		{"endpoints at a pod of his own", http.MethodPost, slices, slice("10.42.0.7"), false},
		{"endpoints at a pod of another tenant", http.MethodPost, slices, slice("10.42.0.8"), true},
		{"endpoints at a Service", http.MethodPost, slices, slice("10.43.0.1"), true},
		{"endpoints outside", http.MethodPost, slices, slice("192.0.2.7"), false},
		{"old endpoints at a pod of another tenant", http.MethodPost, "/api/v1/namespaces/default/endpoints",
			`{"metadata":{"name":"x"},"subsets":[{"addresses":[{"ip":"10.42.0.8"}],"ports":[{"port":80}]}]}`, true},
	} {
		var headers []string
		if c.method == http.MethodPatch {
			headers = []string{merge}
		}
		want := http.StatusCreated
		if c.refused {
			want = http.StatusForbidden
		}
		var code int
		var body string
		// The informer that knows the addresses of pods lags a moment.
		eventually(t, c.name, func(context.Context) (bool, error) {
			code, body = do(t, a.config, c.method, c.path, c.body, headers)
			return code == want || strings.Contains(c.name, "privileged"), nil
		})
		if code != want || strings.Contains(body, "default.a") {
			t.Errorf("%s: %d, want %d: %.400s", c.name, code, want, body)
		}
	}
	// Administrators may trust a tenant with their pods.
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"a4s.io/pod-security":"privileged"}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a trusted tenant runs a privileged pod", func(context.Context) (bool, error) {
		code, _ := do(t, a.config, http.MethodPost, pods,
			pod(`"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]`), nil)
		return code == http.StatusCreated, nil
	})
}
