package tenancy

import (
	"strings"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/edge"
)

// accounts are the service accounts of the system space.
type accounts struct {
	controllers map[string]bool
	// lister is set when the API server is made.
	lister corelisters.ServiceAccountLister
}

var _ edge.Accounts = &accounts{}

// newAccounts knows upstream's controllers by the roles that they are given at the start
// of a cluster.
func newAccounts() *accounts {
	a := &accounts{controllers: map[string]bool{}}
	for _, role := range bootstrappolicy.ControllerRoles() {
		if name, ok := strings.CutPrefix(role.Name, "system:controller:"); ok {
			a.controllers[name] = true
		}
	}
	return a
}

// IsController implements edge.Accounts.
func (a *accounts) IsController(name string) bool { return a.controllers[name] }

// InAllSpaces implements edge.Accounts.
func (a *accounts) InAllSpaces(namespace, name string) bool {
	account, err := a.lister.ServiceAccounts(namespace).Get(name)
	return err == nil && account.Annotations[edge.AllSpaces] == space.All
}
