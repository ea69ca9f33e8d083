package admission

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// checkOwners refuses owners that are not in the tenant's space: the garbage
// collector would look for them among what all share, and deleting one of these
// would wait for the tenant's object. What the old object had stays.
func (g *guard) checkOwners(object, old runtime.Object) error {
	now, err := meta.Accessor(object)
	if err != nil {
		return nil // options of a connection
	}
	var before []metav1.OwnerReference
	if was, err := meta.Accessor(old); err == nil {
		before = was.GetOwnerReferences()
	}
	for i, owner := range now.GetOwnerReferences() {
		same := func(o metav1.OwnerReference) bool {
			return o.UID == owner.UID && o.Kind == owner.Kind && o.Name == owner.Name &&
				o.APIVersion == owner.APIVersion && blocks(o) == blocks(owner)
		}
		if slices.ContainsFunc(before, same) {
			continue
		}
		gv, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil {
			return fmt.Errorf("metadata.ownerReferences[%d].apiVersion: %w", i, err)
		}
		// A kind that is not built in is one of the space, or of no space.
		k, builtIn := g.kinds.Kind(gv.Group, owner.Kind)
		shared := builtIn && k.Class != kinds.Tenant ||
			k.Resource == "clusterroles" && kinds.SharedClusterRole(owner.Name)
		if shared {
			return fmt.Errorf("metadata.ownerReferences[%d]: the %s %s is not in this space, "+
				"so it cannot own anything here", i, owner.Kind, owner.Name)
		}
	}
	return nil
}

func blocks(o metav1.OwnerReference) bool {
	return o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion
}
