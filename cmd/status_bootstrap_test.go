package cmd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
)

// TestStatusShowsBootstrapPods: of two pages of pods, those that are marked.
func TestStatusShowsBootstrapPods(t *testing.T) {
	now := time.Now()
	pod := func(name string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system",
			CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Minute))}}
		p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning
		p.Annotations = map[string]string{bootstrapapi.SourceAnnotation: bootstrapapi.Source}
		change(&p)
		return p
	}
	yes := true
	pages := map[string]corev1.PodList{
		"": {ListMeta: metav1.ListMeta{Continue: "more"}, Items: []corev1.Pod{
			pod("ordinary", func(p *corev1.Pod) { p.Annotations = nil }),
			pod("adopted", func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "plane", Controller: &yes}}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}, {RestartCount: 1}}
			}),
		}},
		"more": {
			Items: []corev1.Pod{pod("leaving", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Query().Get("continue")]
		if r.URL.Path != "/tenants/system/api/v1/pods" || !ok {
			http.NotFound(w, r)
			return
		}
		page.APIVersion, page.Kind = "v1", "PodList"
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := &status{}
	if s.BootstrapPods, err = bootstrapPods(t.Context(), &client{kube: kube}); err != nil {
		t.Fatal(err)
	}
	out := &strings.Builder{}
	if err := writeBootstrapPods(out, s, now); err != nil {
		t.Fatal(err)
	}
	const want = `
BOOTSTRAP POD         NODE   STATE         RESTARTS   OWNER              AGE
kube-system/adopted   n1     Running       3          ReplicaSet/plane   3m
kube-system/leaving   n1     Terminating   0          none               3m
`
	if out.String() != want {
		t.Errorf("%s\nwant%s", out, want)
	}
	out.Reset()
	if err := writeBootstrapPods(out, &status{}, now); err != nil || out.Len() > 0 {
		t.Errorf("without any: %q, %v", out, err)
	}
}
