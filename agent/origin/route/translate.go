package route

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/origin/wire"
	"github.com/a4s-io/a4s/internal/space"
)

// names maps the names in an object: those of namespaces, and those of objects
// without one.
type names struct{ namespace, name func(string) string }

// toNode makes names of a partition those of the node.
func (p *partition) toNode() names {
	q := p.qualifier()
	return names{
		func(ns string) string { return space.QualifyNamespace(q, ns) },
		func(name string) string { return space.QualifyClusterName(q, name) },
	}
}

// fromNode is the inverse of toNode. Names of other partitions stay as they are.
func (p *partition) fromNode() names {
	own := func(unqualify func(string) (string, string)) func(string) string {
		return func(name string) string {
			if of, composite := unqualify(name); of == p.qualifier() {
				return composite
			}
			return name
		}
	}
	return names{own(space.UnqualifyNamespace), own(space.UnqualifyClusterName)}
}

// translate maps the names in an object or a list.
func (n names) translate(obj runtime.Object) error {
	if meta.IsListType(obj) {
		return meta.EachListItem(obj, n.translate)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil //nolint:nilerr // a Status has no names that count
	}
	m.SetNamespace(n.namespace(m.GetNamespace()))
	switch o := obj.(type) {
	case *corev1.Namespace:
		o.Name = n.namespace(o.Name)
	case *corev1.PersistentVolumeClaim:
		o.Spec.VolumeName = n.name(o.Spec.VolumeName)
	case *corev1.PersistentVolume:
		n.volume(o)
	case *corev1.Event:
		o.InvolvedObject.Namespace = n.namespace(o.InvolvedObject.Namespace)
		if o.Related != nil {
			o.Related.Namespace = n.namespace(o.Related.Namespace)
		}
	case *eventsv1.Event:
		o.Regarding.Namespace = n.namespace(o.Regarding.Namespace)
		if o.Related != nil {
			o.Related.Namespace = n.namespace(o.Related.Namespace)
		}
	}
	return nil
}

// volume maps the names that a kubelet follows from a volume.
func (n names) volume(pv *corev1.PersistentVolume) {
	pv.Name = n.name(pv.Name)
	if ref := pv.Spec.ClaimRef; ref != nil {
		ref.Namespace = n.namespace(ref.Namespace)
	}
	csi := pv.Spec.CSI
	if csi == nil {
		return
	}
	for _, ref := range []*corev1.SecretReference{csi.ControllerPublishSecretRef, csi.NodeStageSecretRef,
		csi.NodePublishSecretRef, csi.ControllerExpandSecretRef, csi.NodeExpandSecretRef} {
		if ref != nil {
			ref.Namespace = n.namespace(ref.Namespace)
		}
	}
}

// requestBody maps the namespace in a body that may have it. What cannot be read the
// server refuses.
func (n names) requestBody(body []byte, contentType, namespace string) []byte {
	if !bytes.Contains(body, []byte(namespace)) {
		return body
	}
	if strings.HasSuffix(contentType, "-patch+json") {
		return n.patch(body)
	}
	info, err := wire.Serializer(contentType)
	if err != nil {
		return body
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	if err != nil || n.translate(obj) != nil {
		return body
	}
	out, err := encode(info, obj)
	if err != nil {
		return body
	}
	return out
}

// patch maps the namespace in the metadata of a merge patch.
func (n names) patch(body []byte) []byte {
	var patch map[string]json.RawMessage
	var metadata map[string]json.RawMessage
	var namespace string
	if json.Unmarshal(body, &patch) != nil || json.Unmarshal(patch["metadata"], &metadata) != nil ||
		json.Unmarshal(metadata["namespace"], &namespace) != nil {
		return body
	}
	var err error
	if metadata["namespace"], err = json.Marshal(n.namespace(namespace)); err != nil {
		return body
	}
	if patch["metadata"], err = json.Marshal(metadata); err != nil {
		return body
	}
	out, err := json.Marshal(patch)
	if err != nil {
		return body
	}
	return out
}

// answer maps the names in an answer. One that cannot be read is an error.
func (n names) answer(ctx context.Context, resp *http.Response, watched bool) error {
	if resp.StatusCode/100 != 2 || resp.Body == nil {
		return nil
	}
	info, err := wire.Serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if watched {
		body, err := n.watch(ctx, resp.Body, info)
		if err == nil {
			resp.Body = body // else its caller closes that of the server
		}
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
	if err := n.translate(obj); err != nil {
		return err
	}
	if body, err = encode(info, obj); err != nil {
		return err
	}
	setAnswer(resp, body)
	return nil
}

func encode(info runtime.SerializerInfo, obj runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	err := info.Serializer.Encode(obj, &out)
	return out.Bytes(), err
}

func setAnswer(resp *http.Response, body []byte) {
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}

// watchBody is a watch whose events are mapped. To close it ends the watch.
type watchBody struct {
	*io.PipeReader
	server io.Closer
}

// Close implements io.Closer.
func (b watchBody) Close() error {
	_ = b.PipeReader.Close() // never fails
	return b.server.Close()
}

func (n names) watch(ctx context.Context, server io.ReadCloser, info runtime.SerializerInfo) (io.ReadCloser, error) {
	stream := info.StreamSerializer
	if stream == nil {
		return nil, fmt.Errorf("%q is not a format of watches", info.MediaType)
	}
	in, out := io.Pipe()
	body := watchBody{in, server}
	stop := context.AfterFunc(ctx, func() { _ = body.Close() }) // fails only if it is closed already
	go func() {
		defer stop()
		events := streaming.NewDecoder(stream.NewFrameReader(server), stream.Serializer)
		enc := streaming.NewEncoder(stream.NewFrameWriter(out), stream.Serializer)
		for {
			var e metav1.WatchEvent
			_, _, err := events.Decode(nil, &e)
			if err == nil {
				err = n.event(info, &e)
			}
			if err == nil {
				err = enc.Encode(&e)
			}
			if err != nil {
				_ = out.CloseWithError(err) // never fails
				return
			}
		}
	}()
	return body, nil
}

func (n names) event(info runtime.SerializerInfo, e *metav1.WatchEvent) error {
	if e.Type == string(watch.Error) {
		return nil
	}
	obj, _, err := info.Serializer.Decode(e.Object.Raw, nil, nil)
	if err != nil {
		return fmt.Errorf("reading a watch: %w", err)
	}
	if err := n.translate(obj); err != nil {
		return err
	}
	e.Object.Raw, err = encode(info, obj)
	return err
}
