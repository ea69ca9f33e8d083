package origin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/workload"
)

// classAge is for how long a RuntimeClass is believed to be as it was. Its
// handler can never change, only its annotation can.
const classAge = time.Minute

// fromBootstrap reports whether a pod came from the bootstrap API: nobody placed
// it here, and it is not refused. Those of tenants are not, nor those of other
// partitions than home, whatever they say.
func fromBootstrap(pod *corev1.Pod) bool {
	return bootstrapapi.IsBootstrap(pod) && !shownNative(pod.Namespace)
}

// WorkloadOptions say how to decide on the types of pods.
type WorkloadOptions struct {
	// Client is the node's, for RuntimeClasses and for what is said about a
	// pod that is refused.
	Client kubernetes.Interface
	// NodeName is the name of this node.
	NodeName string
	// NotReadyReason says why a pod of type t cannot start here; empty means that
	// it can.
	NotReadyReason func(t workload.Type, hostNetwork bool) string
	// Log may be nil.
	Log *logrus.Entry
}

// Workloads tell the kubelet, by an annotation, which pods are not of
// containers, and keep from it the new pods that cannot start on this node.
// One is shared by all clients of a kubelet.
type Workloads struct {
	o       WorkloadOptions
	ctx     context.Context // of the refusals, which outlive the requests
	classes classes

	mu   sync.Mutex
	pods map[types.UID]*verdict
	// round counts the times that all pods were listed.
	round int
}

// verdict is what was decided about a pod. It stands while the pod exists: a
// type that changed under a running pod would have it handled by a runtime that
// does not have it.
type verdict struct {
	t       workload.Type
	handler string // of its class, if that is no type
	refused bool
	round   int
}

// NewWorkloads returns one that refuses pods until ctx ends.
func NewWorkloads(ctx context.Context, o WorkloadOptions) *Workloads {
	if o.Log == nil {
		o.Log = logrus.WithField("component", "origin")
	}
	return &Workloads{o: o, ctx: ctx, classes: classes{client: o.Client, known: map[string]classEntry{}},
		pods: map[types.UID]*verdict{}}
}

// show prepares a pod for the kubelet. hold is true if it must not see it.
func (w *Workloads) show(ctx context.Context, pod *corev1.Pod) (changed, hold bool, err error) {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false, false, nil // it is never run
	}
	w.mu.Lock()
	v := w.pods[pod.UID]
	if v != nil {
		v.round = w.round
	}
	w.mu.Unlock()
	if v == nil {
		if v, err = w.judge(ctx, pod); err != nil {
			return false, false, err
		}
		if v == nil { // whatever its class is, the pod does not say the handler
			return annotate(pod, workload.HandlerAnnotation, ""), false, nil
		}
	}
	if v.refused {
		return false, !terminal(pod) && pod.DeletionTimestamp == nil, nil
	}
	changed = annotate(pod, workload.HandlerAnnotation, v.handler)
	if v.t != workload.Container || pod.Annotations[workload.Annotation] != "" {
		changed = annotate(pod, workload.Annotation, string(v.t)) || changed
	}
	return changed, false, nil
}

// annotate sets an annotation, or removes it if value is empty, and tells
// whether that changed the pod.
func annotate(pod *corev1.Pod, key, value string) bool {
	switch was, ok := pod.Annotations[key]; {
	case was == value && ok == (value != ""):
		return false
	case value == "":
		delete(pod.Annotations, key)
		return true
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
	return true
}

// judge decides on a pod that is seen for the first time. The verdict is nil
// if the pod has begun to run, by an earlier a4s, and its type is unclear now.
func (w *Workloads) judge(ctx context.Context, pod *corev1.Pod) (*verdict, error) {
	t, class, problem, err := w.typeOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	fresh := untouched(pod)
	if problem == "" && fresh {
		problem = w.o.NotReadyReason(t, pod.Spec.HostNetwork)
	}
	if problem != "" && !fresh {
		return nil, nil
	}
	v := &verdict{t: t, refused: problem != ""}
	if class != nil {
		if _, err := workload.Parse(class.Handler); err != nil {
			v.handler = class.Handler
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[pod.UID]; known != nil {
		return known, nil
	}
	v.round = w.round
	w.pods[pod.UID] = v
	if v.refused {
		go w.refuse(pod.DeepCopy(), problem)
	}
	return v, nil
}

// typeOf returns the type and the class, or what is wrong with the pod.
func (w *Workloads) typeOf(
	ctx context.Context, pod *corev1.Pod,
) (t workload.Type, class *nodev1.RuntimeClass, problem string, err error) {
	if name := pod.Spec.RuntimeClassName; name != nil {
		if fromBootstrap(pod) {
			return w.bootstrapType(ctx, pod)
		}
		class, err = w.classes.get(ctx, *name)
		switch {
		case apierrors.IsNotFound(err):
			return "", nil, fmt.Sprintf("there is no runtime class %q", *name), nil
		case err != nil:
			return "", nil, "", fmt.Errorf("looking for runtime class %q: %w", *name, err)
		}
	}
	t, err = workload.OfPod(pod, class)
	if errors.Is(err, workload.ErrUnknownType) || errors.Is(err, workload.ErrConflict) {
		return "", nil, err.Error(), nil
	}
	return t, class, "", err
}

// bootstrapTimeout is for how long the class of a pod from the bootstrap API is
// looked for.
const bootstrapTimeout = time.Second

// bootstrapType is typeOf for such a pod with a class. It has to run without a
// server, and then the names of the shipped classes say it all.
func (w *Workloads) bootstrapType(
	ctx context.Context, pod *corev1.Pod,
) (t workload.Type, class *nodev1.RuntimeClass, problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	name := *pod.Spec.RuntimeClassName
	class, err = w.classes.get(ctx, name)
	if err != nil {
		class = &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name}
	}
	if t, err = workload.OfPod(pod, class); err != nil {
		return "", nil, err.Error(), nil
	}
	return t, class, "", nil
}

// untouched reports whether no kubelet has begun to run the pod. A kubelet's
// first word about a pod is when it took it.
func untouched(pod *corev1.Pod) bool {
	if fromBootstrap(pod) {
		return false // from the bootstrap API: it may have run for long
	}
	s := &pod.Status
	return pod.DeletionTimestamp == nil && !terminal(pod) && s.Phase != corev1.PodRunning &&
		s.StartTime == nil && len(s.InitContainerStatuses) == 0 && len(s.ContainerStatuses) == 0
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// forget is called for pods that are gone.
func (w *Workloads) forget(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, pod.UID)
}

// begin and end stand around a list of all pods. Those that it does not have
// are gone.
func (w *Workloads) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.round++
}

func (w *Workloads) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, v := range w.pods {
		if v.round != w.round {
			delete(w.pods, uid)
		}
	}
}

// classes are RuntimeClasses that were looked up.
type classes struct {
	client kubernetes.Interface
	mu     sync.Mutex
	known  map[string]classEntry
}

type classEntry struct {
	class *nodev1.RuntimeClass
	at    time.Time
}

func (c *classes) get(ctx context.Context, name string) (*nodev1.RuntimeClass, error) {
	c.mu.Lock()
	e, ok := c.known[name]
	c.mu.Unlock()
	if ok && time.Since(e.at) < classAge {
		return e.class, nil
	}
	class, err := c.client.NodeV1().RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		delete(c.known, name)
		return nil, err
	}
	c.known[name] = classEntry{class, time.Now()}
	return class, nil
}
