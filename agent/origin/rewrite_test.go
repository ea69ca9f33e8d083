package origin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func fieldRef(path string) *corev1.ObjectFieldSelector {
	return &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
}

func envs() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "NS", ValueFrom: &corev1.EnvVarSource{FieldRef: fieldRef("metadata.namespace")}},
		{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: fieldRef("metadata.name")}},
		{Name: "OF", Value: "$(NS)"},
	}
}

func pod(namespace string) *corev1.Pod {
	files := func() []corev1.DownwardAPIVolumeFile {
		return []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: fieldRef("metadata.namespace")},
			{Path: "labels", FieldRef: fieldRef("metadata.labels")},
			{Path: "annotations", FieldRef: fieldRef("metadata.annotations")},
			{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}},
		}
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace, UID: "1",
			Annotations: map[string]string{"z": "\"1\"", "a": "2"}},
		Spec: corev1.PodSpec{
			DNSPolicy:      corev1.DNSClusterFirst,
			InitContainers: []corev1.Container{{Name: "i", Env: envs()}},
			Containers:     []corev1.Container{{Name: "c", Env: envs()}},
			EphemeralContainers: []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Env: envs()}},
			},
			Volumes: []corev1.Volume{
				{
					Name:         "d",
					VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files()}},
				},
				{Name: "p", VolumeSource: corev1.VolumeSource{
					Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
						{DownwardAPI: &corev1.DownwardAPIProjection{Items: files()}},
					}},
				}},
			},
		},
	}
}

func service(namespace, name string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.43.0.9"},
	}
}

// checkTenantPod checks everything that a container sees of its namespace.
func checkTenantPod(t *testing.T, got *corev1.Pod) {
	t.Helper()
	if got.Namespace != "default.t1" {
		t.Errorf("metadata.namespace = %q, must stay", got.Namespace)
	}
	want := envs()
	want[0] = corev1.EnvVar{Name: "NS", Value: "default"}
	for what, env := range map[string][]corev1.EnvVar{
		"container": got.Spec.Containers[0].Env, "init container": got.Spec.InitContainers[0].Env,
		"ephemeral container": got.Spec.EphemeralContainers[0].Env,
	} {
		if !reflect.DeepEqual(env, want) {
			t.Errorf("%s: env = %v, want %v", what, env, want)
		}
	}
	for _, files := range [][]corev1.DownwardAPIVolumeFile{got.Spec.Volumes[0].DownwardAPI.Items,
		got.Spec.Volumes[1].Projected.Sources[1].DownwardAPI.Items} {
		for i, want := range []string{"default", "", "a=\"2\"\nkubernetes.io/config.source=\"api\"\nz=\"\\\"1\\\"\""} {
			path := files[i].FieldRef.FieldPath
			if want == "" {
				if path != "metadata.labels" {
					t.Errorf("%s shows %s", files[i].Path, path)
				}
				continue
			}
			key, ok := strings.CutPrefix(path, "metadata.annotations['")
			if value := got.Annotations[strings.TrimSuffix(key, "']")]; !ok || value != want {
				t.Errorf("%s shows %s = %q, want %q", files[i].Path, path, value, want)
			}
		}
	}
	if got.Spec.DNSPolicy != corev1.DNSNone || !slices.Equal(got.Spec.DNSConfig.Searches,
		[]string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"}) {
		t.Errorf("DNS: %s %v", got.Spec.DNSPolicy, got.Spec.DNSConfig)
	}
}

// serverAnswer is what the server of the tests says.
type serverAnswer struct {
	body        []byte
	contentType string
}

// serve returns a client whose transport is wrapped; answers go by path, with
// "?watch" for watches.
func serve(t *testing.T, contentType string, answers map[string]serverAnswer) kubernetes.Interface {
	t.Helper()
	return serveTyped(t, contentType, answers, nil)
}

// serveTyped is serve with types of workload.
func serveTyped(
	t *testing.T, contentType string, answers map[string]serverAnswer, workloads *Workloads,
) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Path
		if parse(r).Options.Watch {
			key += "?watch"
		}
		a, ok := answers[key]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", a.contentType)
		_, _ = w.Write(a.body) // the client notices
	}))
	t.Cleanup(server.Close)
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(resolv, []byte("search old.example\nsearch example.com. .\nnameserver 192.0.2.1\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType}}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return New(Direct(rt), Options{ClusterDNS: []string{"10.43.0.10"}, ClusterDomain: "cluster.local",
			ResolvConf: resolv, Workloads: workloads})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func encode(t *testing.T, contentType string, obj runtime.Object) serverAnswer {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
	var out bytes.Buffer
	if err := info.Serializer.Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return serverAnswer{out.Bytes(), contentType}
}

func encodeWatch(t *testing.T, contentType string, events ...watch.Event) serverAnswer {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
	var out bytes.Buffer
	enc := streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(&out), info.StreamSerializer.Serializer)
	for _, e := range events {
		raw := encode(t, contentType, e.Object).body
		if err := enc.Encode(&metav1.WatchEvent{Type: string(e.Type),
			Object: runtime.RawExtension{Raw: raw}}); err != nil {
			t.Fatal(err)
		}
	}
	return serverAnswer{out.Bytes(), contentType + ";stream=watch"}
}

func drain(t *testing.T, w watch.Interface, err error) []watch.Event {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var out []watch.Event
	for e := range w.ResultChan() {
		out = append(out, e)
	}
	return out
}

func TestKubeletSeesNativeNames(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			ctx := context.Background()
			system := pod("default")
			// An object of more than one buffer.
			large := pod("default.t1")
			large.Labels = map[string]string{"l": strings.Repeat("x", 100_000)}
			bookmark := &corev1.Pod{TypeMeta: system.TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
			client := serve(t, contentType, map[string]serverAnswer{
				"/api/v1/pods": encode(t, contentType, &corev1.PodList{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
					Items:    []corev1.Pod{*system, *pod("default.t1")},
				}),
				"/api/v1/pods?watch": encodeWatch(t, contentType, watch.Event{Type: watch.Added, Object: system},
					watch.Event{Type: watch.Modified, Object: large},
					watch.Event{Type: watch.Deleted, Object: pod("default.t1")},
					watch.Event{Type: watch.Bookmark, Object: bookmark}),
				"/api/v1/namespaces/default.t1/pods/web": encode(t, contentType, pod("default.t1")),
				"/api/v1/namespaces/default/pods/web":    encode(t, contentType, system),
				"/api/v1/services": encode(t, contentType,
					&corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"},
						Items: []corev1.Service{*service("default", "kubernetes"),
							*service("default.t1", "kubernetes"),
							*service("default.t1", "web"), *service("x.t1", "kubernetes")}}),
				"/api/v1/services?watch": encodeWatch(t, contentType,
					watch.Event{Type: watch.Added, Object: service("default.t1", "kubernetes")},
					watch.Event{Type: watch.Added, Object: service("default", "kubernetes")}),
			})
			unchanged := func(got *corev1.Pod) {
				t.Helper()
				want := system.DeepCopy()
				got.TypeMeta = want.TypeMeta
				if !equality.Semantic.DeepEqual(got, want) {
					t.Errorf("a pod of the system space was changed: %v", diff.Diff(want, got))
				}
			}
			list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			unchanged(&list.Items[0])
			checkTenantPod(t, &list.Items[1])

			w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
			events := drain(t, w, err)
			if len(events) != 4 || events[1].Type != watch.Modified || events[2].Type != watch.Deleted ||
				events[3].Type != watch.Bookmark {
				t.Fatalf("events: %v", events)
			}
			unchanged(events[0].Object.(*corev1.Pod))
			checkTenantPod(t, events[1].Object.(*corev1.Pod))
			checkTenantPod(t, events[2].Object.(*corev1.Pod))
			if rv := events[3].Object.(*corev1.Pod).ResourceVersion; rv != "7" {
				t.Errorf("bookmark at %q", rv)
			}

			for _, ns := range []string{"default", "default.t1"} {
				got, err := client.CoreV1().Pods(ns).Get(ctx, "web", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if ns == "default" {
					unchanged(got)
				} else {
					checkTenantPod(t, got)
				}
			}

			services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range services.Items {
				names = append(names, s.Namespace+"/"+s.Name)
			}
			if !slices.Equal(names, []string{"default/kubernetes", "default.t1/web", "x.t1/kubernetes"}) {
				t.Errorf("services: %v", names)
			}
			w, err = client.CoreV1().Services("").Watch(ctx, metav1.ListOptions{})
			if events := drain(t, w, err); len(events) != 1 ||
				events[0].Object.(*corev1.Service).Namespace != "default" {
				t.Errorf("watched services: %v", events)
			}
		})
	}
}

func TestDNSConfig(t *testing.T) {
	text := func(s string) *string { return &s }
	o := Options{ClusterDNS: []string{"10.43.0.10"}, ClusterDomain: "cluster.local"}
	own := []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	ndots := corev1.PodDNSConfigOption{Name: "ndots", Value: text("5")}
	for name, c := range map[string]struct {
		spec    corev1.PodSpec
		options Options
		host    []string
		want    *corev1.PodDNSConfig // nil: unchanged
	}{
		"cluster first": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}, options: o,
			want: &corev1.PodDNSConfig{Nameservers: o.ClusterDNS, Searches: own,
				Options: []corev1.PodDNSConfigOption{ndots}}},
		"the node's network": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, HostNetwork: true},
			options: o},
		"the node's network and cluster": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirstWithHostNet,
			HostNetwork: true}, options: o, want: &corev1.PodDNSConfig{Nameservers: o.ClusterDNS, Searches: own,
			Options: []corev1.PodDNSConfigOption{ndots}}},
		"the node's": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, options: o},
		"none": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSNone,
			DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}}, options: o},
		"no cluster DNS": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst},
			options: Options{ClusterDomain: "cluster.local"}},
		"merged": {
			spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, DNSConfig: &corev1.PodDNSConfig{
				Nameservers: []string{"192.0.2.1", "10.43.0.10"},
				Searches:    []string{"user.example", "cluster.local", "host.example"},
				Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: text("2")}, {Name: "edns0"}},
			}},
			options: o, host: []string{"host.example"},
			want: &corev1.PodDNSConfig{
				Nameservers: []string{"10.43.0.10", "192.0.2.1"},
				Searches:    append(slices.Clone(own), "host.example", "user.example"),
				Options:     []corev1.PodDNSConfigOption{ndots, {Name: "ndots", Value: text("2")}, {Name: "edns0"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := c.spec.DeepCopy()
			if c.want != nil {
				want.DNSPolicy, want.DNSConfig = corev1.DNSNone, c.want
			}
			podProjector{options: c.options, hostSearch: c.host}.setDNS(&c.spec, "default", Partition{})
			if !reflect.DeepEqual(&c.spec, want) {
				t.Errorf("got %v %v\nwant %v %v", c.spec.DNSPolicy, c.spec.DNSConfig, want.DNSPolicy, want.DNSConfig)
			}
		})
	}
}

// TestStable is about restarts of a4s: the kubelet must not see a change.
func TestStable(t *testing.T) {
	var first string
	for i := range 20 {
		p := pod("default.t1")
		podProjector{options: Options{ClusterDNS: []string{"10.43.0.10"}, ClusterDomain: "cluster.local"}}.pod(p)
		got, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = string(got)
		} else if string(got) != first {
			t.Fatalf("run %d differs:\n%s\n%s", i, got, first)
		}
	}
}

func TestUnreadableAnswersAreErrors(t *testing.T) {
	client := serve(t, runtime.ContentTypeJSON, map[string]serverAnswer{
		"/api/v1/namespaces/default.t1/pods/a": {[]byte("<html>"), "text/html"},
		"/api/v1/namespaces/default.t1/pods/b": {[]byte(`{"kind":"Pod","apiVersion":"v1","spec":7}`),
			runtime.ContentTypeJSON},
	})
	for _, name := range []string{"a", "b"} {
		if got, err := client.CoreV1().Pods("default.t1").
			Get(context.Background(), name, metav1.GetOptions{}); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

// TestWatchesAreWhatTheServerTakesForThem: whatever the server answers with
// events is read as events, and nothing else is.
func TestWatchesAreWhatTheServerTakesForThem(t *testing.T) {
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default.t1"}}`
	client := serve(t, runtime.ContentTypeJSON, map[string]serverAnswer{
		"/api/v1/pods?watch": {[]byte(`{"type":"ADDED","object":` + pod + "}\n"), runtime.ContentTypeJSON},
		"/api/v1/pods": {[]byte(`{"kind":"PodList","apiVersion":"v1","items":[` + pod + `]}`),
			runtime.ContentTypeJSON},
		"/api/v1/namespaces/default.t1/pods/web?watch": {[]byte(pod), runtime.ContentTypeJSON},
	})
	for query, want := range map[string]string{
		"/api/v1/pods?watch=1": "ADDED", "/api/v1/pods?watch=True": "ADDED", "/api/v1/pods?watch=": "ADDED",
		"/api/v1/pods?watch=yes&limit=1": "ADDED",
		"/api/v1/pods?watch=False":       "PodList", "/api/v1/pods?watch=0&watch=1": "PodList",
		"/api/v1/pods?Watch=1":                              "PodList",
		"/api/v1/namespaces/default.t1/pods/web?watch=true": `"Pod"`,
	} {
		got, err := client.CoreV1().RESTClient().Get().RequestURI(query).DoRaw(t.Context())
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v", query, got, err)
		}
	}
}

func TestOnlyReadsOfPodsAndServicesAreTouched(t *testing.T) {
	for target, want := range map[string]string{
		"GET /api/v1/pods?watch=true":                              "pods",
		"GET /prefix/api/v1/pods":                                  "pods",
		"GET /api/v1/namespaces/default.t1/pods":                   "pods",
		"GET /api/v1/namespaces/default.t1/pods/web":               "pod",
		"GET /api/v1/namespaces/default/pods/web":                  "",
		"GET /api/v1/namespaces/default.t1/pods/web/status":        "",
		"PATCH /api/v1/namespaces/default.t1/pods/web":             "",
		"PATCH /api/v1/namespaces/default.t1/pods/web/status":      "",
		"GET /api/v1/services":                                     "services",
		"GET /api/v1/namespaces/default.t1/services/web":           "",
		"GET /api/v1/namespaces/default.t1/secrets/pods":           "",
		"GET /apis/apps/v1/namespaces/default.t1/replicasets/pods": "",
	} {
		method, path, _ := strings.Cut(target, " ")
		if got := rewritten(parse(httptest.NewRequest(method, path, nil))); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}
