package authn

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

// TestControllersAreOfTheSystemSpace: a tenant cannot name a user so that it counts as one of
// the cluster's controllers.
func TestControllersAreOfTheSystemSpace(t *testing.T) {
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	of := func(name string, tenants ...string) user.Info {
		return &user.DefaultInfo{Name: name, Extra: map[string][]string{space.Extra: tenants}}
	}
	for name, c := range map[string]struct {
		user       user.Info
		account    string
		controller bool
	}{
		"nobody":                  {nil, "", false},
		"controller":              {of(collector), "generic-garbage-collector", true},
		"all of them":             {of(user.KubeControllerManager), "", true},
		"another account":         {of("system:serviceaccount:kube-system:x"), "x", false},
		"another namespace":       {of("system:serviceaccount:default:generic-garbage-collector"), "", false},
		"a tenant's namespace":    {of("system:serviceaccount:kube-system.t1:generic-garbage-collector"), "", false},
		"a tenant's user":         {of(collector, "t1"), "", false},
		"a tenant's, all of them": {of(user.KubeControllerManager, "t1"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ControllerAccount(c.user); got != c.account {
				t.Errorf("the account is %q, want %q", got, c.account)
			}
			if got := IsController(c.user); got != c.controller {
				t.Errorf("it is a controller: %v", got)
			}
		})
	}
}
