package origin

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
)

// projected is a pod as the kubelet sees it on a node with a second partition, tp2,
// which has tenant t2.
func projected(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	further := Partition{Name: "tp2", Service: netip.MustParseAddr("10.44.0.1"), ClusterDNS: []string{"10.44.0.10"}}
	o := Options{ClusterDNS: []string{"10.43.0.10"}, ClusterDomain: "cluster.local",
		Partition: func(namespace string) (Partition, bool) {
			if slices.Contains([]string{"default.t2", "kube-system.tp2.system"}, namespace) {
				return further, true
			}
			return Partition{Name: "main", Home: true, Service: netip.MustParseAddr("10.43.0.1")}, true
		}}
	list := &corev1.PodList{Items: []corev1.Pod{*p}}
	if _, err := (pods{native: o.projector()}).object(context.Background(), list); err != nil {
		t.Fatal(err)
	}
	return &list.Items[0]
}

func env(p *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, e := range p.Spec.Containers[0].Env {
		out[e.Name] = e.Value
	}
	return out
}

// TestPodsOfFurtherPartitions see the names and addresses of their own partition.
func TestPodsOfFurtherPartitions(t *testing.T) {
	for _, tc := range []struct {
		namespace, native, host, dns string
		raw                          bool
	}{
		{"kube-system.tp2.system", "kube-system", "10.44.0.1", "10.44.0.10", true},
		{"default.t2", "default", "10.44.0.1", "10.44.0.10", false},
		{"default.t1", "default", "", "10.43.0.10", false},
	} {
		got := projected(t, pod(tc.namespace))
		if e := env(got); e["NS"] != tc.native || e["KUBERNETES_SERVICE_HOST"] != tc.host {
			t.Errorf("%s: variables %v", tc.namespace, e)
		}
		if tc.host != "" && env(got)["KUBERNETES_PORT_443_TCP"] != "tcp://10.44.0.1:443" {
			t.Errorf("%s: variables %v", tc.namespace, env(got))
		}
		dns := got.Spec.DNSConfig
		if dns == nil || !slices.Equal(dns.Nameservers, []string{tc.dns}) ||
			dns.Searches[0] != tc.native+".svc.cluster.local" {
			t.Errorf("%s: DNS %v", tc.namespace, dns)
		}
		if got.Namespace != tc.namespace {
			t.Errorf("metadata.namespace = %q, must stay", got.Namespace)
		}
		if raw := got.Spec.Containers[0].SecurityContext == nil; raw != tc.raw {
			t.Errorf("%s: raw sockets %v", tc.namespace, raw)
		}
	}
	own := pod("default.t2")
	own.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_HOST", Value: "mine"}}
	if got := env(projected(t, own)); got["KUBERNETES_SERVICE_HOST"] != "mine" {
		t.Errorf("the container's own variable is lost: %v", got)
	}
	if got := projected(t, pod("kube-system")); got.Spec.DNSConfig != nil || len(got.Spec.Containers[0].Env) != 3 {
		t.Errorf("a pod of the home partition's system space is changed: %v", got.Spec)
	}
}

func TestPodsOfFurtherPartitionsAreReadAlike(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/kube-system.tp2.system/pods/x": "pod", "/api/v1/namespaces/default.t2/pods/x": "pod",
		"/api/v1/namespaces/kube-system/pods/x": "", "/api/v1/pods": "pods",
	} {
		r, err := http.NewRequest(http.MethodGet, "http://x"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := rewritten(parse(r)); got != want {
			t.Errorf("%s is rewritten as %q, want %q", path, got, want)
		}
	}
	marked := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Annotations: map[string]string{bootstrapapi.SourceAnnotation: bootstrapapi.Source}}}
	}
	if !fromBootstrap(marked("default")) || fromBootstrap(marked("default.tp2.system")) {
		t.Error("bootstrap pods are those of the home partition")
	}
}

func TestAtGoesToTheServer(t *testing.T) {
	base, err := url.Parse("https://1.2.3.4:6443/prefix")
	if err != nil {
		t.Fatal(err)
	}
	var got *http.Request
	r, err := http.NewRequest(http.MethodGet, "http://x/api/v1/pods?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := At(base, roundTripper(func(r *http.Request) (*http.Response, error) {
		got = r
		return nil, http.ErrServerClosed
	})).RoundTrip(r); err == nil {
		t.Error("the error is lost")
	}
	if got.URL.String() != "https://1.2.3.4:6443/prefix/api/v1/pods?watch=1" || r.URL.Host != "x" {
		t.Errorf("%s came as %s", r.URL, got.URL)
	}
}
