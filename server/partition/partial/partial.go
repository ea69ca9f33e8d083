package partial

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// people use this program. Others of Kubernetes call themselves otherwise.
const people = "kubectl/"

// whole are the resources of which a partition with tenants has all that the cluster has, or
// that only one partition has.
var whole = []string{"nodes", "csinodes", partitionapi.Partitions, partitionapi.Placements,
	partitionapi.Resource}

// Handler stands before next. self is the partition, and several says whether there are more.
func Handler(next http.Handler, self string, several func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.UserAgent(), people) && several() && partly(req) {
			warning.AddWarning(req.Context(), "", fmt.Sprintf("this is what partition %s has; "+
				"a4s partition list shows the others, which answer below /partitions/NAME, "+
				"and kubectl get tenantplacements where tenants are", self))
		}
		next.ServeHTTP(w, req)
	})
}

// partly reports whether a request is for all objects of a kind that other partitions have, too.
func partly(req *http.Request) bool {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || info.Verb != "list" || info.Namespace != "" || info.Name != "" ||
		slices.Contains(whole, info.Resource) {
		return false
	}
	tenant, _ := space.FromContext(req.Context())
	return space.IsSystem(tenant) || tenant == space.All
}
