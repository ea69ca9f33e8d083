package route

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
	"github.com/a4s-io/a4s/agent/origin/merge"
	"github.com/a4s-io/a4s/internal/space"
)

// namespaced sends a request with a namespace to the partition that has it.
func (t *table) namespaced(q *origin.Request) (*http.Response, error) {
	if isEvent(q) {
		return t.event(q)
	}
	p, composite := t.owner(q.Namespace)
	if p == nil {
		return homeless(q, q.Namespace)
	}
	return t.forward(p, q, composite)
}

func homeless(q *origin.Request, name string) (*http.Response, error) {
	return unavailable(q, fmt.Sprintf("this node knows no partition that has %q", name))
}

// forward sends a request to a partition where the namespace is called composite.
func (t *table) forward(p *partition, q *origin.Request, composite string) (*http.Response, error) {
	q = copyOf(q)
	if resp, err := t.checkVersions(q); resp != nil || err != nil {
		return resp, err
	}
	if composite == q.Namespace {
		return p.do(q)
	}
	q.HTTP.URL.Path = strings.Replace(q.HTTP.URL.Path, "/namespaces/"+q.Namespace+"/", "/namespaces/"+composite+"/", 1)
	if q.HTTP.Body != nil {
		body, err := codec.ReadAll(q.HTTP.Body)
		if err != nil {
			return nil, err
		}
		q.SetBody(p.fromNode().requestBody(body, q.ContentType, q.Namespace))
	}
	return p.translated(q)
}

// translated sends a request and maps the names in the answer.
func (p *partition) translated(q *origin.Request) (*http.Response, error) {
	resp, err := p.do(q)
	if err != nil {
		return nil, err
	}
	if err := p.toNode().answer(q.HTTP.Context(), resp, q.Verb == origin.VerbWatch); err != nil {
		_ = resp.Body.Close() // the error that counts is the other one
		return nil, fmt.Errorf("reading %s of partition %s: %w", q.Resource.Resource, p.Name, err)
	}
	return resp, nil
}

// copyOf is a request that can be changed; the caller's stays as it is.
func copyOf(q *origin.Request) *origin.Request {
	out := *q
	out.HTTP = q.HTTP.Clone(q.HTTP.Context())
	return &out
}

// checkVersions keeps resource versions of this node from the servers. It answers if
// the request cannot do without.
func (t *table) checkVersions(q *origin.Request) (*http.Response, error) {
	if merge.IsLocal(q.Options.ResourceVersion) {
		if q.Collects() {
			return refuse(q, http.StatusGone, metav1.StatusReasonExpired,
				"the resource version is of this node and of another list; list again")
		}
		withoutVersion(q.HTTP.URL)
	}
	switch q.Verb {
	case origin.VerbUpdate, origin.VerbPatch, origin.VerbDelete:
	default:
		return nil, nil
	}
	if q.HTTP.Body == nil || !t.collections.Holds(q.Resource) {
		return nil, nil
	}
	body, err := codec.ReadAll(q.HTTP.Body)
	if err != nil {
		return nil, err
	}
	q.SetBody(body)
	if !merge.IsLocal(precondition(body, q.ContentType)) {
		return nil, nil
	}
	return refuse(q, http.StatusConflict, metav1.StatusReasonConflict,
		"the resource version is of a list of this node, which no server knows; get the object by its name")
}

func withoutVersion(u *url.URL) {
	query := u.Query()
	query.Del("resourceVersion")
	query.Del("resourceVersionMatch")
	u.RawQuery = query.Encode()
}

// precondition is the resource version that a body asks the object to have.
func precondition(body []byte, contentType string) string {
	var fields struct {
		Metadata      struct{ ResourceVersion string }
		Preconditions struct{ ResourceVersion string }
	}
	if strings.HasSuffix(contentType, "json") {
		if json.Unmarshal(body, &fields) != nil {
			return jsonPatchVersion(body)
		}
		if v := fields.Preconditions.ResourceVersion; v != "" {
			return v
		}
		return fields.Metadata.ResourceVersion
	}
	info, err := codec.Serializer(contentType)
	if err != nil {
		return "" // the server says so
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	if err != nil {
		return ""
	}
	if o, ok := obj.(*metav1.DeleteOptions); ok {
		if o.Preconditions != nil && o.Preconditions.ResourceVersion != nil {
			return *o.Preconditions.ResourceVersion
		}
		return ""
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}

// jsonPatchVersion is the resource version that a JSON patch tests or sets.
func jsonPatchVersion(body []byte) string {
	var steps []struct {
		Path  string
		Value any
	}
	if json.Unmarshal(body, &steps) != nil {
		return ""
	}
	for _, s := range steps {
		if v, ok := s.Value.(string); ok && s.Path == "/metadata/resourceVersion" {
			return v
		}
	}
	return ""
}

// ofName returns the partition that a name without a namespace tells, and what the
// object is called there. It is home for plain names, nil if it is not known.
func (t *table) ofName(name string) (p *partition, composite string) {
	if of, composite := space.UnqualifyClusterName(name); of != "" {
		if p := t.byName[of]; p != nil && !p.Home {
			return p, composite
		}
		return nil, name
	}
	tenant, _ := space.SplitClusterName(name)
	return t.ofTenant(tenant), name
}
