package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// manager owns the fields that templates say.
const manager = "a4s-tenant-template"

// reconcile brings the space of one tenant into the state that its template says. Nothing that a tenant can do in
// its space holds up the end of an access to it, nor what is in its Secrets.
func (c *controller) reconcile(ctx context.Context, name string) error {
	known := c.o.Tenants.Known(name)
	if !lives(known) {
		return nil
	}
	t := known.DeepCopy()
	var template *tenantapi.TenantTemplate
	if t.Spec.Template != "" {
		template = c.o.Tenants.Template(t.Spec.Template)
	}
	var kept error
	if t.Spec.Template == "" || template != nil {
		kept = c.grants.keep(ctx, t, template)
	}
	switch {
	case errors.Is(kept, errSuperseded), !made(known):
		return kept
	case t.Spec.Template == "" && kept != nil:
		return kept // the status names the accesses that are left
	case t.Spec.Template == "":
		return c.release(ctx, t)
	case template == nil:
		return c.report(ctx, t, metav1.Condition{Type: tenantapi.TemplateApplied, Status: metav1.ConditionFalse,
			Reason: tenantapi.ReasonNoTemplate, Message: fmt.Sprintf("there is no TenantTemplate %s in the partition "+
				"of the tenant; what the space has of it stays", t.Spec.Template)})
	case waits(t, template) && !c.turns.has(template, name):
		// Whatever else there is to do for it is done then.
		return c.waiting(ctx, t, errors.Join(kept, c.refresh(ctx, t, nil)))
	}
	err := c.label(ctx, t, template.Spec.Labels)
	var objects []templates.Object
	if err == nil {
		objects, err = templates.Render(template, t)
	}
	if err != nil {
		err = errors.Join(err, c.refresh(ctx, t, nil))
	} else {
		err = c.apply(ctx, t, template, objects)
	}
	if err == nil && kept == nil {
		err = c.grants.grant(ctx, t, template)
	}
	if err = errors.Join(err, kept); errors.Is(err, errSuperseded) {
		return err
	}
	if err != nil {
		return errors.Join(err, c.failed(ctx, t, template, err))
	}
	t.Status.Template = &tenantapi.AppliedTemplate{Name: template.Name, UID: template.UID,
		Generation: template.Generation, Objects: union(refs(objects), nil, had(t)), Access: accesses(t)}
	c.marks.keep(t.Name, refs(objects))
	return c.report(ctx, t, has(t))
}

// has is the condition of a tenant that has a template as the status says.
func has(t *tenantapi.Tenant) metav1.Condition {
	return metav1.Condition{Type: tenantapi.TemplateApplied, Status: metav1.ConditionTrue,
		Reason: tenantapi.ReasonApplied, Message: fmt.Sprintf("the space has generation %d of the TenantTemplate %s",
			t.Status.Template.Generation, t.Status.Template.Name)}
}

// waiting reports of a tenant that waits for its turn what could not be done before it, or that it was done.
func (c *controller) waiting(ctx context.Context, t *tenantapi.Tenant, err error) error {
	is := meta.FindStatusCondition(t.Status.Conditions, tenantapi.TemplateApplied)
	late := is.Status == metav1.ConditionTrue || is.Reason == tenantapi.ReasonNotCurrent
	switch {
	case errors.Is(err, errSuperseded), err == nil && is.Reason != tenantapi.ReasonNotCurrent:
		return err
	case err == nil:
		return c.report(ctx, t, has(t))
	case errors.Is(ctx.Err(), context.Canceled):
		return err // another server goes on
	}
	ctx, cancel := spare(ctx)
	defer cancel()
	reason := tenantapi.ReasonNotApplied
	if late {
		reason = tenantapi.ReasonNotCurrent
	}
	return errors.Join(err, c.report(ctx, t, metav1.Condition{Type: tenantapi.TemplateApplied,
		Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf("the space waits for its turn to get the "+
			"TenantTemplate %s as it is now, and has not what goes before that: %v", t.Spec.Template, err)}))
}

// lives reports whether a tenant is there to stay.
func lives(t *tenantapi.Tenant) bool {
	return t != nil && !space.IsSystem(t.Name) && t.DeletionTimestamp.IsZero()
}

// made reports whether a tenant has a space that lives.
func made(t *tenantapi.Tenant) bool {
	return lives(t) && !t.Dormant() &&
		meta.IsStatusConditionTrue(t.Status.Conditions, tenantapi.SpaceReady)
}

func refs(objects []templates.Object) []tenantapi.TemplateObject {
	var out []tenantapi.TemplateObject
	for _, o := range objects {
		out = append(out, o.Ref())
	}
	return out
}

// union are the names of want and those of more, with what had knows of them.
func union(want, more, had []tenantapi.TemplateObject) []tenantapi.TemplateObject {
	out := slices.Concat(want, without(more, want))
	for i := range out {
		out[i] = out[i].Named()
		if j := slices.IndexFunc(had, named(out[i])); j >= 0 {
			out[i] = had[j]
		}
	}
	return out
}

// without are those of a whose names are not among b.
func without(a, b []tenantapi.TemplateObject) (out []tenantapi.TemplateObject) {
	for _, o := range a {
		if !slices.ContainsFunc(b, named(o)) {
			out = append(out, o)
		}
	}
	return out
}

// named finds the object of a name.
func named(o tenantapi.TemplateObject) func(tenantapi.TemplateObject) bool {
	return func(is tenantapi.TemplateObject) bool { return is.Named() == o.Named() }
}

// theirs are the objects that were made for a template. A name alone may be that of an object of the tenant.
func theirs(objects []tenantapi.TemplateObject) (out []tenantapi.TemplateObject) {
	for _, o := range objects {
		if o.UID != "" {
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
	in, err := c.in(t.Name)
	if err != nil {
		return err
	}
	want := refs(objects)
	if len(without(want, had(t))) > 0 {
		if len(union(want, theirs(had(t)), nil)) > mostObjects {
			// Each change of a template that a tenant cannot have would add to them.
			if err := c.maker.dropAll(ctx, in, t, want); err != nil {
				return errors.Join(err, c.refresh(ctx, t, nil))
			}
		}
		t.Status.Template = &tenantapi.AppliedTemplate{Name: template.Name, UID: template.UID, Generation: begun,
			Objects: union(want, theirs(had(t)), had(t)), Access: accesses(t)}
		if err := c.write(ctx, t); err != nil {
			return err
		}
	}
	var errs []error
	// tried are the Secrets that need no other try by what the status says of them.
	var tried []tenantapi.TemplateObject
	room := tenantapi.MaxTemplateBytes - templates.Size(&template.Spec)
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		// Secrets are the last objects: what they replace may be good no more.
		if len(errs) > 0 && o.Kind.Kind != templates.KindSecret {
			continue
		}
		is := &t.Status.Template.Objects[slices.IndexFunc(had(t), named(o.Ref()))]
		from := is.From
		err := c.maker.bring(ctx, in, o, is, &room)
		if err == nil || from == o.From.String() {
			tried = append(tried, o.Ref())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Ref(), err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(append(errs, c.refresh(ctx, t, tried))...)
	}
	return c.maker.dropAll(ctx, in, t, want)
}

// maker makes and drops objects in spaces.
type maker struct {
	sources sources
	marks   *marks
}

// bring makes an object what the template says, and notes in the status what it made.
func (m maker) bring(
	ctx context.Context, in *inSpace, o templates.Object, is *tenantapi.TemplateObject, room *int,
) error {
	if err := m.sources.fill(ctx, o, room); err != nil {
		return err
	}
	uid, err := m.applyOne(ctx, in, o, m.marks.uid(in.tenant, *is))
	if err != nil {
		return err
	}
	is.UID, is.From = uid, ""
	if o.Kind.Kind == templates.KindSecret {
		is.From = o.From.String()
	}
	return nil
}

// begun is the generation of a template that a tenant is being given: it is behind every other.
const begun = 0

// mostObjects is how many objects the status of a tenant names at most when it gets a template: those of two.
const mostObjects = 2 * tenantapi.MaxTemplateObjects

// dropAll drops what a tenant has besides what it shall have.
func (m maker) dropAll(
	ctx context.Context, in *inSpace, t *tenantapi.Tenant, want []tenantapi.TemplateObject,
) error {
	for _, ref := range without(had(t), want) {
		if err := m.drop(ctx, in, ref); err != nil {
			return fmt.Errorf("%s, which the template has no more: %w", ref, err)
		}
		t.Status.Template.Objects = slices.DeleteFunc(slices.Clone(t.Status.Template.Objects), named(ref))
	}
	return nil
}

// applyOne makes an object what the template says. uid is the one that was made before, empty if none was. What is
// not that one is somebody's who may have given it owners, finalizers and fields that the template does not say.
func (m maker) applyOne(
	ctx context.Context, in *inSpace, o templates.Object, uid types.UID,
) (types.UID, error) {
	var is *unstructured.Unstructured
	var made bool
	var err error
	if uid != "" {
		is, made, err = in.apply(ctx, o, uid)
	}
	if uid == "" || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		if uid, err = in.clear(ctx, o, uid); err != nil {
			return "", err
		}
		is, made, err = in.apply(ctx, o, uid)
	}
	if apierrors.IsInvalid(err) && replaceable(o.Kind) && validAnew(ctx, in.of(o.Kind, o.GetNamespace()), o) {
		// What cannot change, the role of a binding for instance, changed in the template.
		if err = in.remove(ctx, o.Kind, o.Ref(), uid); err == nil {
			uid = ""
			is, made, err = in.apply(ctx, o, "")
		}
	}
	if err != nil {
		return "", err
	}
	if uid == "" && !made {
		return "", errors.New("somebody else has just made one")
	}
	m.marks.applied(in.tenant, o.Ref(), is.GetUID(), is.GetResourceVersion())
	return is.GetUID(), nil
}

// validAnew reports whether an object could be made if there were none of its name. It tries a name that the tenant
// cannot know, and so not occupy.
func validAnew(ctx context.Context, objects dynamic.ResourceInterface, o templates.Object) bool {
	anew := o.DeepCopy()
	anew.SetName(string(uuid.NewUUID()))
	_, err := objects.Apply(ctx, anew.GetName(), anew, metav1.ApplyOptions{FieldManager: manager, Force: true,
		DryRun: []string{metav1.DryRunAll}})
	// A quota of the tenant may have no room for one more Secret. It has room for it as soon as the old one is gone.
	return err == nil || o.Kind.Kind == templates.KindSecret && apierrors.IsForbidden(err)
}

// replaceable reports whether nothing goes with an object of the kind.
func replaceable(k templates.Kind) bool {
	switch k.Kind {
	case templates.KindNamespace, kindServiceAccount:
		return false
	}
	return true
}

// stays reports whether an object stays when it is the template's no more: what users have made in a Namespace
// would go with it, and the tokens of pods with the ServiceAccount that they have by themselves.
func stays(ref tenantapi.TemplateObject) bool {
	return ref.Kind == templates.KindNamespace || ref.Kind == kindServiceAccount && ref.Name == "default"
}

const kindServiceAccount = "ServiceAccount"

// drop lets go of an object that is the template's no more, if it is the one that was made.
func (m maker) drop(ctx context.Context, in *inSpace, ref tenantapi.TemplateObject) error {
	ref.UID = m.marks.uid(in.tenant, ref)
	kind, ok := templates.KindCalled(ref.Kind)
	if !ok || ref.UID == "" {
		return nil // of another version; of nobody or somebody else
	}
	m.marks.dropped(in.tenant, ref)
	if stays(ref) {
		return in.release(ctx, kind, ref)
	}
	return in.remove(ctx, kind, ref, ref.UID)
}

// release lets go of all that a tenant without a template had of one.
func (c *controller) release(ctx context.Context, t *tenantapi.Tenant) error {
	if t.Status.Template == nil && meta.FindStatusCondition(t.Status.Conditions, tenantapi.TemplateApplied) == nil {
		return nil
	}
	if err := c.label(ctx, t, nil); err != nil {
		return err
	}
	in, err := c.in(t.Name)
	if err != nil {
		return err
	}
	for _, ref := range had(t) {
		if err := c.maker.drop(ctx, in, ref); err != nil {
			return fmt.Errorf("%s, of a template that the tenant has no more: %w", ref, err)
		}
	}
	t.Status.Template = nil
	meta.RemoveStatusCondition(&t.Status.Conditions, tenantapi.TemplateApplied)
	c.marks.keep(t.Name, nil)
	return c.write(ctx, t)
}

// errSuperseded is a write that came too late: another version of the Tenant is there, which says more.
var errSuperseded = errors.New("the Tenant has changed meanwhile")

// late says of a write of a Tenant that it came too late, if it did.
func late(err error) error {
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", errSuperseded, err)
	}
	return err
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
		return fmt.Errorf("the labels of the Tenant: %w", late(err))
	}
	// What the directory knows may be older; the status is judged by what there is.
	*t = *is
	return nil
}

// failed reports which object could not be what the template says. The tenant goes on having the
// objects of before and those that were made. That it took too long is such an error, too: what is not said
// would hold up all other tenants.
func (c *controller) failed(
	ctx context.Context, t *tenantapi.Tenant, template *tenantapi.TenantTemplate, because error,
) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil // another server goes on
	}
	ctx, cancel := spare(ctx)
	defer cancel()
	t.Status.Template = &tenantapi.AppliedTemplate{Name: template.Name, UID: template.UID,
		Generation: template.Generation, Objects: had(t), Access: accesses(t)}
	return c.report(ctx, t, metav1.Condition{Type: tenantapi.TemplateApplied, Status: metav1.ConditionFalse,
		Reason: tenantapi.ReasonNotApplied, Message: fmt.Sprintf("generation %d of the TenantTemplate %s: %v",
			template.Generation, template.Name, because)})
}

const (
	// mostMessage is how long a condition's message is at most.
	mostMessage = 1024
	// spareLimit bounds what is done after work that took too long.
	spareLimit = 5 * time.Second
)

// spare is a context for what is done although the time is over.
func spare(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), spareLimit)
}

// message is what a condition says. It may have words of the tenant in it, and administrators read it on terminals.
func message(text string) string { return problem.Short(problem.Line(text), mostMessage) }

// report writes the status with a condition, unless it stands there already.
func (c *controller) report(ctx context.Context, t *tenantapi.Tenant, condition metav1.Condition) error {
	condition.ObservedGeneration = t.Generation
	condition.Message = message(condition.Message)
	meta.SetStatusCondition(&t.Status.Conditions, condition)
	return c.write(ctx, t)
}

// write writes the status. One that is as it was writes nothing to the datastore.
func (c *controller) write(ctx context.Context, t *tenantapi.Tenant) error {
	updated, err := c.tenants.UpdateStatus(ctx, t, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("reporting what tenant %s has of its template: %w", t.Name, late(err))
	}
	*t = *updated
	return nil
}
