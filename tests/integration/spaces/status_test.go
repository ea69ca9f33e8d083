package spaces_test

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestTenantsWriteTheStatusThatNobodyElseGoesBy: in the status of their pods and
// Services tenants change what is their own business, by every way to write, and
// nothing by which the cluster goes.
func TestTenantsWriteTheStatusThatNobodyElseGoesBy(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	ctx := t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := a.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// What its node says.
	said := `{"status":{"phase":"Running","podIP":"10.42.0.7","podIPs":[{"ip":"10.42.0.7"}],"hostIP":"192.0.2.1","hostIPs":[{"ip":"192.0.2.1"}],"conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}],
		"containerStatuses":[{"name":"c","image":"i","imageID":"","ready":true,"restartCount":0,"allocatedResources":{"cpu":"1"}}]}}`
	if _, err := p.admin.CoreV1().Pods("default.a").Patch(ctx, "mine", types.StrategicMergePatchType, []byte(said),
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 81}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const podStatus, serviceStatus = "/api/v1/namespaces/default/pods/mine/status",
		"/api/v1/namespaces/default/services/web/status"
	const merge, strategic, json, apply = "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/json-patch+json", "application/apply-patch+yaml"
	for _, c := range []struct {
		name, path, media, body string
		refused                 bool
	}{
		{"a message and a label", podStatus, merge,
			`{"metadata":{"labels":{"x":"y"}},"status":{"message":"m","reason":"r"}}`, false},
		{"a readiness gate", podStatus, strategic,
			`{"status":{"conditions":[{"type":"example.com/gate","status":"True"}]}}`, false},
		{"not ready", podStatus, strategic, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, false},
		{"applied", podStatus + "?fieldManager=x&force=true", apply, `{"apiVersion":"v1","kind":"Pod","metadata":{` +
			`"name":"mine"},"status":{"conditions":[{"type":"example.com/other","status":"True"}]}}`, false},
		{"an end", podStatus, merge, `{"status":{"phase":"Succeeded"}}`, true},
		{"a failure", podStatus, json, `[{"op":"replace","path":"/status/phase","value":"Failed"}]`, true},
		{"another address", podStatus, strategic,
			`{"status":{"podIP":"10.42.0.8","podIPs":[{"$patch":"replace"},{"ip":"10.42.0.8"}]}}`, true},
		{"no address", podStatus, merge, `{"status":{"podIP":null,"podIPs":null}}`, true},
		{"another node's address", podStatus, merge,
			`{"status":{"hostIP":"192.0.2.2","hostIPs":[{"ip":"192.0.2.2"}]}}`, true},
		{"room on a node", podStatus, merge, `{"status":{"nominatedNodeName":"n1"}}`, true},
		{"less than it has", podStatus, merge, `{"status":{"containerStatuses":[{"name":"c","image":"i",` +
			`"imageID":"","ready":true,"restartCount":0}]}}`, true},
		{"a resize that waits", podStatus, strategic,
			`{"status":{"conditions":[{"type":"PodResizePending","status":"True","reason":"Infeasible"}]}}`, true},
		{"no conditions at all", podStatus, merge, `{"status":{"conditions":null}}`, true},
		{"applied phase", podStatus + "?fieldManager=x&force=true", apply,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"mine"},"status":{"phase":"Failed"}}`, true},
		{"conditions of a Service", serviceStatus, merge,
			`{"metadata":{"annotations":{"x":"y"}},"status":{"conditions":[{"type":"Checked","status":"True",` +
				`"reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, false},
		{"an address of a Service", serviceStatus, merge,
			`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`, true},
		{"a name of a Service", serviceStatus, json,
			`[{"op":"add","path":"/status/loadBalancer","value":{"ingress":[{"hostname":"example.com"}]}}]`, true},
	} {
		want := http.StatusOK
		if c.refused {
			want = http.StatusForbidden
		}
		if code, body := do(t, a.config, http.MethodPatch, c.path, c.body,
			[]string{"Content-Type: " + c.media}); code != want {
			t.Errorf("%s: %d, want %d: %.600s", c.name, code, want, body)
		}
	}
	// As a whole: what was read goes back with another condition, and nothing else.
	eventually(t, "the pod is replaced", func(context.Context) (bool, error) {
		is, err := a.client.CoreV1().Pods("default").Get(ctx, "mine", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		is.Status.Conditions = append(is.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue})
		now, err := a.client.CoreV1().Pods("default").UpdateStatus(ctx, is, metav1.UpdateOptions{})
		return err == nil && now.Status.Phase == corev1.PodRunning && now.Status.PodIP == "10.42.0.7" &&
			now.Status.Message == "m", nil
	})
}
