package storage

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
)

// stamped tells the resources that upstream selects by label across
// namespaces or across all objects, so that the tenant has to be a label.
func stamped(r schema.GroupResource) bool {
	switch r.Group {
	case "":
		return r.Resource == "namespaces" || r.Resource == "persistentvolumes"
	case "rbac.authorization.k8s.io":
		return r.Resource == "clusterroles"
	case "admissionregistration.k8s.io", "apiextensions.k8s.io":
		return true
	}
	return false
}

// stamp sets the label of the tenant, or takes it off what is the system's.
func (m *mapped) stamp(obj runtime.Object) error {
	if !m.stamps {
		return nil
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	tenant, now := m.keys.tenantOfObject(obj), accessor.GetLabels()
	switch has, there := now[space.Label]; {
	case tenant == space.System && there:
		now = maps.Clone(now)
		delete(now, space.Label)
	case tenant != space.System && has != tenant:
		now = maps.Clone(now)
		if now == nil {
			now = map[string]string{}
		}
		now[space.Label] = tenant
	default:
		return nil
	}
	accessor.SetLabels(now)
	return nil
}

// kind names the resource in errors.
func (m *objectKeys) kind() schema.GroupKind {
	name := reflect.TypeOf(m.newFunc()).Elem().Name()
	return schema.GroupKind{Group: m.resource.Group, Kind: name}
}
