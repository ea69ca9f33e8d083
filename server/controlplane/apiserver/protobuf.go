package apiserver

import (
	"mime"
	"net/http"

	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// withoutProtobuf answers 415 to custom resources in protobuf. Upstream's CRD server has
// no decoder for them that looks for unknown fields, and panics on the one it has not.
type withoutProtobuf struct {
	genericapiserver.DelegationTarget
	crds crdlisters.CustomResourceDefinitionLister
}

// UnprotectedHandler implements genericapiserver.DelegationTarget.
func (p withoutProtobuf) UnprotectedHandler() http.Handler {
	next := p.DelegationTarget.UnprotectedHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !p.refuses(req) {
			next.ServeHTTP(w, req)
			return
		}
		err := negotiation.NewUnsupportedMediaTypeError([]string{runtime.ContentTypeJSON, runtime.ContentTypeYAML})
		responsewriters.ErrorNegotiated(err, legacyscheme.Codecs, metav1.SchemeGroupVersion, w, req)
	})
}

// refuses reports whether a request has a custom resource in protobuf.
func (p withoutProtobuf) refuses(req *http.Request) bool {
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || media != runtime.ContentTypeProtobuf {
		return false
	}
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || info.Verb != "create" && info.Verb != "update" {
		return false
	}
	_, err = p.crds.Get(info.Resource + "." + info.APIGroup)
	return err == nil
}
