package nodewrites

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/nodeapi/bootstrap"
	"github.com/a4s-io/a4s/server/partition/proxy"
)

// attacher keeps volumesAttached of copies.
const attacher = "system:serviceaccount:kube-system:attachdetach-controller"

// Options are what requests are sent on with.
type Options struct {
	// Self is the partition of this server, and Importer the user that writes copies.
	Self, Importer string
	// Elsewhere is the other partition that has a node, "" for none.
	Elsewhere func(ctx context.Context, node string) (partition string)
	// Forward sends a request on.
	Forward func(w http.ResponseWriter, req *http.Request, to proxy.Target)
}

// Handler stands before next.
func Handler(next http.Handler, o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !writes(info) {
			next.ServeHTTP(w, req)
			return
		}
		who, ok := request.UserFrom(req.Context())
		if !ok || o.own(req.Context(), who, info) {
			next.ServeHTTP(w, req)
			return
		}
		to := o.Elsewhere(req.Context(), info.Name)
		if to == "" {
			next.ServeHTTP(w, req)
			return
		}
		if req.Method == http.MethodPut {
			// The version in it is that of the copy.
			err := apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "nodes"}, info.Verb)
			err.ErrStatus.Message = "node " + info.Name + " is of partition " + to + ", and what is here is a copy: " +
				"patch it, or replace it through /partitions/" + to
			gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			responsewriters.ErrorNegotiated(err, legacyscheme.Codecs, gv, w, req)
			return
		}
		o.Forward(w, req, proxy.Target{Partition: to, User: o.as(who)})
	})
}

// writes reports whether a request changes one node.
func writes(info *request.RequestInfo) bool {
	if !info.IsResourceRequest || info.APIGroup != "" || info.Resource != "nodes" || info.Name == "" ||
		info.Subresource != "" && info.Subresource != "status" {
		return false
	}
	return info.Verb == "update" || info.Verb == "patch" || info.Verb == "delete"
}

// own reports whether the user writes the copy itself.
func (o Options) own(ctx context.Context, who user.Info, info *request.RequestInfo) bool {
	if bootstrap.Impersonated(ctx) {
		return false
	}
	return who.GetName() == o.Importer || who.GetName() == attacher && info.Subresource == "status"
}

// as is who a user is at the other partition.
func (o Options) as(who user.Info) user.Info {
	if _, _, err := serviceaccount.SplitUsername(who.GetName()); err != nil {
		return who
	}
	return &user.DefaultInfo{Name: partitionapi.UserPrefix + o.Self,
		Groups: []string{partitionapi.Group, user.AllAuthenticated}}
}
