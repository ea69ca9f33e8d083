package edge

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/failure"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// showsGroups reports whether the answer may have the endpoints of the API in it as the
// cluster has them, which say the service group of each subset. Lists and watches of
// all namespaces do not: controllers have many of them, and need not know.
func (e *Edge) showsGroups(r *request) bool {
	if e.opts.Group == "" || r.resource == nil || r.resource.resource != "endpoints" {
		return false
	}
	asked := r.resource
	return asked.group == "" && asked.subresource == "" && asked.namespace == metav1.NamespaceDefault &&
		(asked.name == "" || asked.name == kinds.APIObject) &&
		space.IsSystem(r.ofTenant) && (r.space == "" || r.space == space.System)
}

// withGroups adds the service groups to what next answers.
func (e *Edge) withGroups(next http.Handler, asked *resourceRequest) http.Handler {
	p := e.Projector(space.All)
	p.Composite, p.Groups = true, partitionapi.GroupsAnnotation
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := handOn(w, withoutEncoding(req), next, p, asked, nil); err != nil {
			failure.Write(w, err)
		}
	})
}
