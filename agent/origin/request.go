package origin

import (
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func parse(r *http.Request) *Request {
	p := &Request{HTTP: r, Verb: verbs[r.Method], Accept: runtime.ContentTypeJSON}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil {
		p.ContentType = mediaType
	}
	if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		p.Accept = runtime.ContentTypeProtobuf
	}
	p.parsePath(r.URL.Path)
	if p.Verb != VerbGet {
		return p
	}
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &p.Options, nil); err != nil {
		p.Options, p.OptionsErr = metav1.ListOptions{}, err
	}
	switch {
	case p.Name != "":
	case p.Options.Watch:
		p.Verb = VerbWatch
	default:
		p.Verb = VerbList
	}
	return p
}

// parsePath reads the path of the API, which may have a prefix.
func (p *Request) parsePath(path string) {
	core, group := strings.Index(path, "/api/"), strings.Index(path, "/apis/")
	var parts []string
	switch {
	case core >= 0 && (group < 0 || core < group):
		parts = strings.Split(strings.Trim(path[core+len("/api/"):], "/"), "/")
		p.Resource.Version, parts = parts[0], parts[1:]
	case group >= 0:
		parts = strings.Split(strings.Trim(path[group+len("/apis/"):], "/"), "/")
		if len(parts) < 2 {
			return
		}
		p.Resource.Group, p.Resource.Version, parts = parts[0], parts[1], parts[2:]
	}
	if len(parts) >= 3 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		p.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		p.Resource.Resource = parts[0]
	}
	if len(parts) > 1 {
		p.Name = parts[1]
	}
	if len(parts) > 2 {
		p.Subresource = strings.Join(parts[2:], "/")
	}
}

// Collects reports whether the request lists or watches.
func (p *Request) Collects() bool {
	return (p.Verb == VerbList || p.Verb == VerbWatch) && p.Subresource == ""
}
