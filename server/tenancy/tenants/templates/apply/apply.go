package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// manager owns the fields that templates say.
const manager = "a4s-tenant-template"

// reconcile brings the space of one tenant into the state that its template says.
func (c *controller) reconcile(ctx context.Context, name string) error {
	known := c.o.Tenants.Known(name)
	if !made(known) {
		return nil
	}
	t := known.DeepCopy()
	if t.Spec.Template == "" {
		return c.release(ctx, t)
	}
	template := c.o.Tenants.Template(t.Spec.Template)
	if template == nil {
		return c.report(ctx, t, metav1.Condition{Type: tenantapi.TemplateApplied, Status: metav1.ConditionFalse,
			Reason: tenantapi.ReasonNoTemplate, Message: fmt.Sprintf("there is no TenantTemplate %s in the partition "+
				"of the tenant; what the space has of it stays", t.Spec.Template)})
	}
	if waits(t, template) && !c.turns.has(template, name) {
		return nil // whatever else there is to do for it is done then
	}
	if err := c.label(ctx, t, template.Spec.Labels); err != nil {
		return errors.Join(err, c.failed(ctx, t, template, err))
	}
	objects, err := templates.Render(template, t)
	if err == nil {
		err = c.apply(ctx, t, template, objects)
	}
	if apierrors.IsConflict(err) {
		return err // another version of the Tenant is there: it says more
	}
	if err != nil {
		return errors.Join(err, c.failed(ctx, t, template, err))
	}
	t.Status.Template = &tenantapi.AppliedTemplate{Name: template.Name, UID: template.UID,
		Generation: template.Generation, Objects: refs(objects)}
	c.marks.keep(t.Name, refs(objects))
	return c.report(ctx, t, metav1.Condition{Type: tenantapi.TemplateApplied, Status: metav1.ConditionTrue,
		Reason: tenantapi.ReasonApplied,
		Message: fmt.Sprintf("the space has generation %d of the TenantTemplate %s", template.Generation,
			template.Name)})
}

// made reports whether a tenant has a space that lives.
func made(t *tenantapi.Tenant) bool {
	return t != nil && !space.IsSystem(t.Name) && t.DeletionTimestamp.IsZero() && !t.Dormant() &&
		meta.IsStatusConditionTrue(t.Status.Conditions, tenantapi.SpaceReady)
}

func refs(objects []templates.Object) []tenantapi.TemplateObject {
	var out []tenantapi.TemplateObject
	for _, o := range objects {
		out = append(out, o.Ref())
	}
	return out
}

// union are those of a, and those of b that are not among them.
func union(a, b []tenantapi.TemplateObject) []tenantapi.TemplateObject {
	return append(slices.Clone(a), without(b, a)...)
}

// without are those of a that are not among b.
func without(a, b []tenantapi.TemplateObject) (out []tenantapi.TemplateObject) {
	for _, o := range a {
		if !slices.Contains(b, o) {
			out = append(out, o)
		}
	}
	return out
}

// had are the objects that a tenant has of a template by its status.
func had(t *tenantapi.Tenant) []tenantapi.TemplateObject {
	if t.Status.Template == nil {
		return nil
	}
	return t.Status.Template.Objects
}

// apply makes the objects of a tenant, and deletes what it had besides.
func (c *controller) apply(
	ctx context.Context, t *tenantapi.Tenant, template *tenantapi.TenantTemplate, objects []templates.Object,
) error {
	want := refs(objects)
	if len(without(want, had(t))) > 0 {
		// Generation 0 is behind every other: it is not applied yet.
		t.Status.Template = &tenantapi.AppliedTemplate{Name: template.Name, UID: template.UID,
			Objects: union(want, had(t))}
		if err := c.write(ctx, t); err != nil {
			return err
		}
	}
	client, err := c.in(t.Name)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.applyOne(ctx, client, t.Name, o); err != nil {
			return fmt.Errorf("%s: %w", o.Ref(), err)
		}
	}
	for _, ref := range without(had(t), want) {
		if err := c.drop(ctx, client, ref); err != nil {
			return fmt.Errorf("%s, which the template has no more: %w", ref, err)
		}
	}
	return nil
}

// in is a client of the space of a tenant, as its users see it.
func (c *controller) in(tenant string) (dynamic.Interface, error) {
	client, err := dynamic.NewForConfigAndClient(tenantapi.InSpace(c.config, tenant), c.http)
	if err != nil {
		return nil, fmt.Errorf("making a client of the space %s: %w", tenant, err)
	}
	return client, nil
}

func of(client dynamic.Interface, kind templates.Kind, namespace string) dynamic.ResourceInterface {
	if kind.Namespaced {
		return client.Resource(kind.GroupVersionResource()).Namespace(namespace)
	}
	return client.Resource(kind.GroupVersionResource())
}

// applyOne makes an object what the template says. What it has besides stays.
func (c *controller) applyOne(
	ctx context.Context, client dynamic.Interface, tenant string, o templates.Object,
) error {
	objects, options := of(client, o.Kind, o.GetNamespace()), metav1.ApplyOptions{FieldManager: manager, Force: true}
	is, err := objects.Apply(ctx, o.GetName(), o.Unstructured, options)
	if apierrors.IsInvalid(err) && replaceable(o.Kind) && validAnew(ctx, objects, o) {
		// What cannot change, the role of a binding for instance, may be what a user of the tenant made
		// before the template had the object.
		if err = objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err == nil {
			is, err = objects.Apply(ctx, o.GetName(), o.Unstructured, options)
		}
	}
	if err != nil {
		return err
	}
	c.marks.applied(tenant, o.Ref(), is.GetResourceVersion())
	return nil
}

// validAnew reports whether an object could be made if there were none of its name.
func validAnew(ctx context.Context, objects dynamic.ResourceInterface, o templates.Object) bool {
	anew := o.DeepCopy()
	anew.SetName(manager)
	_, err := objects.Apply(ctx, manager, anew, metav1.ApplyOptions{FieldManager: manager, Force: true,
		DryRun: []string{metav1.DryRunAll}})
	return err == nil
}

// replaceable reports whether nothing goes with an object of the kind.
func replaceable(k templates.Kind) bool {
	switch k.Kind {
	case templates.KindNamespace, "ServiceAccount":
		return false
	}
	return true
}

// drop lets go of an object that is the template's no more: a Namespace stays, without what the
// template said of it, because all that users have made in it would go as well.
func (c *controller) drop(ctx context.Context, client dynamic.Interface, ref tenantapi.TemplateObject) error {
	kind, ok := templates.KindCalled(ref.Kind)
	if !ok {
		return nil // of another version
	}
	objects := of(client, kind, ref.Namespace)
	if kind.Kind != templates.KindNamespace {
		if err := objects.Delete(ctx, ref.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
	is, err := objects.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	nothing := &unstructured.Unstructured{}
	nothing.SetGroupVersionKind(kind.GroupVersionKind)
	nothing.SetName(ref.Name)
	nothing.SetUID(is.GetUID()) // else it could be made anew
	_, err = objects.Apply(ctx, ref.Name, nothing, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone meanwhile
	}
	return err
}

// release lets go of all that a tenant without a template had of one.
func (c *controller) release(ctx context.Context, t *tenantapi.Tenant) error {
	if t.Status.Template == nil && meta.FindStatusCondition(t.Status.Conditions, tenantapi.TemplateApplied) == nil {
		return nil
	}
	if err := c.label(ctx, t, nil); err != nil {
		return err
	}
	client, err := c.in(t.Name)
	if err != nil {
		return err
	}
	for _, ref := range had(t) {
		if err := c.drop(ctx, client, ref); err != nil {
			return fmt.Errorf("%s, of a template that the tenant has no more: %w", ref, err)
		}
	}
	t.Status.Template = nil
	meta.RemoveStatusCondition(&t.Status.Conditions, tenantapi.TemplateApplied)
	c.marks.forget(t.Name)
	return c.write(ctx, t)
}

// label sets the labels of the Tenant itself.
func (c *controller) label(ctx context.Context, t *tenantapi.Tenant, labels map[string]string) error {
	of := map[string]any{"name": t.Name, "uid": t.UID}
	if len(labels) > 0 {
		of["labels"] = labels
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": tenantapi.Kind, "metadata": of})
	if err != nil {
		return fmt.Errorf("encoding the labels of the Tenant: %w", err)
	}
	force := true
	is, err := c.tenants.Patch(ctx, t.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: manager, Force: &force})
	if err != nil {
		return fmt.Errorf("the labels of the Tenant: %w", err)
	}
	// What the directory knows may be older; the status is judged by what there is.
	*t = *is
	return nil
}

// failed reports which object could not be what the template says. The tenant goes on having the
// objects of before and those that were made.
func (c *controller) failed(
	ctx context.Context, t *tenantapi.Tenant, template *tenantapi.TenantTemplate, because error,
) error {
	t.Status.Template = &tenantapi.AppliedTemplate{Name: template.Name, UID: template.UID,
		Generation: template.Generation, Objects: had(t)}
	return c.report(ctx, t, metav1.Condition{Type: tenantapi.TemplateApplied, Status: metav1.ConditionFalse,
		Reason: tenantapi.ReasonNotApplied, Message: fmt.Sprintf("generation %d of the TenantTemplate %s: %v",
			template.Generation, template.Name, because)})
}

// mostMessage is how long a condition's message is at most.
const mostMessage = 1024

// report writes the status with a condition, unless it stands there already.
func (c *controller) report(ctx context.Context, t *tenantapi.Tenant, condition metav1.Condition) error {
	condition.ObservedGeneration = t.Generation
	// It may have words of the tenant in it, and administrators read it on terminals.
	condition.Message = problem.Line(condition.Message)
	if len(condition.Message) > mostMessage {
		condition.Message = condition.Message[:mostMessage] + "..."
	}
	meta.SetStatusCondition(&t.Status.Conditions, condition)
	return c.write(ctx, t)
}

// write writes the status. One that is as it was writes nothing to the datastore.
func (c *controller) write(ctx context.Context, t *tenantapi.Tenant) error {
	updated, err := c.tenants.UpdateStatus(ctx, t, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("reporting what tenant %s has of its template: %w", t.Name, err)
	}
	*t = *updated
	return nil
}
