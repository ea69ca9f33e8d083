package resourcemetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/metrics/pkg/apis/metrics"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
)

// usage is what every pod uses.
type usage struct{}

func (usage) GetPodMetrics(pods ...*metav1.PartialObjectMetadata) ([]metrics.PodMetrics, error) {
	var out []metrics.PodMetrics
	for _, pod := range pods {
		out = append(out, metrics.PodMetrics{ObjectMeta: pod.ObjectMeta})
	}
	return out, nil
}

func running(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func known(t *testing.T) *cluster {
	t.Helper()
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	ended := running("default", "ended")
	ended.Status.Phase = corev1.PodSucceeded
	for _, pod := range []*corev1.Pod{running("default", "web"), running("default.t1", "web"),
		running("other.t1", "db"), running("default.t2", "web"), ended} {
		if err := f.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return &cluster{pods: f.Core().V1().Pods().Lister(), nodes: f.Core().V1().Nodes().Lister()}
}

func TestPodsOfASpace(t *testing.T) {
	s := &podStorage{cluster: known(t), metrics: usage{}}
	for _, tc := range []struct {
		name, tenant, namespace string
		options                 internalversion.ListOptions
		want                    string
	}{
		{"all", "", "", internalversion.ListOptions{}, "default/web default.t1/web default.t2/web other.t1/db"},
		{"the view of all tenants", space.All, "", internalversion.ListOptions{},
			"default/web default.t1/web default.t2/web other.t1/db"},
		{"a tenant", "t1", "", internalversion.ListOptions{}, "default.t1/web other.t1/db"},
		{"the system alone", space.System, "", internalversion.ListOptions{}, "default/web"},
		{"a namespace", "t1", "default.t1", internalversion.ListOptions{}, "default.t1/web"},
		{"a namespace of another tenant", "t1", "default.t2", internalversion.ListOptions{}, ""},
		{"labels", "t1", "",
			internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "db"})},
			"other.t1/db"},
		{"fields", "", "", internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name",
			"db")}, "other.t1/db"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := request.WithNamespace(t.Context(), tc.namespace)
			if tc.tenant != "" {
				ctx = space.WithTenant(ctx, tc.tenant)
			}
			list, err := s.List(ctx, &tc.options)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.(*metrics.PodMetricsList).Items {
				got = append(got, item.Namespace+"/"+item.Name)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
	t.Run("one", func(t *testing.T) {
		get := func(tenant, namespace, name string) error {
			_, err := s.Get(request.WithNamespace(space.WithTenant(t.Context(), tenant), namespace), name, nil)
			return err
		}
		if err := get("t1", "default.t1", "web"); err != nil {
			t.Error(err)
		}
		for _, err := range []error{get("t1", "default.t2", "web"), get(space.System, "default", "ended"),
			get(space.System, "default", "missing")} {
			if !apierrors.IsNotFound(err) {
				t.Errorf("%v, want not found", err)
			}
		}
	})
}

// claims are what a node says.
type claims []types.NamespacedName

func (c claims) GetMetrics(context.Context, *corev1.Node) (*storage.MetricsBatch, error) {
	batch := &storage.MetricsBatch{Pods: map[types.NamespacedName]storage.PodMetricsPoint{}}
	for _, pod := range c {
		batch.Pods[pod] = storage.PodMetricsPoint{}
	}
	return batch, nil
}

func TestNodesSpeakForTheirPodsOnly(t *testing.T) {
	m := &Metrics{}
	m.known.Store(known(t))
	mine := types.NamespacedName{Namespace: "default.t1", Name: "web"}
	k := kubelets{inner: claims{mine, {Namespace: "default", Name: "missing"}}, runsOn: m.runsOn}
	for node, want := range map[string]int{"n1": 1, "n2": 0} {
		batch, err := k.GetMetrics(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := batch.Pods[mine]; len(batch.Pods) != want || ok != (want == 1) {
			t.Errorf("node %s is believed %v", node, batch.Pods)
		}
	}
}

type answers func() *http.Response

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }

func TestKubeletsAreBounded(t *testing.T) {
	endless := bounded{answers(func() *http.Response {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(zeros{})}
	})}
	answer, err := endless.RoundTrip(nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, answer.Body)
	var tooLarge *http.MaxBytesError
	if !errors.As(err, &tooLarge) || n > maxAnswer {
		t.Errorf("read %d bytes, %v", n, err)
	}
	elsewhere := bounded{answers(func() *http.Response {
		return &http.Response{StatusCode: http.StatusFound, Status: "302 Found", Body: http.NoBody}
	})}
	if answer, err := elsewhere.RoundTrip(nil); err == nil || answer != nil {
		t.Errorf("a redirection is followed: %v", fmt.Sprint(answer))
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestPodsOfOtherPartitions have the same names, and are not those of this one.
func TestPodsOfOtherPartitions(t *testing.T) {
	says := claims{{Namespace: "kube-system", Name: "x"}, {Namespace: "kube-system.tp2.system", Name: "x"},
		{Namespace: "kube-system.tp3.system", Name: "x"}, {Namespace: "default.t1", Name: "web"}}
	for _, partition := range []string{"", "tp2"} {
		var asked []string
		k := kubelets{inner: says, partition: partition, runsOn: func(namespace, name, _ string) bool {
			asked = append(asked, namespace+"/"+name)
			return true
		}}
		batch, err := k.GetMetrics(t.Context(), &corev1.Node{})
		if err != nil {
			t.Fatal(err)
		}
		_, system := batch.Pods[types.NamespacedName{Namespace: "kube-system", Name: "x"}]
		_, tenant := batch.Pods[types.NamespacedName{Namespace: "default.t1", Name: "web"}]
		if len(batch.Pods) != 2 || len(asked) != 2 || !system || !tenant {
			t.Errorf("in partition %q: %v", partition, batch.Pods)
		}
	}
}
