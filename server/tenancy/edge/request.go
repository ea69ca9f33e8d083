package edge

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// request is one HTTP request as the edge resolves it. It is made once, where the
// request comes in, and handed on: two readings of the same path could differ, and
// the difference would lead from one space into another.
//
// It is filled in three steps, and what a step has filled in stays as it is. read takes
// what the request says, identify adds the user and with them the space, and findKind
// looks up what the resource is in that space. The last step comes as late as it can: a
// CRD may change while a request waits for a seat.
type request struct {
	// mark is that of a request which another partition sent on, partition the one that the
	// path of the client begins with. They are set before all others.
	mark      *Mark
	partition string

	// Set by read.

	// sent is the path as the client sent it, path the short one.
	sent, path string
	// inPath is the tenant that the path names, "" on a short path.
	inPath string
	// resource is what is asked for, nil for a non-resource request.
	resource *resourceRequest
	// document is the discovery or OpenAPI document that is asked for, or nil.
	document *documentRequest
	// verb is for limits and metrics; a long request lasts as long as the client
	// likes.
	verb string
	long bool
	// table is set where a client lists or watches a resource as a table, without
	// saying a namespace or a name.
	table bool

	// Set by identify.

	// members are the tenants of which the user is a member if these are several: no more
	// than where their requests wait and the answer to one that chooses none go by them.
	members []string
	// user is the authenticated user, nil until then, and userTenant their tenant.
	user       user.Info
	userTenant string
	// ofTenant is the tenant of the user that counts: of the impersonated one if
	// a user of the system impersonates one.
	ofTenant string
	// space is the space that the request is addressed to, "" for the composite
	// view of the whole cluster.
	space string
	// confined is set by confineShort when the request is on a short path and reaches the
	// space of the system alone.
	confined bool

	// kindFound is set by findKind.
	kindFound bool
}

// resourceRequest is what a request for a resource asks for, by its short path.
type resourceRequest struct {
	group, version string
	resource, name string // name is native
	namespace      string // native
	subresource    string
	verb           string // as upstream calls it
	streams        bool   // the subresource carries bytes of containers
	selects        bool   // upstream reads selectors of the query
	// namespaceAt and nameAt are the places in the path, 0 when absent.
	segments            []string
	slash               string // the trailing slash, which proxied servers may care for
	namespaceAt, nameAt int

	// Set by findKind.

	kind    kinds.Kind
	known   bool          // kind is filled in
	builtIn bool          // the resource is not a custom one
	wire    wire.Resource // for the translation of bodies
}

// receive is the first step. Comes in: a request of a client, or one that another partition
// sent on. Goes out: what it says, before anybody is asked who sent it.
func (o *others) receive(req *http.Request) (*http.Request, *request) {
	req, mark, partition := o.fromPartition(req)
	r := read(req)
	r.mark, r.partition = mark, partition
	return req, r
}

// fromPartition takes off a request what other partitions said of it, and the partition
// that its path names: /partitions/NAME/...
func (o *others) fromPartition(req *http.Request) (_ *http.Request, mark *Mark, named string) {
	if o.partitions == nil {
		return req, nil, ""
	}
	mark = o.partitions.Received(req)
	rest, ok := strings.CutPrefix(req.URL.Path, partitionapi.PathPrefix)
	if !ok || mark != nil {
		return req, mark, ""
	}
	named, tail, _ := strings.Cut(rest, "/")
	if named == "" {
		return req, nil, ""
	}
	return withPath(req, "/"+tail), nil, named
}

// read resolves what the request itself says.
func read(req *http.Request) *request {
	addr := splitAddress(req.URL.Path)
	r := &request{sent: req.URL.Path, path: addr.path, inPath: addr.tenant}
	if asked, ok := parse(withPath(req, r.path)); ok {
		r.resource = &asked
		r.table = asked.name == "" && asked.namespace == "" && (asked.verb == "list" || asked.verb == "watch") &&
			strings.Contains(req.Header.Get("Accept"), "as=Table") && req.Header.Get("Upgrade") == ""
	} else {
		r.document = documentOf(req, r.path, r.prefix())
	}
	r.verb, r.long = describe(req.Method, r.resource)
	return r
}

// prefix is the /tenants/<t> that the path begins with, or "".
func (r *request) prefix() string {
	if r.inPath == "" || !strings.HasPrefix(r.sent, "/tenants/") {
		return ""
	}
	return "/tenants/" + r.inPath
}

// address is a request path without its tenant.
type address struct {
	// tenant is the space named in the path, "" on a short path.
	tenant string
	// path is the short path.
	path string
}

// splitAddress takes the tenant out of a path: /tenants/<t>/api/v1/... and
// /api/v1/tenants/<t>/... and /apis/<group>/<version>/tenants/<t>/...
//
// What names the Tenant object itself (/api/v1/tenants/<t>, .../status) is a
// short path; so is a custom resource that happens to be called tenants.
func splitAddress(path string) address {
	if rest, ok := strings.CutPrefix(path, "/tenants/"); ok {
		tenant, tail, _ := strings.Cut(rest, "/")
		if tenant != "" {
			return address{tenant: tenant, path: "/" + tail}
		}
		return address{path: path}
	}
	segments := 2 // api, version
	if strings.HasPrefix(path, "/apis/") {
		segments = 3 // apis, group, version
	} else if !strings.HasPrefix(path, "/api/") {
		return address{path: path}
	}
	head, tail := cutSegments(path, segments)
	if rest, ok := strings.CutPrefix(tail, "/watch/tenants/"); ok {
		if a := splitTenant(head+"/watch", rest); a.tenant != "" {
			return a
		}
	}
	if rest, ok := strings.CutPrefix(tail, "/tenants/"); ok {
		if a := splitTenant(head, rest); a.tenant != "" {
			return a
		}
	}
	return address{path: path}
}

// splitTenant reads <t>/<more> after "tenants/".
func splitTenant(head, rest string) address {
	tenant, more, _ := strings.Cut(rest, "/")
	// The slash at the end is kept: proxied servers may care for it.
	switch strings.TrimSuffix(more, "/") {
	case "", "status", "scale":
		return address{}
	}
	return address{tenant: tenant, path: head + "/" + more}
}

// cutSegments splits a path after n segments.
func cutSegments(path string, n int) (head, tail string) {
	i := 0
	for ; n > 0; n-- {
		next := strings.IndexByte(path[i+1:], '/')
		if next < 0 {
			return path, ""
		}
		i += 1 + next
	}
	return path[:i], path[i:]
}

// requests reads requests as the API server behind the edge does, which takes
// these prefixes for those of APIs.
var requests = endpoints.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// parsePath is parse for a path of an OpenAPI document, which is no request.
func parsePath(path string) (r resourceRequest, ok bool) {
	return parse(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
}

// parse reads a request on a short path. Upstream's own code decides what the parts
// of the path are and what the query means: an edge that took a watch for a list
// would show events of one space to another. ok is false for non-resource requests:
// discovery, OpenAPI, health, version.
func parse(req *http.Request) (r resourceRequest, ok bool) {
	r.segments = strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(req.URL.Path) > 1 && strings.HasSuffix(req.URL.Path, "/") {
		r.slash = "/"
	}
	info, err := requestInfo(req)
	if err != nil || !info.IsResourceRequest {
		return r, false
	}
	r.group, r.version, r.verb = info.APIGroup, info.APIVersion, info.Verb
	// Before the resource are the prefix, the group, the version, a special verb,
	// and the namespace with its word.
	at := len(r.segments) - len(info.Parts)
	before := 3
	if requests.GrouplessAPIPrefixes.Has(info.APIPrefix) {
		before = 2
	}
	if at >= before+2 {
		r.namespace, r.namespaceAt = r.segments[at-1], at-1
	}
	r.resource, r.subresource = info.Resource, info.Subresource
	r.streams, r.selects = streams(r.group, r.subresource), selects(r.verb)
	if len(info.Parts) > 1 {
		// Not info.Name, which may come from a field selector.
		r.name, r.nameAt = info.Parts[1], at+1
	}
	return r, true
}

// requestInfo is what upstream makes of a request. It reads the selectors of a list, which
// takes ten milliseconds for a query of half a megabyte: what boundQuery refuses is told by
// its path alone.
func requestInfo(req *http.Request) (*endpoints.RequestInfo, error) {
	if len(req.URL.RawQuery) > longestQuery {
		path := *req.URL
		path.RawQuery = ""
		bare := *req
		bare.URL = &path
		info, err := requests.NewRequestInfo(&bare)
		if err != nil || selects(info.Verb) {
			return info, err
		}
	}
	return requests.NewRequestInfo(req)
}

// streams reports whether a subresource carries bytes of containers.
func streams(group, subresource string) bool {
	switch subresource {
	case "exec", "attach", "portforward", "proxy", "log":
		return group == ""
	}
	return false
}

// selects reports whether upstream reads selectors of the query.
func selects(verb string) bool {
	switch verb {
	case "list", "watch", "deletecollection":
		return true
	}
	return false
}

// describe is the verb of a request for limits and metrics, and whether it lasts as
// long as the client likes. asked is nil for a non-resource request.
func describe(method string, asked *resourceRequest) (verb string, long bool) {
	switch {
	case asked == nil && method == http.MethodGet:
		return "get", false
	case asked == nil:
		return "other", false
	case asked.streams:
		return "connect", true
	}
	switch asked.verb {
	case "get", "list", "create", "update", "patch", "delete", "deletecollection":
		return asked.verb, false
	case "watch":
		return asked.verb, true
	}
	return "other", false
}

// isNamespace reports whether the request is about Namespace objects.
func (r *resourceRequest) isNamespace() bool { return r.group == "" && r.resource == "namespaces" }

func (r *resourceRequest) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.resource}
}

// withPath is req with another path and everything else as it was.
func withPath(req *http.Request, path string) *http.Request {
	if req.URL.Path == path {
		return req
	}
	out := new(http.Request)
	*out = *req
	u := *req.URL
	u.Path, u.RawPath = path, ""
	out.URL = &u
	out.RequestURI = u.RequestURI()
	return out
}
