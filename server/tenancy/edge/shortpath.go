package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// On a short path the system's administrators see the whole cluster, and what works
// for the cluster as a whole works with it. Whatever changes objects that it has
// listed there would change those of all tenants. So a short path is the space of the
// system for
//
//   - service accounts, other than those of upstream's controllers and those whose
//     annotation says that they work in all spaces;
//   - lists by which a command of kubectl finds what it then writes, and the deletion
//     of a whole collection;
//   - writes to what has no namespace.
//
// What names a tenant in its path, as pods of default.t1, is meant.

// Accounts knows the service accounts of the system space.
type Accounts interface {
	// IsController reports whether one of kube-system is that of a controller of
	// upstream's controller manager.
	IsController(name string) bool
	// InAllSpaces reports whether one works in all spaces by its annotation.
	InAllSpaces(namespace, name string) bool
}

// AllSpaces is the annotation of a service account of the system space which works in
// all spaces: with the value "all" it sees the whole cluster on short paths, as far as
// its roles let it.
const AllSpaces = "a4s.io/spaces"

// confineShort decides what a request of a user of the system on a short path reaches:
// the space of the system alone if confined is set.
func confineShort(accounts Accounts, r *request, header http.Header) (confined bool, err error) {
	asked := r.resource
	if asked == nil || accounts == nil || kinds.IsReview(asked.group) {
		return false, nil
	}
	who := actor(r.user, header)
	if ofCluster(accounts, who) {
		return false, nil
	}
	tenant := asked.spaceNamed()
	ofTenant := !space.IsSystem(tenant)
	if namespace, name, ok := accountOf(who.GetName()); ok {
		if accounts.InAllSpaces(namespace, name) {
			return false, nil
		}
		if ofTenant {
			return false, notHere(r, tenant,
				"service accounts of the system space reach nothing else on short paths")
		}
		return true, nil
	}
	switch {
	case asked.namespace != "":
		return false, nil
	case asked.verb == "deletecollection", asked.verb == "list" && findsToWrite(header.Get(kubectlCommand)):
		return true, nil
	case ofTenant && changes(asked.verb):
		return false, notHere(r, tenant, "short paths are written to in the space of the system alone")
	case asked.verb == "create" && asked.name == "":
		// What is not built in is a custom resource.
		k, builtIn := kinds.New().Resource(asked.group, asked.resource)
		return !builtIn || !k.Namespaced && k.Class == kinds.Tenant, nil
	}
	return false, nil
}

// notHere refuses a request on a short path which names the space of a tenant.
func notHere(r *request, tenant, why string) error {
	return apierrors.NewForbidden(r.resource.groupResource(), r.resource.name,
		fmt.Errorf("it is of tenant %q, and %s: "+
			"ask for %s, or below the path /tenants/%s of the server, as \"a4s kubectl --tenant %s\" does",
			tenant, why,
			r.resource.nativePath(tenant), tenant, tenant))
}

// nativePath is the full path of what a short path with composite names is about.
func (r *resourceRequest) nativePath(tenant string) string {
	native := *r
	native.segments = slices.Clone(r.segments)
	if r.nameAt > 0 && r.namespace == "" {
		if r.isNamespace() {
			_, native.segments[r.nameAt] = space.SplitNamespace(r.name)
		} else {
			_, native.segments[r.nameAt] = space.SplitClusterName(r.name)
		}
	}
	return native.fullPath(tenant)
}

// spaceNamed is the space that the composite names in the path say.
func (r *resourceRequest) spaceNamed() (tenant string) {
	switch {
	case r.namespace != "":
		tenant, _ = space.SplitNamespace(r.namespace)
	case r.isNamespace():
		tenant, _ = space.SplitNamespace(r.name)
	default:
		tenant, _ = space.SplitClusterName(r.name)
	}
	return tenant
}

func changes(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete":
		return true
	}
	return false
}

// actor is who a request acts as. Whether they may is for the authorizer to say.
func actor(u user.Info, header http.Header) user.Info {
	if name := header.Get(authenticationv1.ImpersonateUserHeader); name != "" {
		return &user.DefaultInfo{Name: name, Groups: header.Values(authenticationv1.ImpersonateGroupHeader)}
	}
	return u
}

// ofCluster tells the parts of the cluster, which work on the objects of all spaces:
// servers, controllers, nodes.
func ofCluster(accounts Accounts, u user.Info) bool {
	switch u.GetName() {
	case pki.UserSupervisor, user.KubeControllerManager, user.KubeScheduler, user.APIServerUser:
		return true
	}
	for _, g := range u.GetGroups() {
		if g == user.NodesGroup || g == partitionapi.Group {
			return true
		}
	}
	account := authn.ControllerAccount(u)
	return account != "" && accounts.IsController(account)
}

// accountOf are the namespace and name of a service account of the system space.
func accountOf(userName string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(userName, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok
}

// kubectlCommand is the header in which kubectl says its command.
const kubectlCommand = "Kubectl-Command"

// findsToWrite reports whether the value of that header is of a command that lists what it
// then changes. Of the commands of kubectl these only show what they have listed, or
// work on nodes; any other, one of a later kubectl too, is taken for one that writes.
func findsToWrite(command string) bool {
	name, rest, _ := strings.Cut(command, " ")
	if name != "kubectl" {
		return false
	}
	name, rest, _ = strings.Cut(rest, " ")
	switch name {
	case "get", "describe", "logs", "top", "events", "explain", "wait", "diff", "cluster-info", "auth", "version",
		"api-resources", "api-versions", "config", "completion", "plugin", "options", "kustomize", "proxy",
		"exec", "attach", "cp", "port-forward", "__complete", "__completeNoDesc":
		return false
	case "drain", "cordon", "uncordon", "taint", "certificate":
		return false
	case "rollout":
		return rest != "status" && rest != "history"
	}
	return true
}
