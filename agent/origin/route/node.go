package route

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
)

// nodeResource is that of the node itself.
var nodeResource = corev1.SchemeGroupVersion.WithResource("nodes")

// aboutNode sends a request to the resource partition, with no other limit than the
// client's. The kubelet looks into its node for the volumes that are attached, which
// the tenant partitions attach.
func (t *table) aboutNode(q *origin.Request, own http.RoundTripper) (*http.Response, error) {
	if name, one := oneName(q); one && q.Resource == nodeResource && q.Collects() && name == t.nodeName {
		return t.listsNode(q, own)
	}
	resp, err := orElse(own, t.resourcePartition()).RoundTrip(q.HTTP)
	if err != nil || resp.StatusCode != http.StatusOK || q.Verb != origin.VerbGet || q.Resource != nodeResource ||
		q.Name != t.nodeName || q.Subresource != "" {
		return resp, err
	}
	t.self.seen()
	volumes, err := t.collections.Attached(q.HTTP.Context())
	if err == nil && len(volumes) > 0 {
		err = attach(resp, volumes)
	}
	if err != nil {
		_ = resp.Body.Close() // the error that counts is the other one
		return nil, fmt.Errorf("adding the attached volumes to the node: %w", err)
	}
	return resp, nil
}

// missed is for how long a list without the node counts as no answer: the partition may have been
// restored from a snapshot that is older than the node, which registers again.
const missed = time.Minute

// ownNode is what is known of the node itself.
type ownNode struct {
	mu      sync.Mutex
	there   bool
	missing time.Time // since when lists lack it, zero if they do not
}

func (n *ownNode) seen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.there, n.missing = true, time.Time{}
}

// lacking reports whether a list without the node is to be believed.
func (n *ownNode) lacking() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.there && n.missing.IsZero() {
		n.missing = time.Now()
	}
	return !n.there || time.Since(n.missing) > missed
}

// listsNode sends on a list or watch of the node itself. kube-proxy ends the process when its node
// is gone, so what a list lacks is not believed at once; the event of a deletion is.
func (t *table) listsNode(q *origin.Request, own http.RoundTripper) (*http.Response, error) {
	if q.Verb == origin.VerbWatch && q.Options.SendInitialEvents != nil {
		return refuse(q, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"sendInitialEvents: a node with several tenant partitions lists itself")
	}
	resp, err := orElse(own, t.resourcePartition()).RoundTrip(q.HTTP)
	if err != nil || resp.StatusCode != http.StatusOK || q.Verb != origin.VerbList {
		return resp, err
	}
	info, err := codec.Serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return resp, nil //nolint:nilerr // its client cannot read it either
	}
	body, err := codec.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	codec.SetBody(resp, body)
	switch obj, _, err := info.Serializer.Decode(body, nil, nil); {
	case err != nil || meta.LenList(obj) > 0:
		t.self.seen()
	case !t.self.lacking():
		return unavailable(q, "the partition of this node does not know it")
	}
	return resp, nil
}

// attach adds volumes to the node in an answer.
func attach(resp *http.Response, volumes []corev1.AttachedVolume) error {
	return codec.Change(resp, func(obj runtime.Object) (bool, error) {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return false, fmt.Errorf("it is a %T", obj)
		}
		attached := &node.Status.VolumesAttached
		for _, v := range volumes {
			if !slices.ContainsFunc(*attached, func(o corev1.AttachedVolume) bool { return o.Name == v.Name }) {
				*attached = append(*attached, v)
			}
		}
		return true, nil
	})
}
