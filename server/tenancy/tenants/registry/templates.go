package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
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
		Change: func(store *genericregistry.Store) { store.ResetFieldsStrategy = spec },
	}.Store(getter)
	if err != nil {
		return nil, nil, err
	}
	ofStatus := *store
	status := templateStatus{spec}
	ofStatus.UpdateStrategy, ofStatus.ResetFieldsStrategy = status, status
	return &templateREST{store}, &statusREST{&ofStatus}, nil
}

// templateREST refuses a second default.
type templateREST struct{ *genericregistry.Store }

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
	return r.Store.Create(ctx, obj, apiregistry.Then(validate, func(ctx context.Context, obj runtime.Object) error {
		return r.onlyDefault(ctx, obj.(*tenantapi.TenantTemplate))
	}), options)
}

// Update implements rest.Updater.
func (r *templateREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	check := func(ctx context.Context, obj, old runtime.Object) error {
		if old.(*tenantapi.TenantTemplate).Spec.Default {
			return nil
		}
		return r.onlyDefault(ctx, obj.(*tenantapi.TenantTemplate))
	}
	return r.Store.Update(ctx, name, info, create, apiregistry.ThenUpdate(update, check), forceCreate, options)
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

// fill gives a new Tenant what it has of its template from the beginning: the name, where it says
// none, and the labels. A template that does not exist is no error: the status says so later.
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
		obj, err := r.Get(ctx, t.Spec.Template, &metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			warning.AddWarning(ctx, "", fmt.Sprintf("there is no TenantTemplate %s in the partition of the tenant, "+
				"which gets it as soon as there is", t.Spec.Template))
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the template: %w", err)
		}
		from = obj.(*tenantapi.TenantTemplate)
	}
	if t.Labels == nil && len(from.Spec.Labels) > 0 {
		t.Labels = map[string]string{}
	}
	maps.Copy(t.Labels, from.Spec.Labels)
	return nil
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

func checkTemplate(_ context.Context, t, was *tenantapi.TenantTemplate) field.ErrorList {
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
	errs = append(errs, metav1validation.ValidateLabels(t.Spec.Labels, spec.Child("labels"))...)
	if n := t.Spec.AtATime; n < 0 || n > mostAtATime {
		errs = append(errs, field.Invalid(spec.Child("atATime"), n, fmt.Sprintf("must be 1 to %d, or absent for %d",
			mostAtATime, tenantapi.DefaultAtATime)))
	}
	if n := t.Spec.MaxFailed; n < 0 {
		errs = append(errs, field.Invalid(spec.Child("maxFailed"), n, "must not be negative"))
	}
	return append(errs, templates.Check(t.Spec.Objects, spec.Child("objects"))...)
}

func validateTemplateName(name string, path *field.Path) (errs field.ErrorList) {
	for _, problem := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
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
