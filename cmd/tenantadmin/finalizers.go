package tenantadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// finalizersHave is how long an object has been deleted before its finalizers are
	// dropped: controllers of the cluster that work need less.
	finalizersHave = 5 * time.Second
	// dropEvery is how often it is looked for such objects, and listFor how long one
	// resource may take.
	dropEvery, listFor = time.Second, 10 * time.Second
	perPage            = 500
)

// Dropper takes the finalizers off the objects of a deleted tenant.
type Dropper struct {
	admin  *Admin
	tenant string
	say    func(string)
	last   time.Time
	// loosened are the custom resources whose definition was changed to take everything.
	loosened map[schema.GroupResource]bool
}

// NewDropper makes one with the rights of an Admin. say learns of each object what was
// dropped.
func NewDropper(a *Admin, tenant string, say func(string)) *Dropper {
	return &Dropper{admin: a, tenant: tenant, say: say, loosened: map[schema.GroupResource]bool{}}
}

// Drop looks once for objects that are deleted and held, unless it has just done so. What
// the API cannot read now is for the cluster to remove.
func (d *Dropper) Drop(ctx context.Context) error {
	if time.Since(d.last) < dropEvery {
		return nil
	}
	defer func() { d.last = time.Now() }()
	cfg := rest.CopyConfig(d.admin.cfg)
	cfg.Host = Address(d.admin.server, d.tenant)
	cfg.WarningHandler = rest.NoWarnings{} // it looks at every kind, deprecated ones too
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a discovery client: %w", err)
	}
	objects, err := metadata.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client of metadata: %w", err)
	}
	lists, err := client.ServerPreferredResources()
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("finding out which resources there are: %w", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // what a tenant calls its groups is checked by the server
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "patch") {
				continue
			}
			if err := d.resource(ctx, objects.Resource(gv.WithResource(r.Name)), gv.WithResource(r.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// resource drops those of one resource.
func (d *Dropper) resource(ctx context.Context, client metadata.Getter, r schema.GroupVersionResource) error {
	limited, cancel := context.WithTimeout(ctx, listFor)
	defer cancel()
	for options := (metav1.ListOptions{Limit: perPage}); ; {
		page, err := client.List(limited, options)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return nil // it is read again
		}
		for i := range page.Items {
			if err := d.object(ctx, client, r, &page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

func (d *Dropper) object(
	ctx context.Context, client metadata.Getter, r schema.GroupVersionResource, m *metav1.PartialObjectMetadata,
) error {
	if len(m.Finalizers) == 0 || m.DeletionTimestamp == nil || time.Since(m.DeletionTimestamp.Time) < finalizersHave {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.UID, "resourceVersion": m.ResourceVersion, "finalizers": nil}})
	if err != nil {
		return err
	}
	_, err = client.Namespace(m.Namespace).Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it went, or it is seen again
	case apierrors.IsInvalid(err) && !d.loosened[r.GroupResource()]:
		// Its definition was made so that nothing of it can be changed.
		return d.loosen(ctx, r.GroupResource())
	case err != nil:
		d.say(fmt.Sprintf("could not drop finalizers of %s: %s", describe(r, m), strconv.Quote(err.Error())))
		return nil
	}
	d.say(fmt.Sprintf("dropped finalizers of %s: %s", describe(r, m), quoted(m.Finalizers)))
	return nil
}

// loosen has the definition of a custom resource take every object.
func (d *Dropper) loosen(ctx context.Context, r schema.GroupResource) error {
	d.loosened[r] = true
	cfg := rest.CopyConfig(d.admin.cfg)
	cfg.Host = Address(d.admin.server, d.tenant)
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client of definitions: %w", err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	crd, err := definitions.Get(ctx, r.String(), metav1.GetOptions{})
	if err != nil {
		return nil // it is one of the cluster, or of nobody: the refusal is said next time
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return fmt.Errorf("reading the definition of %s: %w", r, err)
	}
	for _, v := range versions {
		if version, ok := v.(map[string]any); ok {
			version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
				"x-kubernetes-preserve-unknown-fields": true}}
			delete(version, "selectableFields")
		}
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		return fmt.Errorf("changing the definition of %s: %w", r, err)
	}
	if _, err := definitions.Update(ctx, crd, metav1.UpdateOptions{FieldManager: "a4s"}); err != nil {
		d.say(fmt.Sprintf("could not drop the schema of %s, which refuses changes: %s", r, strconv.Quote(err.Error())))
		return nil
	}
	d.say(fmt.Sprintf("dropped the schema of %s, which refuses changes", r))
	return nil
}

// describe names an object of a tenant, who chose the name.
func describe(r schema.GroupVersionResource, m *metav1.PartialObjectMetadata) string {
	name := m.Name
	if m.Namespace != "" {
		name = m.Namespace + "/" + name
	}
	return r.GroupResource().String() + " " + strconv.Quote(name)
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return strings.Join(out, ", ")
}
