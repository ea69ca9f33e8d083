package route

import (
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
	"github.com/a4s-io/a4s/agent/origin/merge"
)

func isEvent(q *origin.Request) bool {
	return q.Resource.Resource == "events" && (q.Resource.Group == "" || q.Resource.Group == eventsv1.GroupName)
}

// nodeEvents is the namespace that events about the node are in, among others.
const nodeEvents = "default"

// event sends an event about the node to the resource partition, and others to the
// partition of what they are about.
func (t *table) event(q *origin.Request) (*http.Response, error) {
	q = copyOf(q)
	body, err := codec.ReadAll(q.HTTP.Body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		q.SetBody(body)
	}
	switch q.Verb {
	case origin.VerbCreate, origin.VerbUpdate:
		return t.newEvent(q, body)
	case origin.VerbPatch:
		if q.Namespace == nodeEvents && strings.HasPrefix(q.Name, t.nodeName+".") {
			// A patch does not tell what the event is about, and a pod may be
			// called like the node.
			resp, err := t.resourcePartition().do(q)
			if err != nil || resp.StatusCode != http.StatusNotFound || t.node == nil {
				return resp, err
			}
			q.SetBody(body)
		}
	}
	p, composite := t.owner(q.Namespace)
	if p == nil {
		return homeless(q, q.Namespace)
	}
	return t.forward(p, q, composite)
}

func (t *table) newEvent(q *origin.Request, body []byte) (*http.Response, error) {
	p, composite := t.owner(q.Namespace)
	info, err := codec.Serializer(q.ContentType)
	var obj runtime.Object
	if err == nil {
		obj, _, err = info.Serializer.Decode(body, nil, nil)
	}
	if err == nil {
		ref := about(obj)
		if ref != nil && ref.Kind == "Node" && ref.Namespace == "" && q.Namespace == nodeEvents {
			p, composite = t.resourcePartition(), q.Namespace
		}
		if ref != nil && merge.IsLocal(ref.ResourceVersion) {
			ref.ResourceVersion = ""
			if body, err = codec.Encode(info, obj); err != nil {
				return nil, err
			}
			q.SetBody(body)
		}
	}
	if p == nil {
		return homeless(q, q.Namespace)
	}
	return t.forward(p, q, composite)
}

// about is what an event is about, nil if it is none.
func about(obj runtime.Object) *corev1.ObjectReference {
	switch e := obj.(type) {
	case *corev1.Event:
		return &e.InvolvedObject
	case *eventsv1.Event:
		return &e.Regarding
	}
	return nil
}
