package origin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
)

// TestOnePathForAllChanges: the pods of the server, also of tenants, and the
// bootstrap pods come by one list and one watch. The checkpoint has the pods as
// the server said them.
func TestOnePathForAllChanges(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			server := newPodServer(t)
			n := newNode(t, server, t.TempDir(), true)
			config := &rest.Config{Host: server.URL, QPS: -1,
				ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType}}
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
				return New(Direct(n.Before(rt)),
					Options{Workloads: newWorkloads(t, apiServer(), &runtimesOfTest{})})
			})
			client, err := kubernetes.NewForConfig(config)
			must(t, err)
			ofTenant := newPod("web", "tenant")
			ofTenant.Namespace = "default.t1"
			ofTenant.Spec.Containers[0].Env = envs()
			said := server.say(t, "ADDED", ofTenant)
			n.create(t, "a-node1", "a")
			n.awaitUIDs(t, "both pods", "tenant", "a")

			check := func(how string, seen map[string]corev1.Pod) {
				t.Helper()
				if len(seen) != 2 || seen["a"].Namespace != "default" {
					t.Errorf("%s: %v", how, seen)
				}
				if got := seen["tenant"].Spec.Containers; len(got) != 1 || got[0].Env[0].Value != "default" {
					t.Errorf("%s: the pod of the tenant has %v", how, got)
				}
			}
			list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			must(t, err)
			seen := map[string]corev1.Pod{}
			for _, p := range list.Items {
				seen[string(p.UID)] = p
			}
			check("list", seen)

			w, err := client.CoreV1().Pods("").Watch(t.Context(),
				metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			must(t, err)
			defer w.Stop()
			server.say(t, "MODIFIED", ofTenant)
			seen = map[string]corev1.Pod{}
			for e := range w.ResultChan() {
				pod, ok := e.Object.(*corev1.Pod)
				if !ok {
					t.Fatalf("event %+v", e)
				}
				seen[string(pod.UID)] = *pod
				if len(seen) == 2 {
					break
				}
			}
			check("watch", seen)
			if live := n.Live(store.Key(&said)); live == nil || live.Spec.Containers[0].Env[0].ValueFrom == nil {
				t.Errorf("the checkpoint has %v", live)
			}
		})
	}
}

// TestUplinkGetsTheParsedRequest: it is what a router over several API servers
// needs.
func TestUplinkGetsTheParsedRequest(t *testing.T) {
	up := &uplinkOfTest{}
	transport := New(up, Options{})
	resp, err := transport.RoundTrip(httptest.NewRequest("PATCH",
		"/api/v1/namespaces/default.t1/pods/web/status", nil))
	must(t, err)
	must(t, resp.Body.Close())
	if r := up.got; r == nil || r.Namespace != "default.t1" || r.Name != "web" || r.Subresource != "status" ||
		r.Resource != podsResource {
		t.Errorf("the uplink got %+v", r)
	}
	transport.CloseIdleConnections()
	if !up.closed {
		t.Error("idle connections stay")
	}
}

// TestAPathIsReadOnce: whoever gets a request next finds in its context what the path means, and
// reads it again only if somebody has changed the path.
func TestAPathIsReadOnce(t *testing.T) {
	first := parse(httptest.NewRequest("GET", "/api/v1/namespaces/default.t1/pods/web", nil))
	info, ok := request.RequestInfoFrom(first.HTTP.Context())
	if !ok || info.Namespace != "default.t1" {
		t.Fatalf("the context has %+v", info)
	}
	info.Name, info.Parts = "read", []string{"pods", "read"}
	if again := parse(first.HTTP); again.HTTP != first.HTTP || again.Name != "read" {
		t.Errorf("read again: %+v", again)
	}
	other := first.HTTP.Clone(t.Context())
	other = other.WithContext(first.HTTP.Context())
	other.URL.Path = "/api/v1/namespaces/default/pods/web"
	if again := parse(other); again.Namespace != "default" || again.Name != "web" {
		t.Errorf("the path of another request counts: %+v", again)
	}
}

type uplinkOfTest struct {
	got    *Request
	closed bool
}

func (u *uplinkOfTest) Send(r *Request) (*http.Response, error) {
	u.got = r
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (u *uplinkOfTest) CloseIdleConnections() { u.closed = true }
