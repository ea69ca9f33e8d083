package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

const inCBOR = "application/cbor"

// watchBody checks the body of a system user's request on a short path when it is
// read: if it names a space, it must be the space of the system, because the path
// is. Bodies that are proxied to pods and nodes are not objects.
func (e *Edge) watchBody(req *http.Request, r *resourceRequest) *http.Request {
	if req.Body == nil || req.Body == http.NoBody || !writes(req.Method) ||
		req.Method == http.MethodDelete || r.streams {
		return req
	}
	// Protobuf has no such field, and the components of the cluster send protobuf.
	if media, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")); media == protobuf {
		return req
	}
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	b := &body{native: req.Body, method: req.Method, mediaType: req.Header.Get("Content-Type"),
		projector: e.Projector(space.System), resource: r.wire, shortPath: req.URL.Path, asked: r}
	b.replaceBody(out)
	return out
}

// refuseTenant refuses a body on a short path that names the space of a tenant. A
// get or delete of the same path is about the object of the system, so a write must
// not be about another object.
func (b *body) refuseTenant(tenant string) error {
	if space.ValidateTenant(tenant) != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("metadata.tenant is %.64q, which is the name of no tenant; "+
			"the path %s is of the space of the system", tenant, b.shortPath))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("metadata.tenant is %q, "+
		"but the path %s is of the space of the system: write to %s, or below the path /tenants/%s of the server, "+
		"as \"a4s kubectl --tenant %s\" and the kubeconfig of \"a4s tenant kubeconfig %s\" do",
		tenant, b.shortPath, b.asked.fullPath(tenant), tenant, tenant, tenant))
}

// fullPath is the full path of a request on a short one.
func (r *resourceRequest) fullPath(tenant string) string {
	segments := slices.Clone(r.segments)
	at := 2 // api, version
	if r.group != "" {
		at = 3
	}
	if r.namespaceAt > 0 {
		if of, native := space.SplitNamespace(r.namespace); of == tenant {
			segments[r.namespaceAt] = native
		}
	}
	head, tail := cutSegments("/"+strings.Join(segments, "/"), at)
	return head + "/tenants/" + tenant + tail
}

// ignoreTenant notes that a body names another space than the request. The request
// counts.
func (b *body) ignoreTenant(field, value string) error {
	named := value
	if field == "selfLink" {
		if named = splitAddress(value).tenant; named == "" || named == b.projector.View.Tenant {
			return nil
		}
	}
	if b.warning == "" {
		b.warning = fmt.Sprintf("metadata.%s: the space %.64q is ignored, the request is for the space %q", field,
			named, b.projector.View.Tenant)
	}
	return nil
}

// tenantIn is the space that a body names, "" if it names none or cannot be decoded:
// the API server refuses such bodies.
func tenantIn(media string, body []byte) (string, error) {
	switch {
	case media == inCBOR || media == string(types.ApplyCBORPatchType):
		var object map[string]any
		if direct.Unmarshal(body, &object) != nil {
			return "", nil
		}
		tenant, _, _ := unstructured.NestedString(object, "metadata", "tenant") //nolint:errcheck // it is no string
		return tenant, nil
	case media == string(types.JSONPatchType):
		return wire.TellPatch(body).Tenant, nil
	case !bytes.Contains(body, []byte("tenant")) && (bytes.IndexByte(body, '\\') < 0 || !json.Valid(body)):
		return "", nil
	case !json.Valid(body):
		var err error
		if body, err = wire.FromYAML(body); errors.Is(err, wire.ErrTooLarge) {
			return "", refusedBody(err)
		} else if err != nil {
			return "", nil
		}
	}
	return wire.Tell(body).Tenant, nil
}
