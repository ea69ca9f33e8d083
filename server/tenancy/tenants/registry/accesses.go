package registry

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

const (
	// mostName is how long a user or a group of an access is: what a certificate has room for
	// in its common name and its organizational units.
	mostName = 64
	// mostGroups bounds the groups of an access.
	mostGroups = 16
	// mostLabels bounds the labels of its Secret.
	mostLabels = 16
	// mostURL bounds the URL of the API.
	mostURL = 512
	// mostRole bounds the name of a role, which upstream does not.
	mostRole = space.MaxClusterName
)

// accessStorage returns the REST storage of accesses and of their status.
func accessStorage(getter generic.RESTOptionsGetter, rights rights) (spec, status rest.Storage, err error) {
	ofSpec := accessStrategy{apiregistry.Strategy[*tenantapi.TenantAccess]{
		Unconditional: true, PrepareNew: prepareNewAccess, PrepareChanged: prepareChangedAccess, Check: checkAccess,
	}}
	store, err := apiregistry.Kind[*tenantapi.TenantAccess]{
		Resource: tenantapi.Accesses, Singular: tenantapi.AccessSingular,
		New:      func() runtime.Object { return &tenantapi.TenantAccess{} },
		NewList:  func() runtime.Object { return &tenantapi.TenantAccessList{} },
		Strategy: ofSpec.Strategy, Columns: accessColumns(),
		Change: func(store *genericregistry.Store) { store.ResetFieldsStrategy = ofSpec },
	}.Store(getter)
	if err != nil {
		return nil, nil, err
	}
	ofStatus := *store
	strategy := accessStatus{ofSpec}
	ofStatus.UpdateStrategy, ofStatus.ResetFieldsStrategy = strategy, strategy
	return &accessREST{store, rights}, &statusREST{shown{Store: &ofStatus}}, nil
}

// accessStrategy decides what requests for accesses may change.
type accessStrategy struct {
	apiregistry.Strategy[*tenantapi.TenantAccess]
}

func prepareNewAccess(a *tenantapi.TenantAccess) {
	a.Generation, a.Status = 1, tenantapi.TenantAccessStatus{}
	if !inSpace(a) && !slices.Contains(a.Finalizers, tenantapi.AccessFinalizer) {
		a.Finalizers = append(a.Finalizers, tenantapi.AccessFinalizer)
	}
	withoutFinalizer(a)
	setAccessDefaults(a)
}

// withoutFinalizer takes the system's finalizer from an access in the space of a tenant, where nothing would ever do.
func withoutFinalizer(a *tenantapi.TenantAccess) {
	if inSpace(a) {
		a.Finalizers = slices.DeleteFunc(a.Finalizers, func(f string) bool { return f == tenantapi.AccessFinalizer })
	}
}

// inSpace reports whether an access is in the space of a tenant. What it gave is in the same space, and goes
// with it by its owner: nothing has to be done for the access to go, so nothing can hold up its space.
func inSpace(a *tenantapi.TenantAccess) bool {
	of, _ := a.Of()
	return !space.IsSystem(of)
}

func prepareChangedAccess(a, was *tenantapi.TenantAccess) {
	a.Status, a.Generation = was.Status, was.Generation
	withoutFinalizer(a)
	setAccessDefaults(a)
	if !apiequality.Semantic.DeepEqual(a.Spec, was.Spec) {
		a.Generation++
	}
}

func setAccessDefaults(a *tenantapi.TenantAccess) {
	if a.Spec.Secret.Format == "" {
		a.Spec.Secret.Format = tenantapi.AccessFormats()[0]
	}
	if a.Spec.ExpirationSeconds == nil {
		life := int64(tenantapi.DefaultAccessSeconds)
		a.Spec.ExpirationSeconds = &life
	}
}

func checkAccess(_ context.Context, a, was *tenantapi.TenantAccess) field.ErrorList {
	spec := field.NewPath("spec")
	of, name := a.Of()
	errs := validateTemplateName(name, field.NewPath("metadata", "name"))
	if was != nil {
		if apiequality.Semantic.DeepEqual(a.Spec, was.Spec) {
			return errs
		}
		errs = append(errs, sameAccess(a, was, spec)...)
	}
	if inSpace(a) {
		errs = append(errs, checkOwn(a, of, spec)...)
	} else if a.Spec.Tenant == space.System {
		errs = append(errs, field.Invalid(spec.Child("tenant"), a.Spec.Tenant, "must be the space of a tenant"))
	} else if err := space.ValidateTenant(a.Spec.Tenant); err != nil {
		errs = append(errs, field.Invalid(spec.Child("tenant"), a.Spec.Tenant, err.Error()))
	}
	errs = append(errs, checkWho(&a.Spec, spec)...)
	if role := a.Spec.Role; role != "" {
		for _, problem := range content.IsPathSegmentName(role) {
			errs = append(errs, field.Invalid(spec.Child("role"), role, problem))
		}
		if len(role) > mostRole {
			errs = append(errs, field.TooLong(spec.Child("role"), role, mostRole))
		}
	} else if a.Spec.Namespace != "" {
		errs = append(errs, field.Required(spec.Child("role"), "name the role that they have in the namespace"))
	}
	if a.Spec.Namespace != "" {
		errs = append(errs, checkLabel(a.Spec.Namespace, spec.Child("namespace"))...)
	}
	if life := a.Spec.Life(); life < tenantapi.MinAccessSeconds || life > tenantapi.MaxAccessSeconds {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), life, fmt.Sprintf("must be %d to %d",
			tenantapi.MinAccessSeconds, tenantapi.MaxAccessSeconds)))
	}
	if a.Spec.Server != "" && !isURL(a.Spec.Server) {
		errs = append(errs, field.Invalid(spec.Child("server"), a.Spec.Server,
			"must be the URL of the API, without the path of a tenant, such as https://a4s.example.com:6443"))
	}
	return append(errs, checkAccessSecret(&a.Spec.Secret, spec.Child("secret"))...)
}

// sameAccess refuses to make an access one of somebody else or to somewhere else: what was given
// out would stay where it is.
func sameAccess(access, old *tenantapi.TenantAccess, spec *field.Path) (errs field.ErrorList) {
	a, was := &access.Spec, &old.Spec
	for _, f := range []struct {
		path    *field.Path
		is, was any
	}{
		{spec.Child("tenant"), access.To(), old.To()},
		{spec.Child("user"), a.User, was.User},
		{spec.Child("groups"), a.Groups, was.Groups},
		{spec.Child("serviceAccount"), a.ServiceAccount, was.ServiceAccount},
		{spec.Child("secret", "namespace"), a.Secret.Namespace, was.Secret.Namespace},
		{spec.Child("secret", "name"), a.Secret.Name, was.Secret.Name},
	} {
		if !apiequality.Semantic.DeepEqual(f.is, f.was) {
			errs = append(errs, field.Invalid(f.path, f.is, "it cannot be changed; make another TenantAccess"))
		}
	}
	return errs
}

// checkOwn checks what holds for an access in the space of a tenant alone.
func checkOwn(a *tenantapi.TenantAccess, of string, spec *field.Path) (errs field.ErrorList) {
	if a.Spec.Tenant != "" && a.Spec.Tenant != of {
		errs = append(errs, field.Invalid(spec.Child("tenant"), a.Spec.Tenant,
			"an access in the space of a tenant is to that space: leave it out"))
	}
	life := a.Spec.Life()
	if a.Spec.ServiceAccount == nil && life > tenantapi.MaxCertificateSeconds && life <= tenantapi.MaxAccessSeconds {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), life, fmt.Sprintf("must be at most %d for "+
			"a user: nothing revokes a certificate", tenantapi.MaxCertificateSeconds)))
	}
	return errs
}

// checkWho checks whom an access is for.
func checkWho(a *tenantapi.TenantAccessSpec, spec *field.Path) (errs field.ErrorList) {
	account := a.ServiceAccount
	if account == nil {
		errs = append(errs, checkUser(a.User, spec.Child("user"))...)
		if len(a.Groups) > mostGroups {
			return append(errs, field.TooMany(spec.Child("groups"), len(a.Groups), mostGroups))
		}
		for i, group := range a.Groups {
			errs = append(errs, checkSubject(group, spec.Child("groups").Index(i))...)
			if slices.Contains(a.Groups[:i], group) {
				errs = append(errs, field.Duplicate(spec.Child("groups").Index(i), group))
			}
		}
		return errs
	}
	const theirs = "the access is for a service account"
	if a.User != "" {
		errs = append(errs, field.Forbidden(spec.Child("user"), theirs))
	}
	if len(a.Groups) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("groups"), theirs))
	}
	at := spec.Child("serviceAccount")
	errs = append(errs, checkLabel(account.Namespace, at.Child("namespace"))...)
	for _, problem := range validation.IsDNS1123Subdomain(account.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), account.Name, problem))
	}
	return errs
}

// checkUser checks the name of a user. Every space has an administrator of its own, whose rights
// would not end with the access.
func checkUser(name string, at *field.Path) field.ErrorList {
	switch name {
	case "":
		return field.ErrorList{field.Required(at, "name the user, or a serviceAccount")}
	case space.Admin:
		return field.ErrorList{field.Invalid(at, name, "it has all rights in every space, which do not end with the "+
			"access; take another name, and the role cluster-admin")}
	}
	return checkSubject(name, at)
}

// checkSubject checks the name of a user or a group, which a tenant's certificate says.
func checkSubject(name string, at *field.Path) field.ErrorList {
	const reserved = "system:"
	odd := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) && r != ' ' }
	switch {
	case name == "" || strings.TrimSpace(name) != name || !utf8.ValidString(name) || strings.ContainsFunc(name, odd):
		return field.ErrorList{field.Invalid(at, name, "must be a name in printable characters")}
	case len(name) > mostName:
		return field.ErrorList{field.TooLong(at, name, mostName)}
	case strings.HasPrefix(name, reserved):
		return field.ErrorList{field.Invalid(at, name, "names that begin with "+reserved+" are Kubernetes' own")}
	case strings.HasPrefix(name, space.Organization):
		return field.ErrorList{field.Invalid(at, name, "must be the name alone, without the tenant")}
	}
	return nil
}

func checkLabel(name string, at *field.Path) (errs field.ErrorList) {
	for _, problem := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, problem))
	}
	return errs
}

func checkAccessSecret(s *tenantapi.AccessSecret, at *field.Path) field.ErrorList {
	// A label has no dot: it is no namespace of a tenant.
	errs := checkLabel(s.Namespace, at.Child("namespace"))
	for _, problem := range validation.IsDNS1123Subdomain(s.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), s.Name, problem))
	}
	if !slices.Contains(tenantapi.AccessFormats(), s.Format) {
		errs = append(errs, field.NotSupported(at.Child("format"), s.Format, tenantapi.AccessFormats()))
	}
	if len(s.Labels) > mostLabels {
		return append(errs, field.TooMany(at.Child("labels"), len(s.Labels), mostLabels))
	}
	for key := range s.Labels {
		if domain, _, ok := strings.Cut(key, "/"); ok && (domain == "a4s.io" || strings.HasSuffix(domain, ".a4s.io")) {
			errs = append(errs, field.Forbidden(at.Child("labels").Key(key), "names of a4s.io are the system's"))
		}
	}
	return append(errs, metav1validation.ValidateLabels(s.Labels, at.Child("labels"))...)
}

// isURL reports whether s is the URL of an API, to which the path of a tenant can be added.
func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && len(s) <= mostURL && u.Scheme == "https" && u.Hostname() != "" && u.User == nil &&
		u.RawQuery == "" && u.Fragment == "" && !strings.Contains(u.Path, "/tenants/") && !strings.HasSuffix(s, "/")
}

func (accessStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return reset("status")
}

// accessStatus lets the status subresource change the status alone.
type accessStatus struct{ accessStrategy }

func (accessStatus) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	a, was := obj.(*tenantapi.TenantAccess), old.(*tenantapi.TenantAccess)
	a.Spec = was.Spec
	metav1.ResetObjectMetaForStatus(a, was)
}

func (accessStatus) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return metav1validation.ValidateConditions(obj.(*tenantapi.TenantAccess).Status.Conditions,
		field.NewPath("status", "conditions"))
}

func (accessStatus) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return reset("spec", "metadata")
}

func accessColumns() apiregistry.Columns[*tenantapi.TenantAccess] {
	return apiregistry.Columns[*tenantapi.TenantAccess]{
		Definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the access"},
			{Name: "Tenant", Type: "string", Description: "the tenant whose space it is to"},
			{Name: "For", Type: "string", Description: "the user or the service account that it is for"},
			{Name: "Role", Type: "string", Description: "the role that they have by it"},
			{Name: "Secret", Type: "string", Description: "where the credentials are"},
			{Name: "Ready", Type: "string", Description: "whether they can be used, or why not"},
			{Name: "Until", Type: "string", Priority: 1,
				Description: "the end of the credentials, which are renewed before"},
			{Name: "Age", Type: "string", Description: "the time since the access was made"},
		},
		Row: func(a *tenantapi.TenantAccess, name, age string) []any {
			who := a.Spec.User
			if account := a.Spec.ServiceAccount; account != nil {
				who = "serviceaccount " + account.Namespace + "/" + account.Name
			}
			until := ""
			if at := a.Status.ExpirationTimestamp; at != nil {
				until = at.UTC().Format(time.RFC3339)
			}
			return []any{name, a.To(), who, a.Spec.Role, a.Spec.Secret.Namespace + "/" + a.Spec.Secret.Name,
				accessState(a), until, age}
		},
	}
}

// accessState is the condition in a word.
func accessState(a *tenantapi.TenantAccess) string {
	for _, c := range a.Status.Conditions {
		switch {
		case c.Type != tenantapi.AccessReady:
		case c.Status == metav1.ConditionTrue:
			return string(c.Status)
		default:
			return c.Reason
		}
	}
	return ""
}
