package origin

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// offlineVersion is the resource version of a list that no server gave. A watch
// from there ends, with a new list, when there is a server.
const offlineVersion = "1"

// list answers with the checkpoint, of a server until version, and with the
// bootstrap pods.
func (b *Bootstrap) list(res *resource, version string) (*answer, error) {
	objs, known := b.checkpoint.all(res)
	if !known {
		return refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"what the API server last said of this node's pods is not known"), nil
	}
	objs, version = b.checkpoint.withRegistered(res, objs, version)
	list := res.list()
	if err := meta.SetList(list, objs); err != nil {
		return nil, err
	}
	if pods, ok := list.(*corev1.PodList); ok {
		b.pods.addTo(pods, version, false)
	}
	list.GetObjectKind().SetGroupVersionKind(res.gvk.GroupVersion().WithKind(res.gvk.Kind + "List"))
	if m, err := meta.ListAccessor(list); err == nil {
		m.SetResourceVersion(version)
	}
	return found(list), nil
}

// followed is the change that takes a server's list or watch of one resource into
// the checkpoint. In those of pods it merges the bootstrap pods.
type followed struct {
	checkpoint *checkpoint
	res        *resource
	pods       *localPods // nil for other resources
	version    string     // the last one seen
}

// follow returns the change for the server's answer to r, nil if there is none.
func (b *Bootstrap) follow(r *Request) *followed {
	res := b.collection(r)
	if res == nil {
		return nil
	}
	return b.followed(r, res)
}

func (b *Bootstrap) followed(r *Request, res *resource) *followed {
	f := &followed{checkpoint: b.checkpoint, res: res, version: r.Options.ResourceVersion}
	if r.Resource == podsResource {
		f.pods = b.pods
	}
	return f
}

// object takes over a list.
func (f *followed) object(_ context.Context, obj runtime.Object) (changed bool, err error) {
	objs, err := meta.ExtractList(obj)
	if err != nil {
		return false, err
	}
	if err := f.checkpoint.replace(f.res, objs); err != nil {
		return false, err
	}
	if m, err := meta.ListAccessor(obj); err == nil {
		f.checkpoint.reached(f.res, m.GetResourceVersion())
	}
	if list, ok := obj.(*corev1.PodList); ok && f.pods != nil {
		return f.pods.addTo(list, list.ResourceVersion, true), nil
	}
	return false, nil
}

// event takes over an event.
func (f *followed) event(_ context.Context, kind watch.EventType, obj runtime.Object) (changed, omit bool, err error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return false, false, err
	}
	f.version = m.GetResourceVersion()
	defer func() {
		if err == nil {
			f.checkpoint.reached(f.res, f.version)
		}
	}()
	if kind == watch.Bookmark {
		return false, false, nil
	}
	key, err := keyOf(obj)
	if err != nil {
		return false, false, err
	}
	if pod, ok := obj.(*corev1.Pod); ok && f.pods != nil {
		omit = !f.pods.observe(kind, pod)
	}
	if kind == watch.Deleted {
		f.checkpoint.drop(f.res, key)
	} else {
		f.checkpoint.set(f.res, key, obj)
	}
	return false, omit, nil
}
