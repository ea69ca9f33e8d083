package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

func secretResource() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(string(corev1.ResourceSecrets))
}

// sources are the Secrets of the system space that others are copies of.
type sources struct {
	secrets dynamic.NamespaceableResourceInterface
}

// refresh copies Secrets anew that a tenant has copies of by its status, whatever its template is by now, but for
// those that were tried. What they replace may be good no more, and the tenant may wait for its turn or not be able
// to get the template. Each is copied by itself: none waits for another one. It goes on when the time is over.
func (c *controller) refresh(ctx context.Context, t *tenantapi.Tenant, tried []tenantapi.TemplateObject) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil // another server goes on
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = spare(ctx)
		defer cancel()
	}
	in, err := c.in(t.Name)
	if err != nil {
		return err
	}
	var errs []error
	anew := false
	for i := range had(t) {
		is := &t.Status.Template.Objects[i]
		if is.From == "" || slices.ContainsFunc(tried, named(*is)) {
			continue
		}
		was := is.UID
		if err := c.maker.copyAnew(ctx, in, t, is); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", is, err))
		}
		anew = anew || is.UID != was
	}
	if anew {
		errs = append(errs, c.write(ctx, t))
	}
	return errors.Join(errs...)
}

// copyAnew copies one Secret anew. Its labels stay as they are: the template may say other ones by now, or not be
// one that the tenant can have.
func (m maker) copyAnew(
	ctx context.Context, in *inSpace, t *tenantapi.Tenant, is *tenantapi.TemplateObject,
) error {
	o := templates.CopyOf(*is, t.Status.Template.Name)
	there, err := in.of(o.Kind, is.Namespace).Get(ctx, is.Name, metav1.GetOptions{})
	switch {
	case err == nil && there.GetUID() == m.marks.uid(in.tenant, *is):
		labels := map[string]string{}
		maps.Copy(labels, there.GetLabels())
		maps.Copy(labels, o.GetLabels())
		o.SetLabels(labels)
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	room := tenantapi.MaxTemplateBytes
	return m.bring(ctx, in, o, is, &room)
}

// fill gives a Secret what is in the one of the system space that it is a copy of; other objects have it all. The
// API is asked each time: whether it may be copied can have changed. room is how long Secrets can be yet.
func (s sources) fill(ctx context.Context, o templates.Object, room *int) error {
	if o.Kind.Kind != templates.KindSecret {
		return nil
	}
	from := o.From
	is, err := s.secrets.Namespace(from.Namespace).Get(ctx, from.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the Secret %s of the system space: %w", from, err)
	}
	// Who writes templates does not learn by this which Secrets there are.
	if err != nil || is.GetLabels()[tenantapi.CopyLabel] != tenantapi.CopyAllowed {
		return fmt.Errorf("there is no Secret %s with the label %s: %q in the system space", from, tenantapi.CopyLabel,
			tenantapi.CopyAllowed)
	}
	// This is asked for in spite of the label: who may label Secrets need not be who may give access to a tenant.
	if _, ok := is.GetLabels()[tenantapi.AccessLabel]; ok {
		return fmt.Errorf("the Secret %s of the system space is the credentials of a TenantAccess, which are not "+
			"copied", from)
	}
	// The type and the texts are as they are in JSON.
	typ, _, err := unstructured.NestedString(is.Object, "type")
	if err != nil {
		return fmt.Errorf("reading the Secret %s of the system space: %w", from, err)
	}
	if err := templates.CheckType(corev1.SecretType(typ)); err != nil {
		return fmt.Errorf("%s of the system space: %w", from, err)
	}
	data, _, err := unstructured.NestedStringMap(is.Object, "data")
	if err != nil {
		return fmt.Errorf("reading the Secret %s of the system space: %w", from, err)
	}
	for key, value := range data {
		*room -= len(key) + len(value)
	}
	if *room < 0 {
		return fmt.Errorf("with the Secret %s of the system space the objects have more than %d bytes together", from,
			tenantapi.MaxTemplateBytes)
	}
	o.Object["type"] = typ
	return unstructured.SetNestedStringMap(o.Object, data, "data")
}
