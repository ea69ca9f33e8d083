package route

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/origin/codec"
	"github.com/a4s-io/a4s/agent/origin/qualify"
)

// names reads and writes what qualify maps.
type names struct{ qualify.Names }

// toNode makes names of a partition those of the node.
func (p *partition) toNode() names { return names{qualify.To(p.qualifier())} }

// fromNode is the inverse of toNode. Names of other partitions stay as they are.
func (p *partition) fromNode() names { return names{qualify.Of(p.qualifier())} }

// requestBody maps the namespace in a body that may have it. What cannot be read the
// server refuses.
func (n names) requestBody(body []byte, contentType, namespace string) []byte {
	if !bytes.Contains(body, []byte(namespace)) {
		return body
	}
	if strings.HasSuffix(contentType, "-patch+json") {
		return n.patch(body)
	}
	info, err := codec.Serializer(contentType)
	if err != nil {
		return body
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	if err != nil || n.Map(obj) != nil {
		return body
	}
	out, err := codec.Encode(info, obj)
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
	if metadata["namespace"], err = json.Marshal(n.Namespace(namespace)); err != nil {
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
	if !watched {
		return codec.Change(resp, func(obj runtime.Object) (bool, error) { return true, n.Map(obj) })
	}
	info, err := codec.Serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	body, err := n.watch(ctx, resp.Body, info)
	if err == nil {
		resp.Body = body // else its caller closes that of the server
	}
	return err
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
	in, out := io.Pipe()
	events, err := codec.ReadEvents(info, server)
	if err != nil {
		return nil, err
	}
	to, err := codec.WriteEvents(info, out)
	if err != nil {
		return nil, err
	}
	body := watchBody{in, server}
	stop := context.AfterFunc(ctx, func() { _ = body.Close() }) // fails only if it is closed already
	go func() {
		defer stop()
		for {
			e, err := events.Next()
			if err == nil {
				err = n.event(info, &e)
			}
			if err == nil {
				err = to.Event(&e)
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
	if err := n.Map(obj); err != nil {
		return err
	}
	e.Object.Raw, err = codec.Encode(info, obj)
	return err
}
