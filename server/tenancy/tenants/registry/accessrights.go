package registry

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// MayBind reports, as an error, that whoever makes a request may not have a role bound in a namespace, or in all
// of the space if that is empty: by the right to bind it, or by having all that the role gives. All names are
// those inside.
type MayBind func(ctx context.Context, role rbacv1.RoleRef, namespace string) error

// rights decide what whoever makes an access in the space of a tenant can have the system do there for them.
type rights struct {
	authorizer authorizer.Authorizer
	bind       MayBind
}

// accessREST asks for the rights of whoever makes an access in the space of a tenant. In the system space none are
// asked for: who may make one there may do what they like in any space.
type accessREST struct {
	*genericregistry.Store
	rights rights
}

var (
	_ rest.StandardStorage    = (*accessREST)(nil)
	_ rest.ShortNamesProvider = (*accessREST)(nil)
)

// ShortNames implements rest.ShortNamesProvider.
func (r *accessREST) ShortNames() []string { return []string{"ta"} }

// Create implements rest.Creater.
func (r *accessREST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, apiregistry.Then(validate, r.checkNew), options)
}

// Update implements rest.Updater.
func (r *accessREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.Store.Update(ctx, name, info, apiregistry.Then(create, r.checkNew),
		apiregistry.ThenUpdate(update, r.checkChanged), forceCreate, options)
}

// checkNew is asked about an access that is made, by server-side apply too.
func (r *accessREST) checkNew(ctx context.Context, obj runtime.Object) error {
	return r.rights.check(ctx, obj.(*tenantapi.TenantAccess))
}

// checkChanged is asked about every change of what an access says: a later end or another label of the Secret
// gives credentials on, as a new access does.
func (r *accessREST) checkChanged(ctx context.Context, obj, old runtime.Object) error {
	a, was := obj.(*tenantapi.TenantAccess), old.(*tenantapi.TenantAccess)
	if apiequality.Semantic.DeepEqual(a.Spec, was.Spec) {
		return nil
	}
	return r.rights.check(ctx, a)
}

// right is one that somebody has to have.
type right struct {
	authorizer.AttributesRecord
	text string
}

// check refuses an access in the space of a tenant of whoever could not get by themselves what it gives: the
// identity, the binding of the role, and the Secret.
func (r rights) check(ctx context.Context, a *tenantapi.TenantAccess) error {
	of, name := a.Of()
	if space.IsSystem(of) {
		return nil
	}
	who, ok := request.UserFrom(ctx)
	if !ok || r.authorizer == nil || r.bind == nil {
		return apierrors.NewInternalError(errors.New("nobody is known whose rights could be looked at"))
	}
	refused := func(err error) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: tenantapi.Accesses}, name, err)
	}
	for _, needs := range needed(a, of) {
		needs.User, needs.ResourceRequest = who, true
		decision, _, err := r.authorizer.Authorize(ctx, needs.AttributesRecord)
		if err != nil && decision != authorizer.DecisionAllow {
			return apierrors.NewInternalError(fmt.Errorf("looking for the right to %s: %w", needs.text, err))
		}
		if decision != authorizer.DecisionAllow {
			return refused(fmt.Errorf("who makes or changes it has to have the right to %s", needs.text))
		}
	}
	if a.Spec.Role == "" {
		return nil
	}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.Spec.Role}
	if !kinds.SharedClusterRole(role.Name) {
		role.Name = space.ClusterName(of, role.Name)
	}
	switch err := r.bind(ctx, role, space.Namespace(of, a.Spec.Namespace)); {
	case apierrors.IsNotFound(err):
		return refused(fmt.Errorf("there is no ClusterRole %s, and who makes or changes it has not the right to bind "+
			"it whatever it will give", a.Spec.Role))
	case err != nil:
		return refused(fmt.Errorf("who makes or changes it has to have the right to bind the ClusterRole %s, or all "+
			"that it gives: %w", a.Spec.Role, err))
	}
	return nil
}

// needed are the rights that an access in the space of a tenant asks for, but for those that its role gives.
func needed(a *tenantapi.TenantAccess, of string) (all []right) {
	need := func(text string, asks authorizer.AttributesRecord) {
		if asks.APIVersion == "" {
			asks.APIVersion = tenantapi.GroupVersion().Version
		}
		all = append(all, right{asks, text})
	}
	if account := a.Spec.ServiceAccount; account != nil {
		need(fmt.Sprintf("create serviceaccounts/token of %s in the namespace %s", account.Name, account.Namespace),
			authorizer.AttributesRecord{Verb: "create", Namespace: space.Namespace(of, account.Namespace),
				Resource: "serviceaccounts", Subresource: "token", Name: account.Name})
	} else {
		need("impersonate the user "+a.Spec.User,
			authorizer.AttributesRecord{Verb: "impersonate", Resource: "users", Name: a.Spec.User})
		for _, group := range a.Spec.Groups {
			need("impersonate the group "+group,
				authorizer.AttributesRecord{Verb: "impersonate", Resource: "groups", Name: group})
		}
	}
	need("create secrets in the namespace "+a.Spec.Secret.Namespace, authorizer.AttributesRecord{Verb: "create",
		Namespace: space.Namespace(of, a.Spec.Secret.Namespace), Resource: "secrets"})
	bindings := authorizer.AttributesRecord{Verb: "create", APIGroup: rbacv1.GroupName, APIVersion: "v1"}
	switch {
	case a.Spec.Role == "":
	case a.Spec.Namespace == "":
		bindings.Resource = "clusterrolebindings"
		need("create clusterrolebindings", bindings)
	default:
		bindings.Resource, bindings.Namespace = "rolebindings", space.Namespace(of, a.Spec.Namespace)
		need("create rolebindings in the namespace "+a.Spec.Namespace, bindings)
	}
	return all
}
