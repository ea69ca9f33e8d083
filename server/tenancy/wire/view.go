package wire

import (
	"errors"
	"fmt"

	"github.com/a4s-io/a4s/internal/space"
)

// Errors of a translation, to be matched with errors.Is.
var (
	// ErrForeign is an object or reference of another tenant in what was to
	// be sent to a tenant. It must end the answer.
	ErrForeign = errors.New("object of another tenant")
	// ErrTenant is a metadata.tenant that is not the tenant of the request.
	ErrTenant = errors.New("metadata.tenant is not the tenant of the request")
	// ErrMalformed is a body that cannot be read.
	ErrMalformed = errors.New("malformed body")
	// ErrTooLarge is a body that would be too much work.
	ErrTooLarge = errors.New("the body is too much work")
)

// Direction is the way a body goes.
type Direction int

const (
	// In is from the tenant: native to composite.
	In Direction = iota
	// Out is to the tenant: composite to native.
	Out
)

// Resource is what a request is about. The zero Version means that no
// selfLink can be made.
type Resource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
	// Of is the native namespace that the request is about, "" for none or all.
	Of string
	// MayBeSystem allows objects of the system space in an answer to a tenant:
	// shared resources, and the default ClusterRoles. They are passed as they
	// are, with metadata.tenant "system".
	MayBeSystem bool
	// Merges says that those who read JSON of it put the objects together that
	// an object has under one key, as for types of Go. Otherwise the last counts.
	Merges bool
}

// View is how one tenant sees the cluster.
type View struct {
	// Tenant is the tenant; space.All means, outwards only, that every object
	// is shown as its own tenant sees it.
	Tenant string
	// ClusterScoped reports whether a kind is cluster-scoped and belongs to
	// tenants, so that its names are composed: PersistentVolume is, Node and
	// StorageClass (of the system) and Pod (namespaced) are not.
	ClusterScoped func(group, kind string) bool
	// GroupOf finds the group of a kind that is said without one, as the
	// selectors of kubectl describe do; built-in ones first.
	GroupOf func(kind string) (group string, ok bool)
	// SharedClusterRole tells the default ClusterRoles, whose names are the
	// same in every space.
	SharedClusterRole func(name string) bool
}

// plain reports that fields are the same in both forms: in the space of the system,
// and in what belongs to none.
func (v *View) plain() bool { return space.IsSystem(v.Tenant) || v.Tenant == space.All }

// Namespace translates a namespace. Outwards, a plain name is one of the
// system space, which a tenant's object may refer to, not live in.
func (v *View) Namespace(d Direction, s string) (string, error) {
	if s == "" {
		return s, nil
	}
	if d == In {
		return space.Namespace(v.Tenant, s), nil
	}
	tenant, native := space.SplitNamespace(s)
	if tenant != v.Tenant && tenant != space.System {
		return "", fmt.Errorf("%w: namespace", ErrForeign)
	}
	return native, nil
}

// ClusterName translates the name of a cluster-scoped tenant object. Outwards,
// a plain name is one of the system space and is passed.
func (v *View) ClusterName(d Direction, s string) (string, error) {
	if s == "" {
		return s, nil
	}
	if d == In {
		return space.ClusterName(v.Tenant, s), nil
	}
	tenant, native := space.SplitClusterName(s)
	if tenant != v.Tenant && tenant != space.System {
		return "", fmt.Errorf("%w: name", ErrForeign)
	}
	return native, nil
}

// User translates a user name.
func (v *View) User(d Direction, s string) (string, error) {
	if d == In {
		return space.User(v.Tenant, s), nil
	}
	tenant, native := space.SplitUser(s)
	if tenant != "" && tenant != v.Tenant && tenant != space.System {
		return "", fmt.Errorf("%w: user", ErrForeign)
	}
	return native, nil
}

// Group translates a group name.
func (v *View) Group(d Direction, s string) (string, error) {
	if d == In {
		return space.Group(v.Tenant, s), nil
	}
	tenant, native := space.SplitGroup(s)
	if tenant != "" && tenant != v.Tenant && tenant != space.System {
		return "", fmt.Errorf("%w: group", ErrForeign)
	}
	return native, nil
}

// Name translates the name of an object of a kind that is known at run time
// only: owners, involved objects, scale targets.
func (v *View) Name(d Direction, group, kind, name string) (string, error) {
	switch {
	case group == "" && kind == "Namespace":
		return v.Namespace(d, name)
	case group == rbacGroup && kind == "ClusterRole" && v.SharedClusterRole(name):
		return name, nil
	case v.ClusterScoped(group, kind):
		return v.ClusterName(d, name)
	default:
		return name, nil
	}
}

const rbacGroup = "rbac.authorization.k8s.io"
