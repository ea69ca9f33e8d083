package serving

import (
	"context"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// The garbage collector deletes what is owned by something that is not there. So
// it must never hear 404 about an object unless the space that the object is of
// defines the resource and has no such object. In all other cases the answer is
// that this cannot be said now, and it asks again.

// serveController serves upstream's controllers, who see all spaces at once and
// know resources by the names that crd.Catalog makes up for them.
func (s *Server) serveController(
	w http.ResponseWriter, req *http.Request, info *request.RequestInfo, next http.Handler,
) {
	of := crd.ParseComposite(info.Resource)
	if of.Kind == "" && !namesOne(info) {
		s.serveAcross(w, req, info, of, next)
		return
	}
	tenant := tenantIn(info)
	found := s.o.Catalog.InSpace(tenant, info.APIGroup, of)
	adapted := *info
	fits := found != nil
	switch {
	case !fits:
	case found.Spec.Scope == apiextensionsv1.NamespaceScoped:
		fits = info.Namespace != "" && !of.Cluster
	case of.Kind != "":
		// The owner has no namespace, whatever has what it owns.
		ofName, _ := space.SplitClusterName(info.Name)
		fits, adapted.Namespace = info.Name != "" && ofName == tenant, ""
	default:
		fits = info.Namespace == "" && of.Cluster
	}
	// Of a namespace it can be said that it has nothing of a resource.
	req = req.WithContext(context.WithValue(req.Context(), asksKey{}, info.Name != ""))
	if !fits {
		s.notFound(w, req)
		return
	}
	adapted.Resource = found.Spec.Names.Plural
	req = adaptVersion(req.WithContext(request.WithRequestInfo(req.Context(), &adapted)), &adapted, found)
	source, _ := s.o.Catalog.Serving(tenant, schema.GroupResource{Group: info.APIGroup, Resource: adapted.Resource})
	i := s.instanceOf(tenant)
	switch {
	case space.IsSystem(tenant), source == crd.System:
		next.ServeHTTP(w, req)
	case source == crd.Local && i != nil:
		i.ServeHTTP(w, req)
	default:
		s.notFound(w, req)
	}
}

// serveAcross serves what is listed and watched in all spaces.
func (s *Server) serveAcross(
	w http.ResponseWriter, req *http.Request, info *request.RequestInfo, of crd.Composite, next http.Handler,
) {
	r := schema.GroupResource{Group: info.APIGroup, Resource: of.Plural}
	adapted := *info
	adapted.Resource = of.Plural
	req = req.WithContext(request.WithRequestInfo(req.Context(), &adapted))
	if !s.o.Catalog.Unites(r) {
		next.ServeHTTP(w, req) // that of the system, if there is one
		return
	}
	if s.o.Catalog.SeesNamespaced(r) {
		// Objects with a namespace and without are two resources.
		selector := "metadata.namespace!="
		if of.Cluster {
			selector = "metadata.namespace="
		}
		u := *req.URL
		q := u.Query()
		if asked := q.Get("fieldSelector"); asked != "" {
			selector = asked + "," + selector
		}
		q.Set("fieldSelector", selector)
		u.RawQuery = q.Encode()
		req.URL = &u
	}
	s.union.ServeHTTP(w, req)
}

type asksKey struct{}

// notFound is for what nobody defines. A controller that asks for one object is
// not told that this is not there.
func (s *Server) notFound(w http.ResponseWriter, req *http.Request) {
	if asks, _ := req.Context().Value(asksKey{}).(bool); !asks {
		s.o.NotFound.ServeHTTP(w, req)
		return
	}
	gv, message := schema.GroupVersion{}, "the space does not define it"
	if info, ok := request.RequestInfoFrom(req.Context()); ok {
		gv = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		message = fmt.Sprintf("the space of %s %q does not define such a resource now", info.Resource, info.Name)
	}
	responsewriters.ErrorNegotiated(apierrors.NewServiceUnavailable(message),
		apiextensionsapiserver.Codecs, gv, w, req)
}
