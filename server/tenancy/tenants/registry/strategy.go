package registry

import (
	"context"
	"maps"
	"slices"
	"strconv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

var (
	_ rest.RESTCreateStrategy         = strategy{}
	_ rest.RESTUpdateStrategy         = statusStrategy{}
	_ rest.RESTGracefulDeleteStrategy = strategy{}
	_ rest.ResetFieldsStrategy        = statusStrategy{}
)

// strategy decides what requests for tenants may change.
type strategy struct {
	apiregistry.Strategy[*tenantapi.Tenant]
}

func newStrategy() strategy {
	return strategy{Strategy: apiregistry.Strategy[*tenantapi.Tenant]{
		Unconditional: true, PrepareNew: prepareNew, PrepareChanged: prepareChanged, Check: check,
	}}
}

func prepareNew(t *tenantapi.Tenant) {
	t.Generation = 1
	t.Status = tenantapi.TenantStatus{Phase: tenantapi.Active}
	if t.Name != space.System {
		t.Status.Conditions = []metav1.Condition{tenantapi.DormantCondition(metav1.Now())}
		awaken(t)
	}
	if !slices.Contains(t.Finalizers, tenantapi.Finalizer) {
		t.Finalizers = append(t.Finalizers, tenantapi.Finalizer)
	}
	setDefaults(t)
}

// opened, in the context of a request that writes a Tenant, is whether its template gives access to it.
type opened struct{}

// awaited is the context of a request that writes a Tenant. The same write says that its space is to be made: of two,
// a server that is killed may do one.
func awaited(ctx context.Context) context.Context { return context.WithValue(ctx, opened{}, new(bool)) }

// note notes whether the template of a Tenant gives access to it, before it is prepared.
func note(ctx context.Context, open bool) {
	if to, ok := ctx.Value(opened{}).(*bool); ok {
		*to = open
	}
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.Strategy.PrepareForCreate(ctx, obj)
	awakenOpened(ctx, obj)
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.Strategy.PrepareForUpdate(ctx, obj, old)
	awakenOpened(ctx, obj)
}

// awakenOpened is awaken for a tenant to which its template gives access.
func awakenOpened(ctx context.Context, obj runtime.Object) {
	t := obj.(*tenantapi.Tenant)
	if open, ok := ctx.Value(opened{}).(*bool); ok && *open && t.DeletionTimestamp == nil {
		toBeMade(t)
	}
}

func prepareChanged(t, was *tenantapi.Tenant) {
	t.Status = was.Status
	t.Status.Usage, t.Status.Effective = nil, nil
	awaken(t)
	if t.Spec.Partition == "" {
		t.Spec.Partition = was.Spec.Partition // who replaces a Tenant need not know where it is
	}
	if t.Spec.DeletionProtection == nil {
		t.Spec.DeletionProtection = was.Spec.DeletionProtection // it may be of the template; false takes it off
	}
	setDefaults(t)
	if !apiequality.Semantic.DeepEqual(t.Spec, was.Spec) {
		t.Generation = was.Generation + 1
	}
}

func setDefaults(t *tenantapi.Tenant) {
	if t.Spec.CRDPolicy == "" {
		t.Spec.CRDPolicy = tenantapi.DefaultCRDPolicy
	}
}

// CheckGracefulDelete sets the phase. There is no grace period, but this is
// the one place that meets the object which marking it as deleted will write.
func (strategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, _ *metav1.DeleteOptions) bool {
	obj.(*tenantapi.Tenant).Status.Phase = tenantapi.Terminating
	return false
}

// check lets what is there be, so that a Tenant which an older version took can still
// change, and go.
func check(ctx context.Context, t, was *tenantapi.Tenant) field.ErrorList {
	if was == nil {
		errs := append(validateName(ctx, t), append(validateAnnotations(t), validateSpec(t)...)...)
		return append(errs, checkAuthentication(t, nil)...)
	}
	errs := append(validateSpec(unjudged(t, was)), checkAuthentication(t, was)...)
	if t.Spec.Partition != was.Spec.Partition {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "partition"), "a tenant does not move"))
	}
	if t.Protected() && !was.Protected() && !t.DeletionTimestamp.IsZero() {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "deletionProtection"),
			"it is too late: the tenant is being deleted"))
	}
	if !maps.Equal(t.Annotations, was.Annotations) {
		errs = append(errs, validateAnnotations(t)...)
	}
	return errs
}

// unjudged is a Tenant without what it had before and another version says about what there is: which names
// count something, and what can be allowed.
func unjudged(t, was *tenantapi.Tenant) *tenantapi.Tenant {
	t = t.DeepCopy()
	if l, had := t.Spec.Limits, was.Spec.Limits; l != nil && had != nil &&
		apiequality.Semantic.DeepEqual(l.Quota, had.Quota) {
		l.Quota = nil
	}
	t.Spec.PodSecurity, t.Spec.Allow = changedAllowances(t.Spec.PodSecurity, was.Spec.PodSecurity,
		t.Spec.Allow, was.Spec.Allow)
	return t
}

// changedAllowances are those that differ from what was there.
func changedAllowances(
	podSecurity, hadPodSecurity string, allow, had *tenantapi.TenantAllowances,
) (string, *tenantapi.TenantAllowances) {
	if podSecurity == hadPodSecurity {
		podSecurity = ""
	}
	if apiequality.Semantic.DeepEqual(allow, had) {
		allow = nil
	}
	return podSecurity, allow
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	t := obj.(*tenantapi.Tenant)
	return append(warnOfNodes(t), allowances.Warnings(t, nil)...)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	t, was := obj.(*tenantapi.Tenant), old.(*tenantapi.Tenant)
	out := allowances.Warnings(t, was.Annotations)
	if apiequality.Semantic.DeepEqual(t.Spec.Scheduling, was.Spec.Scheduling) {
		return out
	}
	return append(out, warnOfNodes(t)...)
}

func validateName(ctx context.Context, t *tenantapi.Tenant) field.ErrorList {
	if err := space.ValidateTenant(t.Name); err != nil && !(t.Name == space.System && isServer(ctx)) {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), t.Name, err.Error())}
	}
	return nil
}

func validateAnnotations(t *tenantapi.Tenant) field.ErrorList {
	if err := allowances.Validate(t.Annotations); err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations"), err.Error())}
	}
	return nil
}

func validateAllowances(t *tenantapi.Tenant, spec *field.Path) field.ErrorList {
	if t.Name == space.System && (t.Spec.PodSecurity != "" || t.Spec.Allow != nil) {
		return field.ErrorList{field.Forbidden(spec, "podSecurity and allow are for tenants: administrators say what "+
			"is in the system space")}
	}
	return allowances.Check(t.Spec.PodSecurity, t.Spec.Allow, spec)
}

// isServer reports whether the server itself asks, or a member of system:masters,
// who may do all that it may.
func isServer(ctx context.Context) bool {
	u, ok := genericrequest.UserFrom(ctx)
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return reset("status")
}

func validateSpec(t *tenantapi.Tenant) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if p := t.Spec.CRDPolicy; !slices.Contains(tenantapi.CRDPolicies(), p) {
		errs = append(errs, field.NotSupported(spec.Child("crdPolicy"), p, tenantapi.CRDPolicies()))
	}
	if n := t.Spec.Nodes; n != "" && n != tenantapi.NodesReadOnly {
		errs = append(errs,
			field.NotSupported(spec.Child("nodes"), n, []tenantapi.NodeAccess{tenantapi.NodesReadOnly}))
	}
	if p := t.Spec.Partition; p != "" {
		for _, problem := range validation.IsDNS1123Label(p) {
			errs = append(errs, field.Invalid(spec.Child("partition"), p, problem))
		}
	}
	errs = append(errs, validateScheduling(t.Name, t.Spec.Scheduling, spec.Child("scheduling"))...)
	errs = append(errs, validateImages(t.Name, t.Spec.Images, spec.Child("images"))...)
	errs = append(errs, validateHosts(t.Name, t.Spec.Hosts, spec.Child("hosts"))...)
	errs = append(errs, validateAllowances(t, spec)...)
	if name := t.Spec.Template; name != "" {
		errs = append(errs, validateTemplateName(name, spec.Child("template"))...)
	}
	l := t.Spec.Limits
	if l == nil {
		return errs
	}
	path := spec.Child("limits")
	return append(append(errs, l.Validate(path)...), ValidateQuota(l.Quota, path.Child(tenantapi.LimitQuota))...)
}

// statusStrategy lets the status subresource change the status alone.
type statusStrategy struct{ strategy }

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	t, was := obj.(*tenantapi.Tenant), old.(*tenantapi.Tenant)
	t.Spec = was.Spec
	// Deletion alone decides the phase, and nobody writes what is counted.
	t.Status.Phase, t.Status.Usage, t.Status.Effective = was.Status.Phase, nil, nil
	metav1.ResetObjectMetaForStatus(t, was)
	awaken(t)
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return metav1validation.ValidateConditions(obj.(*tenantapi.Tenant).Status.Conditions,
		field.NewPath("status", "conditions"))
}

func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return reset("spec", "metadata")
}

func reset(paths ...any) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, p := range paths {
		set.Insert(fieldpath.MakePathOrDie(p))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(tenantapi.GroupVersion().String()): set}
}

// selectable are the fields that selectors can select by.
func selectable(t *tenantapi.Tenant) fields.Set {
	return fields.Set{
		tenantapi.SelectPhase:    string(t.Status.Phase),
		tenantapi.SelectTemplate: t.Spec.Template,
		tenantapi.SelectDormant:  strconv.FormatBool(t.Dormant() && t.DeletionTimestamp.IsZero()),
	}
}
