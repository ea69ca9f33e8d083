package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// inSpace is a client of the space of a tenant, as its users see it.
type inSpace struct {
	tenant string
	rest   restclient.Interface
	dynamic.Interface
}

// in makes the client of the space of a tenant.
func (c *controller) in(tenant string) (*inSpace, error) {
	config := dynamic.ConfigFor(tenantapi.InSpace(c.config, tenant))
	config.GroupVersion, config.APIPath = &schema.GroupVersion{}, "/" // paths are absolute
	client, err := restclient.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("making a client of the space %s: %w", tenant, err)
	}
	return &inSpace{tenant, client, dynamic.New(client)}, nil
}

func (s *inSpace) of(kind templates.Kind, namespace string) dynamic.ResourceInterface {
	if kind.Namespaced {
		return s.Resource(kind.GroupVersionResource()).Namespace(namespace)
	}
	return s.Resource(kind.GroupVersionResource())
}

// apply applies an object to the one of a UID, or makes it if that is empty. made reports whether the request
// made it: nothing in an object says that, because a tenant can write all of it.
func (s *inSpace) apply(
	ctx context.Context, o templates.Object, uid types.UID,
) (is *unstructured.Unstructured, made bool, err error) {
	content := o.DeepCopy()
	content.SetUID(uid) // one that is not there is a conflict, and another one cannot change to this one
	body, err := content.MarshalJSON()
	if err != nil {
		return nil, false, fmt.Errorf("encoding it: %w", err)
	}
	path := []string{"apis", o.Kind.Group, o.Kind.Version}
	if o.Kind.Group == "" {
		path = []string{"api", o.Kind.Version}
	}
	if o.Kind.Namespaced {
		path = append(path, "namespaces", o.GetNamespace())
	}
	code := 0
	result := s.rest.Patch(types.ApplyPatchType).AbsPath(append(path, o.Kind.Resource, o.GetName())...).
		Param("fieldManager", manager).Param("force", "true").Body(body).Do(ctx).StatusCode(&code)
	answer, err := result.Raw()
	if err != nil {
		return nil, false, result.Error()
	}
	is = &unstructured.Unstructured{}
	if err := is.UnmarshalJSON(answer); err != nil {
		return nil, false, fmt.Errorf("reading the answer: %w", err)
	}
	return is, code == http.StatusCreated, nil
}

// clear makes room for an object if what has its name is not the one with the UID: somebody's object goes, with
// all in it that would stay beside what the template says. What cannot go loses what would have it go later. It
// returns the UID of what is there then.
func (s *inSpace) clear(ctx context.Context, o templates.Object, uid types.UID) (types.UID, error) {
	objects := s.of(o.Kind, o.GetNamespace())
	is, err := objects.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	case is.GetUID() == uid:
		return uid, nil
	}
	if len(is.GetOwnerReferences())+len(is.GetFinalizers()) > 0 {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": is.GetUID(), "ownerReferences": nil, "finalizers": nil}})
		if err != nil {
			return "", fmt.Errorf("encoding a patch: %w", err)
		}
		_, err = objects.Patch(ctx, o.GetName(), types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: manager})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("taking owners and finalizers off what somebody else made: %w", err)
		}
	}
	if !replaceable(o.Kind) {
		return is.GetUID(), nil
	}
	return "", s.remove(ctx, o.Kind, o.Ref(), is.GetUID())
}

// remove deletes the object of a UID, if it is there.
func (s *inSpace) remove(
	ctx context.Context, kind templates.Kind, ref tenantapi.TemplateObject, uid types.UID,
) error {
	err := s.of(kind, ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone
		return nil
	}
	return err
}

// release takes what the template said off an object, which stays.
func (s *inSpace) release(ctx context.Context, kind templates.Kind, ref tenantapi.TemplateObject) error {
	objects := s.of(kind, ref.Namespace)
	is, err := objects.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && is.GetUID() != ref.UID {
		return nil
	}
	if err != nil {
		return err
	}
	nothing := &unstructured.Unstructured{}
	nothing.SetGroupVersionKind(kind.GroupVersionKind)
	nothing.SetName(ref.Name)
	nothing.SetUID(ref.UID) // else it could be made anew
	_, err = objects.Apply(ctx, ref.Name, nothing, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone
		return nil
	}
	return err
}
