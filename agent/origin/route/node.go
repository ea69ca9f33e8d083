package route

import (
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/wire"
)

// nodeResource is that of the node itself.
var nodeResource = corev1.SchemeGroupVersion.WithResource("nodes")

// aboutNode sends a request to the resource partition, with no other limit than the
// client's. The kubelet looks into its node for the volumes that are attached, which
// the tenant partitions attach.
func (t *table) aboutNode(q *origin.Request, own http.RoundTripper) (*http.Response, error) {
	resp, err := orElse(own, t.resourcePartition().rt).RoundTrip(q.HTTP)
	if err != nil || resp.StatusCode != http.StatusOK || q.Verb != origin.VerbGet || q.Resource != nodeResource ||
		q.Name != t.nodeName || q.Subresource != "" {
		return resp, err
	}
	volumes, err := t.collections.Attached()
	if err == nil && len(volumes) > 0 {
		err = attach(resp, volumes)
	}
	if err != nil {
		_ = resp.Body.Close() // the error that counts is the other one
		return nil, fmt.Errorf("adding the attached volumes to the node: %w", err)
	}
	return resp, nil
}

// attach adds volumes to the node in an answer.
func attach(resp *http.Response, volumes []corev1.AttachedVolume) error {
	info, err := wire.Serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	body, err := wire.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	if err != nil {
		return err
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return fmt.Errorf("it is a %T", obj)
	}
	attached := &node.Status.VolumesAttached
	for _, v := range volumes {
		if !slices.ContainsFunc(*attached, func(o corev1.AttachedVolume) bool { return o.Name == v.Name }) {
			*attached = append(*attached, v)
		}
	}
	if body, err = encode(info, node); err != nil {
		return err
	}
	setAnswer(resp, body)
	return nil
}
