package serving

import (
	"errors"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/klog/v2"
)

// ofCluster serves a tenant what a CRD of the system defines. Why that
// fails is for the administrators of the cluster: upstream says where their
// conversion webhook is, and what it has said.
func ofCluster(w http.ResponseWriter, req *http.Request, info *request.RequestInfo, next http.Handler) {
	f := &failure{ResponseWriter: w}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(f), req)
	if !f.failed {
		return
	}
	klog.FromContext(req.Context()).Info("A definition of the system could not serve a tenant", "path", req.URL.Path,
		"answer", string(f.said))
	w.Header().Del("Content-Length")
	err := apierrors.NewInternalError(errors.New("the cluster could not serve this resource, " +
		"which its administrators have defined; they find the reason in the log of the server"))
	responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs,
		schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, req)
}

// maxSaid is how much is kept of the reason.
const maxSaid = 1024

// failure keeps back what is answered with an internal error.
type failure struct {
	http.ResponseWriter
	failed, begun bool
	said          []byte
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (f *failure) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (f *failure) WriteHeader(code int) {
	if f.failed = f.failed || !f.begun && code == http.StatusInternalServerError; f.failed {
		return
	}
	f.begun = f.begun || code >= http.StatusOK
	f.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (f *failure) Write(b []byte) (int, error) {
	if f.failed {
		f.said = append(f.said, b[:min(len(b), maxSaid-len(f.said))]...)
		return len(b), nil
	}
	f.begun = true
	return f.ResponseWriter.Write(b)
}
