package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// spaces are clients of the spaces that manifests have objects of. They
// remember what kinds there are, so they are made anew for each round.
type spaces struct {
	config *rest.Config
	made   map[string]*client
}

type client struct {
	objects dynamic.Interface
	kinds   meta.RESTMapper
}

func newSpaces(config *rest.Config) *spaces {
	return &spaces{config: config, made: map[string]*client{}}
}

func (s *spaces) of(tenant string) (*client, error) {
	if c := s.made[tenant]; c != nil {
		return c, nil
	}
	config := s.config
	if tenant != "" {
		config = tenantapi.InSpace(config, tenant)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c := &client{objects: objects, kinds: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))}
	s.made[tenant] = c
	return c, nil
}

// find says where an object is, and names it in the one form that its record
// has: with a namespace if and only if its kind has one.
func (s *spaces) find(r ref) (dynamic.ResourceInterface, ref, error) {
	c, err := s.of(r.Tenant)
	if err != nil {
		return nil, r, err
	}
	mapping, err := c.kinds.RESTMapping(r.groupKind(), r.Version)
	if err != nil {
		return nil, r, err
	}
	resource := c.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		r.Namespace = ""
		return resource, r, nil
	}
	if r.Namespace == "" {
		r.Namespace = metav1.NamespaceDefault
	}
	return resource.Namespace(r.Namespace), r, nil
}

// found is an object whose place is known.
type found struct {
	object
	at  dynamic.ResourceInterface
	ref ref
}

// locate finds the places of the objects. Those of unknown kinds are in the
// error.
func (s *spaces) locate(objects []object) ([]found, error) {
	var out []found
	var errs []error
	for _, o := range objects {
		at, r, err := s.find(o.ref())
		if err != nil {
			errs = append(errs, o.wrap(err))
			continue
		}
		o.SetNamespace(r.Namespace)
		out = append(out, found{object: o, at: at, ref: r})
	}
	return out, errors.Join(errs...)
}

func (o object) wrap(err error) error {
	return fmt.Errorf("document %d: %s: %w", o.document, o.ref(), err)
}

// fileAnnotation says which manifest an object comes from. It is also what
// objects have in the name of the manifest that say nothing but their name.
const fileAnnotation = "a4s.io/manifest"

// existingAnnotation of an object in a manifest says what becomes of one that somebody else has
// made: with the value keep it stays as it is, else it becomes as the manifest says.
const (
	existingAnnotation = "a4s.io/existing"
	keep               = "Keep"
)

// apply applies all objects of a manifest, those after one that is refused as
// well.
func apply(ctx context.Context, objects []found, m manifest) error {
	var errs []error
	manager := m.manager()
	for _, o := range objects {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[existingAnnotation] == keep {
			switch got, err := o.at.Get(ctx, o.GetName(), metav1.GetOptions{}); {
			case err == nil && !appliedBy(got, manager):
				continue
			case err != nil && !apierrors.IsNotFound(err):
				errs = append(errs, o.wrap(err))
				continue
			}
		}
		annotations[fileAnnotation] = m.file
		o.SetAnnotations(annotations)
		if _, err := o.at.Apply(ctx, o.GetName(), o.Unstructured,
			metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			errs = append(errs, o.wrap(err))
		}
	}
	return errors.Join(errs...)
}

// remove deletes what still has fields in the name of manager, in the reverse
// order in which it was applied, and returns what that was.
func (s *spaces) remove(ctx context.Context, list []ref, manager string) ([]ref, error) {
	var removed []ref
	var errs []error
	for _, r := range slices.Backward(list) {
		ok, err := s.removeOne(ctx, r, manager)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting %s: %w", r, err))
		}
		if ok {
			removed = append(removed, r)
		}
	}
	return removed, errors.Join(errs...)
}

func (s *spaces) removeOne(ctx context.Context, r ref, manager string) (bool, error) {
	r.Version = "" // it may not be served any more
	at, _, err := s.find(r)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return false, nil // kind or tenant are gone, and the object with them
	}
	if err != nil {
		return false, err
	}
	got, err := at.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !appliedBy(got, manager) {
		return false, nil // somebody has made it their own
	}
	background := metav1.DeletePropagationBackground
	uid := got.GetUID()
	err = at.Delete(ctx, r.Name,
		metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// appliedBy reports whether an object has fields in the name of manager.
func appliedBy(got *unstructured.Unstructured, manager string) bool {
	return slices.ContainsFunc(got.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply
	})
}

// passing reports whether an error may well be gone in a moment: a kind, a
// namespace or a tenant is not there yet, or another server does the same.
func passing(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !passing(e) })
	}
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) ||
		apierrors.IsAlreadyExists(err)
}
