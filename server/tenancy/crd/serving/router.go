package serving

import (
	"net/http"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/crd"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Wrap puts the server in front of upstream's, which serves everything else and
// the custom resources of the system space.
func (s *Server) Wrap(next http.Handler) http.Handler {
	builtIn := kinds.Groups()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		switch {
		case !ok || !info.IsResourceRequest:
			next.ServeHTTP(w, req)
		case info.APIGroup == "apiextensions.k8s.io" && info.APIVersion == "v1" &&
			info.Resource == "customresourcedefinitions":
			s.definitions.ServeHTTP(w, req)
		case builtIn[info.APIGroup]:
			next.ServeHTTP(w, req)
		default:
			s.serve(w, req, info, next)
		}
	})
}

// serve serves a custom resource.
func (s *Server) serve(w http.ResponseWriter, req *http.Request, info *request.RequestInfo, next http.Handler) {
	r := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	tenant, addressed := space.FromContext(req.Context())
	if !addressed {
		if u, ok := request.UserFrom(req.Context()); ok && authn.IsController(u) &&
			!s.o.Catalog.Excluded(info.APIGroup) {
			s.serveController(w, req, info, next)
			return
		}
		tenant = tenantIn(info)
	}
	if space.IsSystem(tenant) {
		if addressed || namesOne(info) || s.o.Catalog.SystemServes(r.WithVersion(info.APIVersion)) ||
			!s.o.Catalog.Unites(r) {
			next.ServeHTTP(w, req)
			return
		}
		s.union.ServeHTTP(w, req)
		return
	}
	serve := func(w http.ResponseWriter, req *http.Request) {
		source, found := s.o.Catalog.Serving(tenant, r)
		if found != nil && !addressed {
			req = adaptVersion(req, info, found)
		}
		i := s.instanceOf(tenant)
		switch {
		case source == crd.System && addressed:
			ofCluster(w, req, info, next)
		case source == crd.System:
			next.ServeHTTP(w, req)
		case source == crd.Local && i != nil:
			i.ServeHTTP(w, req)
		case s.o.Catalog.SystemServes(r.WithVersion(info.APIVersion)):
			// The system's own, which the tenant has nothing to do with.
			s.o.NotFound.ServeHTTP(w, req)
		default:
			next.ServeHTTP(w, req)
		}
	}
	if info.Verb == "watch" && addressed {
		s.watches.serve(w, req, tenant, r, serve)
		return
	}
	serve(w, req)
}

// namesOne reports whether a request is about one namespace or object.
func namesOne(info *request.RequestInfo) bool { return info.Namespace != "" || info.Name != "" }

// tenantIn is the tenant that the composite names of a request say.
func tenantIn(info *request.RequestInfo) (tenant string) {
	if info.Namespace != "" {
		tenant, _ = space.SplitNamespace(info.Namespace)
		return tenant
	}
	tenant, _ = space.SplitClusterName(info.Name)
	return tenant
}

// adaptVersion lets the system's controllers, who know one version of a
// resource for all spaces, reach objects in a space that has other versions.
// What they read and write is metadata or a scale, which is the same in all of
// them.
func adaptVersion(
	req *http.Request, info *request.RequestInfo, d *apiextensionsv1.CustomResourceDefinition,
) *http.Request {
	if apihelpers.HasServedCRDVersion(d, info.APIVersion) || info.Subresource != "" && info.Subresource != "scale" {
		return req
	}
	if info.Subresource == "" && !strings.HasPrefix(info.Verb, "delete") &&
		!strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return req
	}
	for _, v := range d.Spec.Versions {
		if v.Served {
			adapted := *info
			adapted.APIVersion = v.Name
			return req.WithContext(request.WithRequestInfo(req.Context(), &adapted))
		}
	}
	return req
}
