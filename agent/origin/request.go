package origin

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Request is a request of the kubelet, parsed once.
type Request struct {
	// HTTP is the request itself.
	HTTP *http.Request
	// Verb is that of the API: get, list, watch, create, update, patch or
	// delete; empty for others.
	Verb string
	// Resource, Subresource, Namespace and Name are what the path names; empty
	// where it names nothing. A subresource may have a path below it.
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string
	// Options are those of a get, list or watch, with the field selector. They
	// are empty if they cannot be parsed: a server refuses them.
	Options metav1.ListOptions
	// ContentType is the media type of the body.
	ContentType string
	// Accept is the media type of an answer that no server gave.
	Accept string
	// OptionsErr says why Options are empty.
	OptionsErr error
}

// Verbs of requests.
const (
	VerbGet    = "get"
	VerbList   = "list"
	VerbWatch  = "watch"
	VerbCreate = "create"
	VerbUpdate = "update"
	VerbPatch  = "patch"
	VerbDelete = "delete"
)

var (
	podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	svcResource  = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	nodeResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

var verbs = map[string]string{
	http.MethodGet: VerbGet, http.MethodPost: VerbCreate, http.MethodPut: VerbUpdate,
	http.MethodPatch: VerbPatch, http.MethodDelete: VerbDelete,
}

// paths are read as an API server does, which takes these prefixes for those of APIs.
var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// parse reads a request. What its path means is read once, by upstream's code, and is in the context
// from then on, for who gets the request next: as long as the path is the one that was read.
func parse(r *http.Request) *Request {
	p := &Request{HTTP: r, Verb: verbs[r.Method], Accept: runtime.ContentTypeJSON}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil {
		p.ContentType = mediaType
	}
	if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		p.Accept = runtime.ContentTypeProtobuf
	}
	if p.Verb == VerbGet {
		query := r.URL.Query()
		if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &p.Options, nil); err != nil {
			p.Options, p.OptionsErr = metav1.ListOptions{}, err
		}
	}
	info, known := request.RequestInfoFrom(r.Context())
	if !known || info.Path != r.URL.Path {
		var err error
		if info, err = paths.NewRequestInfo(withoutPrefix(r)); err != nil {
			info = &request.RequestInfo{} // it never fails
		}
		p.HTTP = r.WithContext(request.WithRequestInfo(r.Context(), info))
	}
	p.names(info)
	switch {
	case p.Verb != VerbGet || p.Name != "":
	case p.Options.Watch:
		p.Verb = VerbWatch
	default:
		p.Verb = VerbList
	}
	return p
}

// withoutPrefix is a request on the path of the API, which may have another one before it.
func withoutPrefix(r *http.Request) *http.Request {
	at := strings.Index(r.URL.Path, "/api/")
	if group := strings.Index(r.URL.Path, "/apis/"); at < 0 || group >= 0 && group < at {
		at = group
	}
	if at <= 0 {
		return r
	}
	bare, to := *r, *r.URL
	to.Path, bare.URL = to.Path[at:], &to
	return &bare
}

// names takes over what the path names.
func (p *Request) names(info *request.RequestInfo) {
	if !info.IsResourceRequest {
		return
	}
	p.Resource = schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if p.Namespace = info.Namespace; info.APIGroup == "" && info.Resource == "namespaces" {
		p.Namespace = "" // it is the name
	}
	if len(info.Parts) > 1 {
		p.Name = info.Parts[1] // info.Name may come from a field selector
	}
	if len(info.Parts) > 2 {
		p.Subresource = strings.Join(info.Parts[2:], "/")
	}
	asked := p.Options.Watch && p.Name == "" || p.OptionsErr != nil
	if info.Verb == "proxy" || info.Verb == VerbWatch && !asked {
		// The verb is in the path, as in the past.
		p.Resource.Resource, p.Subresource, p.Namespace, p.Name = info.Verb, "", "", info.Resource
	}
}

// SetBody gives the request another body. The caller's HTTP request stays as it is.
func (p *Request) SetBody(body []byte) {
	p.HTTP = p.HTTP.Clone(p.HTTP.Context())
	p.HTTP.Body = io.NopCloser(bytes.NewReader(body))
	p.HTTP.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	p.HTTP.ContentLength = int64(len(body))
	if p.HTTP.Header.Get("Content-Length") != "" {
		p.HTTP.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}

// Collects reports whether the request lists or watches.
func (p *Request) Collects() bool {
	return (p.Verb == VerbList || p.Verb == VerbWatch) && p.Subresource == ""
}
