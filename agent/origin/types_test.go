package origin

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/workload"
)

// typed is a pod whose UID is its name.
func typed(namespace, name, class, annotation string) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name)}}
	if class != "" {
		p.Spec.RuntimeClassName = &class
	}
	if annotation != "" {
		p.Annotations = map[string]string{workload.Annotation: annotation}
	}
	return p
}

// runtimesOfTest are ready unless said otherwise.
type runtimesOfTest struct {
	mu   sync.Mutex
	down bool
}

func (r *runtimesOfTest) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

func (r *runtimesOfTest) notReadyReason(t workload.Type, _ bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down && t == workload.VM {
		return "no ready vm runtime (test)"
	}
	return ""
}

// apiServer has the classes vm, kata (of virtual machines too) and runc, and
// these pods.
func apiServer(pods ...*corev1.Pod) *fake.Clientset {
	class := func(name, handler string, annotations map[string]string) runtime.Object {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Handler: handler}
	}
	objects := []runtime.Object{class("vm", "vm", nil), class("runc", "runc", nil),
		class("kata", "kata", map[string]string{workload.Annotation: "vm"})}
	for _, p := range pods {
		objects = append(objects, p.DeepCopy())
	}
	return fake.NewClientset(objects...)
}

func newWorkloads(t *testing.T, client kubernetes.Interface, r *runtimesOfTest) *Workloads {
	t.Helper()
	return NewWorkloads(t.Context(), WorkloadOptions{Client: client, NodeName: "n1", NotReadyReason: r.notReadyReason})
}

func podList(pods ...*corev1.Pod) *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	return list
}

func TestKubeletSeesTheType(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			pods := []*corev1.Pod{
				typed("default", "plain", "", ""), typed("default", "runc", "runc", ""),
				typed("default", "by-class", "vm", ""),
				typed("default.t1", "by-class-annotation", "kata", ""), typed("default", "by-annotation", "", "vm"),
				typed("default", "said", "runc", "container"),
			}
			want := map[string]string{"by-class": "vm", "by-class-annotation": "vm", "by-annotation": "vm",
				"said": "container"}
			handlers := map[string]string{"runc": "runc", "by-class-annotation": "kata", "said": "runc"}
			pods[4].Annotations[workload.HandlerAnnotation] = "kata" // not a user's to say
			var events []watch.Event
			for _, p := range pods {
				events = append(events, watch.Event{Type: watch.Added, Object: p})
			}
			w := newWorkloads(t, apiServer(), &runtimesOfTest{})
			client := serveTyped(t, contentType, map[string]serverAnswer{
				"/api/v1/pods":       encode(t, contentType, podList(pods...)),
				"/api/v1/pods?watch": encodeWatch(t, contentType, events...),
			}, w)
			check := func(how string, seen []corev1.Pod) {
				t.Helper()
				if len(seen) != len(pods) {
					t.Fatalf("%s: %d pods", how, len(seen))
				}
				for _, p := range seen {
					if got := p.Annotations[workload.Annotation]; got != want[p.Name] {
						t.Errorf("%s: pod %s has the type %q, want %q", how, p.Name, got, want[p.Name])
					}
					if got := p.Annotations[workload.HandlerAnnotation]; got != handlers[p.Name] {
						t.Errorf("%s: pod %s has the handler %q, want %q", how, p.Name, got, handlers[p.Name])
					}
				}
			}
			list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			check("list", list.Items)
			watched, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
			var seen []corev1.Pod
			for _, e := range drain(t, watched, err) {
				seen = append(seen, *e.Object.(*corev1.Pod))
			}
			check("watch", seen)
		})
	}
}

// names are those of the pods that the kubelet gets to see of these.
func names(t *testing.T, w *Workloads, seen ...*corev1.Pod) string {
	t.Helper()
	list := podList(seen...)
	if _, err := (pods{workloads: w, all: true}).object(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestNewPodsThatCannotRunAreRefused(t *testing.T) {
	running := typed("default", "running", "vm", "")
	running.Status.Phase = corev1.PodRunning
	taken := typed("default", "taken", "vm", "")
	taken.Status.StartTime = &metav1.Time{Time: time.Now()}
	mirror := typed("default", "mirror", "vm", "")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	bootstrap := typed("default", "bootstrap", "vm", "")
	bootstrap.Annotations = map[string]string{bootstrapapi.SourceAnnotation: bootstrapapi.Source}
	leaving := typed("default", "leaving", "vm", "")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	nonsense := typed("default", "ran-as-something", "", "unikernel")
	nonsense.Status.Phase = corev1.PodRunning
	kept := []*corev1.Pod{typed("default", "container", "", ""), running, taken, mirror, bootstrap, leaving, nonsense}
	type refusal struct {
		pod     *corev1.Pod
		message string
	}
	refused := map[string]refusal{
		"vm": {typed("default.t1", "vm", "vm", ""), "no ready vm runtime (test)"},
		"unknown": {typed("default", "unknown", "", "unikernel"),
			`unknown workload type "unikernel": want container or vm`},
		"contradiction": {typed("default", "contradiction", "vm", "container"), `runtime class "vm" runs "vm"`},
		"no class":      {typed("default", "no-class", "gone", ""), `there is no runtime class "gone"`},
	}
	// What looks like one from the bootstrap API, and is of a tenant.
	posing := typed("default.t1", "posing", "vm", "")
	posing.Annotations = map[string]string{bootstrapapi.SourceAnnotation: bootstrapapi.Source}
	refused["posing"] = refusal{posing, "no ready vm runtime (test)"}
	other := typed("default", "other-source", "vm", "")
	other.Annotations = map[string]string{bootstrapapi.SourceAnnotation: "api"}
	refused["other source"] = refusal{other, "no ready vm runtime (test)"}
	all := append([]*corev1.Pod{}, kept...)
	for _, r := range refused {
		all = append(all, r.pod)
	}
	client := apiServer(all...)
	r := &runtimesOfTest{down: true}
	w := newWorkloads(t, client, r)
	want := "container running taken mirror bootstrap leaving ran-as-something"
	for range 3 { // also again, as after a broken watch
		if got := names(t, w, all...); got != want {
			t.Fatalf("the kubelet sees %q, want %q", got, want)
		}
	}
	for name, tc := range refused {
		failed := waitFailed(t, client, tc.pod)
		if failed.Status.Reason != Reason || !strings.Contains(failed.Status.Message, tc.message) {
			t.Errorf("%s: reason %q, message %q, want %q", name, failed.Status.Reason,
				failed.Status.Message, tc.message)
		}
		// What is final may be seen, or the kubelet could not clean up.
		if got := names(t, w, append(kept, failed)...); got != want+" "+tc.pod.Name {
			t.Errorf("%s: after the refusal the kubelet sees %q", name, got)
		}
	}
	waitActions(t, client, "create", "events", len(refused))
	if n := actions(client, "patch", "pods"); n != len(refused) {
		t.Errorf("%d writes of a status for %d refused pods", n, len(refused))
	}
	events, err := client.CoreV1().Events("default.t1").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(events.Items) != 2 {
		t.Fatalf("events %+v, %v", events, err)
	}
	for _, e := range events.Items {
		if e.Type != corev1.EventTypeWarning || e.Reason != Reason || !strings.HasPrefix(e.Name,
			string(e.InvolvedObject.UID)+".") || !strings.Contains(e.Message, "no ready vm runtime") {
			t.Errorf("event %+v", e)
		}
	}
}

func TestVerdictsStand(t *testing.T) {
	vm := typed("default", "vm", "vm", "")
	client := apiServer(vm)
	r := &runtimesOfTest{}
	w := newWorkloads(t, client, r)
	if got := names(t, w, vm); got != "vm" {
		t.Fatalf("the kubelet sees %q", got)
	}
	// The runtime gets lost before the kubelet has said anything about it.
	r.set(true)
	if got := names(t, w, vm); got != "vm" {
		t.Errorf("after the loss of the runtime the kubelet sees %q", got)
	}
	// A changed annotation does not make another pod of it.
	turned := vm.DeepCopy()
	turned.Annotations = map[string]string{workload.Annotation: "container"}
	list := podList(turned)
	if _, err := (pods{workloads: w}).object(t.Context(), list); err != nil ||
		list.Items[0].Annotations[workload.Annotation] != "vm" {
		t.Errorf("the type of a known pod became %v, %v", list.Items[0].Annotations, err)
	}
	// Pods that are gone are forgotten, by an event or by a list without them.
	if _, _, err := (pods{workloads: w}).event(t.Context(), watch.Deleted, vm.DeepCopy()); err != nil ||
		len(w.pods) != 0 {
		t.Errorf("a deleted pod is kept: %v, %v", w.pods, err)
	}
	r.set(false)
	names(t, w, vm)
	w.begin()
	end := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}},
	}
	if _, _, err := (pods{workloads: w, all: true}).event(t.Context(), watch.Bookmark, end); err != nil ||
		len(w.pods) != 0 {
		t.Errorf("a pod that a list does not have is kept: %v, %v", w.pods, err)
	}
}

func TestClassThatCannotBeReadIsAnError(t *testing.T) {
	client := apiServer()
	client.PrependReactor("get", "runtimeclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("away")
	})
	w := newWorkloads(t, client, &runtimesOfTest{})
	if changed, err := (pods{workloads: w}).object(t.Context(),
		podList(typed("default", "vm", "vm", ""))); err == nil {
		t.Errorf("object = %v, nil, want an error: the kubelet asks again", changed)
	}
	if _, _, err := (pods{workloads: w}).event(t.Context(), watch.Added,
		typed("default", "vm", "vm", "")); err == nil {
		t.Error("event without an error")
	}
	// Without a server there are pods from the bootstrap API only.
	bootstrap := typed("default", "bootstrap", "vm", "")
	bootstrap.Annotations = map[string]string{bootstrapapi.SourceAnnotation: bootstrapapi.Source}
	list := podList(bootstrap)
	if _, err := (pods{workloads: w}).object(t.Context(), list); err != nil ||
		list.Items[0].Annotations[workload.Annotation] != "vm" {
		t.Errorf("the pod from the bootstrap API has the annotations %v, %v", list.Items[0].Annotations, err)
	}
}

func TestRefusalIsTriedAgain(t *testing.T) {
	vm := typed("default", "vm", "vm", "")
	client := apiServer(vm)
	var mu sync.Mutex
	failures := 2
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		failures--
		return failures >= 0, nil, errors.New("away")
	})
	names(t, newWorkloads(t, client, &runtimesOfTest{down: true}), vm)
	waitFailed(t, client, vm)
}

func waitFailed(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		got, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase == corev1.PodFailed {
			return got
		}
		if ctx.Err() != nil {
			t.Fatalf("pod %s was not refused: %+v, %v", pod.Name, got, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func actions(client *fake.Clientset, verb, resource string) (n int) {
	for _, a := range client.Actions() {
		if a.Matches(verb, resource) || a.GetVerb() == verb && a.GetResource().Resource == resource {
			n++
		}
	}
	return n
}

func waitActions(t *testing.T, client *fake.Clientset, verb, resource string, want int) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for actions(client, verb, resource) < want {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d times %s %s", actions(client, verb, resource), want, verb, resource)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestHandlerIsOfTheClass: a pod does not say its handler, also where nobody knows its
// class any more.
func TestHandlerIsOfTheClass(t *testing.T) {
	pod := typed("default.t1", "runs", "gone", "")
	pod.Annotations = map[string]string{workload.HandlerAnnotation: "kata"}
	pod.Status.StartTime = new(metav1.Now())
	w := newWorkloads(t, apiServer(), &runtimesOfTest{})
	changed, hold, err := w.show(t.Context(), pod)
	if handler := pod.Annotations[workload.HandlerAnnotation]; err != nil || hold || !changed || handler != "" {
		t.Errorf("the handler %q, %v, %v, %v", handler, changed, hold, err)
	}
}
