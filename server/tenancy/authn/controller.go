package authn

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

// IsController tells the users that are controllers of the cluster which work on
// all kinds of objects in all spaces: they need a discovery of all at once. They
// are known by what they authenticate as, whatever starts them and with which
// arguments.
func IsController(u user.Info) bool {
	switch ControllerAccount(u) {
	case "generic-garbage-collector", "resourcequota-controller", "namespace-controller", "horizontal-pod-autoscaler",
		"disruption-controller":
		return true
	}
	return u != nil && space.IsSystem(space.TenantOf(u)) && u.GetName() == user.KubeControllerManager
}

// ControllerAccount is the name of the service account that a user is, if it is one of
// kube-system in the system space, where upstream's controllers have theirs; else "".
func ControllerAccount(u user.Info) string {
	if u == nil || !space.IsSystem(space.TenantOf(u)) {
		return ""
	}
	name, ok := strings.CutPrefix(u.GetName(), "system:serviceaccount:kube-system:")
	if !ok {
		return ""
	}
	return name
}
