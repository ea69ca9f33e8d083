package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// mostAtATime bounds how many tenants get a change of a template at a time.
const mostAtATime = 100

// templateStorage returns the REST storage of templates and of their status.
func templateStorage(getter generic.RESTOptionsGetter) (*templateREST, rest.Storage, error) {
	spec := templateStrategy{apiregistry.Strategy[*tenantapi.TenantTemplate]{
		Unconditional: true, PrepareNew: prepareNewTemplate, PrepareChanged: prepareChangedTemplate,
		Check: checkTemplate,
	}}
	store, err := apiregistry.Kind[*tenantapi.TenantTemplate]{
		Resource: tenantapi.Templates, Singular: tenantapi.TemplateSingular,
		New:      func() runtime.Object { return &tenantapi.TenantTemplate{} },
		NewList:  func() runtime.Object { return &tenantapi.TenantTemplateList{} },
		Strategy: spec.Strategy, Columns: templateColumns(),
		Change: func(store *genericregistry.Store) {
			store.CreateStrategy, store.UpdateStrategy, store.ResetFieldsStrategy = spec, spec, spec
		},
	}.Store(getter)
	if err != nil {
		return nil, nil, err
	}
	ofStatus := *store
	status := templateStatus{spec}
	ofStatus.UpdateStrategy, ofStatus.ResetFieldsStrategy = status, status
	return &templateREST{Store: store}, &statusREST{shown{Store: &ofStatus}}, nil
}

// templateREST refuses a second default, and to delete what tenants have.
type templateREST struct {
	*genericregistry.Store
	// tenants lists those of this partition.
	tenants func(context.Context, *metainternalversion.ListOptions) (runtime.Object, error)
	// authorizer is nil where nobody is asked.
	authorizer authorizer.Authorizer
}

var (
	_ rest.StandardStorage    = (*templateREST)(nil)
	_ rest.ShortNamesProvider = (*templateREST)(nil)
)

// ShortNames implements rest.ShortNamesProvider.
func (r *templateREST) ShortNames() []string { return []string{"tt"} }

// Create implements rest.Creater.
func (r *templateREST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, apiregistry.Then(validate, r.checkNew), options)
}

// checkNew is asked about a template that is made, by server-side apply too.
func (r *templateREST) checkNew(ctx context.Context, obj runtime.Object) error {
	return r.checkChanged(ctx, obj, &tenantapi.TenantTemplate{})
}

func (r *templateREST) checkChanged(ctx context.Context, obj, old runtime.Object) error {
	t, was := obj.(*tenantapi.TenantTemplate), old.(*tenantapi.TenantTemplate)
	if !was.Spec.Default {
		if err := r.onlyDefault(ctx, t); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(t.Spec.Access, func(a tenantapi.TemplateAccess) bool {
		return !slices.ContainsFunc(was.Spec.Access, func(had tenantapi.TemplateAccess) bool {
			return apiequality.Semantic.DeepEqual(a, had)
		})
	}) {
		if err := r.mayAccess(ctx, t, "create", "who adds to it or changes it"); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(was.Spec.Access, func(had tenantapi.TemplateAccess) bool {
		return !slices.ContainsFunc(t.Spec.Access, func(a tenantapi.TemplateAccess) bool { return a.Name == had.Name })
	}) {
		return r.mayAccess(ctx, t, "delete", "who takes one off")
	}
	return nil
}

// Update implements rest.Updater.
func (r *templateREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.Store.Update(ctx, name, info, apiregistry.Then(create, r.checkNew),
		apiregistry.ThenUpdate(update, r.checkChanged), forceCreate, options)
}

// Delete implements rest.GracefulDeleter.
func (r *templateREST) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, apiregistry.Then(validate, r.unused), options)
}

// DeleteCollection implements rest.CollectionDeleter.
func (r *templateREST) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
	list *metainternalversion.ListOptions,
) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, apiregistry.Then(validate, r.unused), options, list)
}

// mostCounted bounds what is read to say how many tenants have a template.
const mostCounted = 500

// unused refuses to delete a template that tenants have: what it says would hold for them no more, at once.
// It asks the datastore, not what this server has heard of.
func (r *templateREST) unused(ctx context.Context, obj runtime.Object) error {
	t := obj.(*tenantapi.TenantTemplate)
	list, err := r.tenants(ctx, &metainternalversion.ListOptions{Limit: mostCounted,
		FieldSelector: fields.OneTermEqualSelector(tenantapi.SelectTemplate, t.Name)})
	if err != nil {
		return fmt.Errorf("looking for tenants of the template: %w", err)
	}
	found := list.(*tenantapi.TenantList)
	if len(found.Items) == 0 {
		return nil
	}
	count := strconv.Itoa(len(found.Items))
	if found.Continue != "" {
		count = "more than " + count
	}
	return apierrors.NewConflict(schema.GroupResource{Resource: tenantapi.Templates}, t.Name,
		fmt.Errorf("tenants that have it: %s, %s for one. Its limits, allowances, nodes and images would end for "+
			"them at once. Change their spec.template first: kubectl get tenants --field-selector %s=%s",
			count, found.Items[0].Name, tenantapi.SelectTemplate, t.Name))
}

// onlyDefault refuses a default beside another one.
func (r *templateREST) onlyDefault(ctx context.Context, t *tenantapi.TenantTemplate) error {
	if !t.Spec.Default {
		return nil
	}
	other, err := r.byDefault(ctx)
	if err != nil {
		return err
	}
	if other == nil || other.Name == t.Name {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Resource: tenantapi.Templates}, t.Name,
		fmt.Errorf("the default is the TenantTemplate %q: set its spec.default to false first", other.Name))
}

// mayAccess refuses accesses in a template of whoever may not make one, who could get into every tenant of the
// template by it, and to take them off of whoever may not delete one.
func (r *templateREST) mayAccess(ctx context.Context, t *tenantapi.TenantTemplate, verb, who string) error {
	if r.authorizer == nil {
		return nil
	}
	user, ok := request.UserFrom(ctx)
	if ok {
		decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{User: user, Verb: verb,
			APIVersion: tenantapi.GroupVersion().Version, Resource: tenantapi.Accesses, ResourceRequest: true})
		if decision == authorizer.DecisionAllow {
			return nil
		}
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("looking for the right to %s TenantAccesses: %w", verb, err))
		}
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: tenantapi.Templates}, t.Name, errors.New(
		"spec.access makes TenantAccesses: "+who+" has to have the right to "+verb+" "+tenantapi.Accesses))
}

// open reports whether a tenant has accesses by its template.
func (r *templateREST) open(ctx context.Context, t *tenantapi.Tenant) (bool, error) {
	if t.Spec.Template == "" {
		return false, nil
	}
	obj, err := r.Get(ctx, t.Spec.Template, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the template: %w", err)
	}
	template, ok := obj.(*tenantapi.TenantTemplate)
	return ok && len(template.Spec.Access) > 0, nil
}

// byDefault is the template of tenants that are made without one, nil if there is none.
func (r *templateREST) byDefault(ctx context.Context) (*tenantapi.TenantTemplate, error) {
	obj, err := r.List(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("looking for the default template: %w", err)
	}
	all := obj.(*tenantapi.TenantTemplateList).Items
	slices.SortFunc(all, func(a, b tenantapi.TenantTemplate) int { return strings.Compare(a.Name, b.Name) })
	for i := range all {
		if all[i].Spec.Default {
			return &all[i], nil
		}
	}
	return nil, nil
}

// fill gives a new Tenant what it has of its template from the beginning: the name and the protection, where
// it says none, and the labels. It notes whether there is access by it. A template that does not exist is no error:
// the status says so later.
func (r *templateREST) fill(ctx context.Context, t *tenantapi.Tenant) error {
	if t.Name == space.System {
		return nil
	}
	var from *tenantapi.TenantTemplate
	if t.Spec.Template == "" {
		var err error
		if from, err = r.byDefault(ctx); err != nil || from == nil {
			return err
		}
		t.Spec.Template = from.Name
	} else {
		var err error
		if from, err = r.named(ctx, t.Spec.Template); err != nil || from == nil {
			return err
		}
	}
	note(ctx, len(from.Spec.Access) > 0)
	if t.Spec.DeletionProtection == nil && from.Spec.DeletionProtection != nil {
		t.Spec.DeletionProtection = new(*from.Spec.DeletionProtection)
	}
	if t.Labels == nil && len(from.Spec.Labels) > 0 {
		t.Labels = map[string]string{}
	}
	maps.Copy(t.Labels, from.Spec.Labels)
	return nil
}

// named finds a template, nil when there is none, which whoever asks is warned of.
func (r *templateREST) named(ctx context.Context, name string) (*tenantapi.TenantTemplate, error) {
	obj, err := r.Get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		warning.AddWarning(ctx, "", fmt.Sprintf("there is no TenantTemplate %s in the partition of the tenant, "+
			"which gets it as soon as there is", name))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	found, _ := obj.(*tenantapi.TenantTemplate)
	return found, nil
}

// warn says that there is no template of the name that a Tenant now has.
func (r *templateREST) warn(ctx context.Context, obj, old runtime.Object) error {
	t, was := obj.(*tenantapi.Tenant), old.(*tenantapi.Tenant)
	if t.Spec.Template == "" || t.Spec.Template == was.Spec.Template {
		return nil
	}
	_, err := r.named(ctx, t.Spec.Template)
	return err
}

// templateStrategy decides what requests for templates may change.
type templateStrategy struct {
	apiregistry.Strategy[*tenantapi.TenantTemplate]
}

func prepareNewTemplate(t *tenantapi.TenantTemplate) {
	t.Generation, t.Status = 1, tenantapi.TenantTemplateStatus{}
}

func prepareChangedTemplate(t, was *tenantapi.TenantTemplate) {
	t.Status, t.Generation = was.Status, was.Generation
	if !apiequality.Semantic.DeepEqual(t.Spec, was.Spec) {
		t.Generation++
	}
}

func checkTemplate(ctx context.Context, t, was *tenantapi.TenantTemplate) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateTemplateName(t.Name, field.NewPath("metadata", "name"))
	if was != nil && apiequality.Semantic.DeepEqual(t.Spec, was.Spec) {
		return errs
	}
	if l := t.Spec.Limits; l != nil {
		path := spec.Child("limits")
		errs = append(errs, l.Validate(path)...)
		errs = append(errs, ValidateQuota(l.Quota, path.Child(tenantapi.LimitQuota))...)
	}
	errs = append(errs, validateScheduling("", t.Spec.Scheduling, spec.Child("scheduling"))...)
	errs = append(errs, validateImages("", t.Spec.Images, spec.Child("images"))...)
	errs = append(errs, validateHosts("", t.Spec.Hosts, spec.Child("hosts"))...)
	podSecurity, allow := t.Spec.PodSecurity, t.Spec.Allow
	if was != nil {
		podSecurity, allow = changedAllowances(podSecurity, was.Spec.PodSecurity, allow, was.Spec.Allow)
	}
	errs = append(errs, allowances.Check(podSecurity, allow, spec)...)
	errs = append(errs, metav1validation.ValidateLabels(t.Spec.Labels, spec.Child("labels"))...)
	if n := t.Spec.AtATime; n < 0 || n > mostAtATime {
		errs = append(errs, field.Invalid(spec.Child("atATime"), n, fmt.Sprintf("must be 1 to %d, or absent for %d",
			mostAtATime, tenantapi.DefaultAtATime)))
	}
	if n := t.Spec.MaxFailed; n < 0 {
		errs = append(errs, field.Invalid(spec.Child("maxFailed"), n, "must not be negative"))
	}
	errs = append(errs, templates.CheckAccesses(t.Spec.Access, func(a *tenantapi.TenantAccess) field.ErrorList {
		setAccessDefaults(a)
		return checkAccess(ctx, a, nil)
	}, spec.Child("access"))...)
	return append(errs, templates.Check(&t.Spec, spec)...)
}

func validateTemplateName(name string, path *field.Path) (errs field.ErrorList) {
	for _, problem := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (templateStrategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	s := obj.(*tenantapi.TenantTemplate).Spec.Scheduling
	if s == nil || !s.Exclusive {
		return nil
	}
	return warnOfLabels(s)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s templateStrategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if apiequality.Semantic.DeepEqual(obj.(*tenantapi.TenantTemplate).Spec.Scheduling,
		old.(*tenantapi.TenantTemplate).Spec.Scheduling) {
		return nil
	}
	return s.WarningsOnCreate(ctx, obj)
}

func (templateStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return reset("status")
}

// templateStatus lets the status subresource change the status alone.
type templateStatus struct{ templateStrategy }

func (templateStatus) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	t, was := obj.(*tenantapi.TenantTemplate), old.(*tenantapi.TenantTemplate)
	t.Spec = was.Spec
	metav1.ResetObjectMetaForStatus(t, was)
}

func (templateStatus) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return metav1validation.ValidateConditions(obj.(*tenantapi.TenantTemplate).Status.Conditions,
		field.NewPath("status", "conditions"))
}

func (templateStatus) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return reset("spec", "metadata")
}

func templateColumns() apiregistry.Columns[*tenantapi.TenantTemplate] {
	return apiregistry.Columns[*tenantapi.TenantTemplate]{
		Definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the template"},
			{Name: "Default", Type: "boolean", Description: "whether tenants made without a template have it"},
			{Name: "Tenants", Type: "integer", Description: "how many tenants have it whose space is made"},
			{Name: "Current", Type: "integer", Description: "how many of them have it as it is now"},
			{Name: "Failed", Type: "integer", Description: "how many of them could not get it"},
			{Name: "Age", Type: "string", Description: "the time since the template was made"},
		},
		Row: func(t *tenantapi.TenantTemplate, name, age string) []any {
			return []any{name, t.Spec.Default, t.Status.Tenants, t.Status.Current, t.Status.Failed, age}
		},
	}
}
