package route

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
	"github.com/a4s-io/a4s/internal/space"
)

var (
	namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")
	volumeResource    = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
)

// clusterScoped sends on a request without a namespace, which is not about the node.
func (t *table) clusterScoped(q *origin.Request) (*http.Response, error) {
	switch {
	case t.collections.Has(q):
		return t.collections.Serve(q)
	case q.Resource.Group == "authentication.k8s.io" && q.Resource.Resource == "tokenreviews":
		return t.tokenReview(q)
	case q.Resource.Group == "authorization.k8s.io" && q.Resource.Resource == "subjectaccessreviews":
		return t.accessReview(q)
	case q.Resource == namespaceResource && q.Name != "":
		return t.namespace(q)
	case q.Name != "":
		return t.named(q, q.Name)
	}
	if name, ok := oneName(q); ok {
		return t.named(q, name)
	}
	// The list of one partition would be taken for that of all.
	return refuse(q, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		fmt.Sprintf("a node with several tenant partitions does not %s %s", q.Verb, q.Resource.Resource))
}

// oneName is the name of the only object that a list or watch asks for.
func oneName(q *origin.Request) (string, bool) {
	if !q.Collects() {
		return "", false
	}
	selector, err := fields.ParseSelector(q.Options.FieldSelector)
	if err != nil {
		return "", false
	}
	return selector.RequiresExactMatch("metadata.name")
}

// namespace sends on a request about a namespace itself.
func (t *table) namespace(q *origin.Request) (*http.Response, error) {
	p, composite := t.owner(q.Name)
	if p == nil {
		return homeless(q, q.Name)
	}
	if composite == q.Name {
		return p.do(q)
	}
	q = copyOf(q)
	rename(q, q.Name, composite)
	return p.translated(q)
}

// rename puts another name into the path.
func rename(q *origin.Request, name, other string) {
	resource := "/" + q.Resource.Resource + "/"
	q.HTTP.URL.Path = strings.Replace(q.HTTP.URL.Path, resource+name, resource+other, 1)
}

// named sends on a request about one object, which the path or a selector names.
func (t *table) named(q *origin.Request, name string) (*http.Response, error) {
	p, composite := t.ofName(name)
	if p == nil {
		return homeless(q, name)
	}
	q = copyOf(q)
	if resp, err := t.checkVersions(q); resp != nil || err != nil {
		return resp, err
	}
	if composite != name {
		rename(q, name, composite)
		query := q.HTTP.URL.Query()
		if query.Has("fieldSelector") {
			query.Set("fieldSelector", fields.OneTermEqualSelector("metadata.name", composite).String())
			q.HTTP.URL.RawQuery = query.Encode()
		}
		return p.translated(q)
	}
	tenant, _ := space.SplitClusterName(name)
	switch {
	case q.Resource == volumeResource && !p.Home:
		// It is a tenant's, and may refer to a Secret of its partition's system space.
		return p.translated(q)
	case !space.IsSystem(tenant), q.Resource == volumeResource, len(t.all) == 1:
		return p.do(q)
	}
	switch {
	case q.Verb == origin.VerbGet:
		if obj := t.collections.ByName(q.Resource, name); obj != nil && q.Subresource == "" {
			return codec.Answer(q.HTTP, q.Accept, http.StatusOK, obj)
		}
		return t.first(q)
	case q.Collects():
		return t.firstWith(q, name)
	}
	return p.do(q)
}

// first asks one partition after the other for an object, until one has it.
func (t *table) first(q *origin.Request) (*http.Response, error) {
	_, resp, err := t.search(q)
	return resp, err
}

// search returns the first partition that has an object, and its answer. If none has
// it, it returns no partition, and the answer of one that did not say that.
func (t *table) search(q *origin.Request) (*partition, *http.Response, error) {
	var last *http.Response
	for _, p := range t.all {
		resp, err := p.do(copyOf(q))
		switch {
		case err != nil:
			return nil, nil, err
		case resp.StatusCode/100 == 2:
			return p, resp, nil
		case last == nil || last.StatusCode == http.StatusNotFound:
			last = resp
		}
	}
	return nil, last, nil
}

// firstWith sends the list or watch of one object to the partition that has it, or to
// home.
func (t *table) firstWith(q *origin.Request, name string) (*http.Response, error) {
	get := copyOf(q)
	get.Verb, get.Name, get.Options = origin.VerbGet, name, metav1.ListOptions{}
	get.HTTP.URL = &url.URL{Scheme: q.HTTP.URL.Scheme, Host: q.HTTP.URL.Host, Path: q.HTTP.URL.Path + "/" + name}
	p, resp, err := t.search(get)
	switch {
	case err != nil:
		return nil, err
	case p != nil:
		return p.do(q)
	case resp.StatusCode != http.StatusNotFound:
		return resp, nil
	}
	return t.home.do(q)
}
