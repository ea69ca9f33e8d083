package resourcepartitions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
)

// room is what a node has: processors, in thousandths, and how many pods it takes.
type room struct {
	cpu  int64
	pods int
}

// taken is what a pod takes of it.
type taken struct {
	cpu   int64
	ports []int32
	name  string
}

// kubelets are the nodes: they admit pods as kubelets do.
type kubelets struct {
	has    room // each of them
	saying sync.WaitGroup

	mu       sync.Mutex
	used     map[string]map[types.UID]taken // by node
	rejected []string                       // why
	peak     int64
}

// follow runs the pods of a tenant partition until the test ends.
func (k *kubelets) follow(t *testing.T, tp *plane) {
	t.Helper()
	sync := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			k.sync(t.Context(), tp.admin, pod)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(tp.admin.CoreV1().RESTClient(), "pods", "",
			fields.OneTermNotEqualSelector("spec.nodeName", "")),
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: sync, UpdateFunc: func(_, obj any) { sync(obj) },
			DeleteFunc: func(obj any) {
				if pod, ok := obj.(*corev1.Pod); ok {
					k.end(pod)
				}
			}},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(t.Context())
	}()
	t.Cleanup(func() {
		<-done
		k.saying.Wait()
	})
}

func (k *kubelets) end(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.used[pod.Spec.NodeName], pod.UID)
}

// sync does what a pod asks for. What it says of it takes no time here: kubelets are many.
func (k *kubelets) sync(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) {
	pods := c.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		k.end(pod)
		k.saying.Go(func() {
			now := int64(0)
			_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now,
				Preconditions: &metav1.Preconditions{UID: &pod.UID}}) // it may be gone
		})
		return
	}
	if pod.Status.Phase != corev1.PodPending {
		return
	}
	reason := k.admit(pod)
	k.saying.Go(func() { k.say(ctx, pods, pod, reason) })
}

// say writes what became of a pod. The reason is why it was rejected.
func (k *kubelets) say(ctx context.Context, pods clientcorev1.PodInterface, pod *corev1.Pod, reason string) {
	status := map[string]any{"phase": "Running"}
	if reason != "" {
		status = map[string]any{"phase": "Failed", "reason": "Rejected", "message": "Pod was rejected: " + reason}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err == nil {
		_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	// A pod that is deleted at the moment when it is bound goes at once, like one that is
	// not: nobody waits for its node, which may hear of it when its room is given away.
	if reason != "" && !apierrors.IsNotFound(err) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.rejected = append(k.rejected, fmt.Sprintf("%s on %s: %s", pod.Name, pod.Spec.NodeName, reason))
	}
}

// takes is what a pod takes.
func takes(pod *corev1.Pod) taken {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out := taken{cpu: requests.Cpu().MilliValue(), name: pod.Name}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				out.ports = append(out.ports, p.HostPort)
			}
		}
	}
	return out
}

// admit takes a pod, or says why not.
func (k *kubelets) admit(pod *corev1.Pod) (reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	node := k.used[pod.Spec.NodeName]
	if node == nil {
		node = map[types.UID]taken{}
		k.used[pod.Spec.NodeName] = node
	}
	if _, ok := node[pod.UID]; ok {
		return ""
	}
	own := takes(pod)
	if reason = k.lacks(pod.Spec.NodeName, own); reason != "" {
		return fmt.Sprintf("%s: it takes %+v, and there are %+v", reason, own, slices.Collect(maps.Values(node)))
	}
	node[pod.UID] = own
	sum := int64(0)
	for _, other := range node {
		sum += other.cpu
	}
	k.peak = max(k.peak, sum)
	return ""
}

// lacks says what a node has too little of for a pod, "" for nothing. The caller holds mu.
func (k *kubelets) lacks(name string, own taken) string {
	left := k.has.cpu - own.cpu
	for _, other := range k.used[name] {
		left -= other.cpu
		if slices.ContainsFunc(own.ports, func(p int32) bool { return slices.Contains(other.ports, p) }) {
			return "NodePorts"
		}
	}
	switch {
	case left < 0:
		return "OutOfcpu"
	case len(k.used[name]) >= k.has.pods:
		return "OutOfpods"
	}
	return ""
}

// roomFor is a node that a pod fits on, "" for none.
func (k *kubelets) roomFor(pod *corev1.Pod, nodes []string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range nodes {
		if k.lacks(name, takes(pod)) == "" {
			return name
		}
	}
	return ""
}

// refusals are why pods were rejected.
func (k *kubelets) refusals() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.rejected)
}
