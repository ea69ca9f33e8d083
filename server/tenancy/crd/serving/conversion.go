package serving

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// maxReview bounds the answer of a conversion webhook: upstream bounds nothing,
// and a tenant's webhook is not trusted.
const maxReview = 128 << 20

// translating has the conversion webhooks of a tenant see native objects.
func translating(
	wrap webhook.AuthenticationInfoResolverWrapper, p *wire.Projector,
) webhook.AuthenticationInfoResolverWrapper {
	return func(r webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		inner := wrap(r)
		with := func(cfg *rest.Config, err error) (*rest.Config, error) {
			if err != nil {
				return nil, err
			}
			cfg = rest.CopyConfig(cfg)
			cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &translator{inner: rt, p: p} })
			return cfg, nil
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(host string) (*rest.Config, error) { return with(inner.ClientConfigFor(host)) },
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return with(inner.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

// translator translates the objects in conversion reviews.
type translator struct {
	inner http.RoundTripper
	p     *wire.Projector
}

// RoundTrip implements http.RoundTripper.
func (t *translator) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body.Close() //nolint:errcheck // it was read
	var native []bool
	if body, err = t.review(body, "request", "objects", func(_ int, object []byte) ([]byte, error) {
		is, err := isNative(object)
		if native = append(native, is); is || err != nil {
			return object, err
		}
		if object, err = t.translate(object, wire.Out); err != nil {
			return nil, err
		}
		return withoutSpace(object)
	}); err != nil {
		return nil, fmt.Errorf("translating a conversion review: %w", err)
	}
	out := req.Clone(req.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	resp, err := t.inner.RoundTrip(out)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReview+1))
	resp.Body.Close() //nolint:errcheck // it was read
	if err != nil {
		return nil, err
	}
	if len(answer) > maxReview {
		return nil, fmt.Errorf("the answer of the conversion webhook is longer than %d bytes", maxReview)
	}
	if answer, err = t.review(answer, "response", "convertedObjects", func(i int, object []byte) ([]byte, error) {
		if i < len(native) && native[i] {
			return object, nil
		}
		return t.translate(object, wire.In)
	}); err != nil {
		return nil, fmt.Errorf("translating the answer of a conversion webhook: %w", err)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(answer)), int64(len(answer))
	resp.Header.Set("Content-Length", strconv.Itoa(len(answer)))
	return resp, nil
}

// isNative reports whether an object has native names already: those that the
// admission of the tenant converts have, which sees nothing else.
func isNative(object []byte) (bool, error) {
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &head); err != nil {
		return false, err
	}
	of, _ := space.SplitClusterName(head.Name)
	if head.Namespace != "" {
		of, _ = space.SplitNamespace(head.Namespace)
	}
	return of == space.System, nil
}

func (t *translator) translate(object []byte, d wire.Direction) ([]byte, error) {
	var head metav1.TypeMeta
	if err := json.Unmarshal(object, &head); err != nil {
		return nil, err
	}
	gvk := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	return t.p.JSON(d, wire.Resource{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}, object)
}

// review changes the objects that are in a member of a review.
func (t *translator) review(
	body []byte, member, list string, change func(i int, object []byte) ([]byte, error),
) ([]byte, error) {
	var review, part map[string]json.RawMessage
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, err
	}
	if len(review[member]) == 0 {
		return body, nil
	}
	if err := json.Unmarshal(review[member], &part); err != nil {
		return nil, err
	}
	var objects []json.RawMessage
	if len(part[list]) > 0 {
		if err := json.Unmarshal(part[list], &objects); err != nil {
			return nil, err
		}
	}
	for i, object := range objects {
		changed, err := change(i, object)
		if err != nil {
			return nil, err
		}
		objects[i] = changed
	}
	var err error
	if part[list], err = json.Marshal(objects); err != nil {
		return nil, err
	}
	if review[member], err = json.Marshal(part); err != nil {
		return nil, err
	}
	return json.Marshal(review)
}

// withoutSpace takes out what only answers to clients have.
func withoutSpace(object []byte) ([]byte, error) {
	var of, meta map[string]json.RawMessage
	if err := json.Unmarshal(object, &of); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(of["metadata"], &meta); err != nil {
		return nil, err
	}
	delete(meta, "tenant")
	delete(meta, "selfLink")
	var err error
	if of["metadata"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(of)
}
