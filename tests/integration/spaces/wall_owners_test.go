package spaces_test

import (
	"context"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestWallW9OwnersByUID: an object of a tenant that names an own object and the UID of
// something else holds up the deletion of nothing: not of what all share, not of what
// another tenant has, whatever kind it is and whatever finalizers it has.
func TestWallW9OwnersByUID(t *testing.T) {
	if nstest.Isolate(t) {
		ownersByUID(t, start(t, nil))
	}
}

// TestWallW9BesideUpstreamsManager: with settings of which upstream's manager is in charge.
func TestWallW9BesideUpstreamsManager(t *testing.T) {
	if nstest.Isolate(t) {
		ownersByUID(t, start(t, func(cfg *config.Server) {
			cfg.KubeControllerManagerArgs = []string{"secure-port=10257"}
		}))
	}
}

func ownersByUID(t *testing.T, p *plane) {
	t.Helper()
	t1, t2 := p.tenant(t, "t1"), p.tenant(t, "t2")
	ctx := t.Context()
	foreground, orphan := metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan
	class, err := p.admin.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Provisioner: "example.com/none"}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	priority, err := p.admin.SchedulingV1().PriorityClasses().Create(ctx,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := t2.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("theirs"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foos := t1.define(t, definition("owners.example.com"))
	bars := t1.define(t, definition("owners.example.com", named("bars", "Bar"), clusterWide))
	t2foos := t2.define(t, definition("owners.example.com"))
	theirFoo := t2.makes(t, t2foos, "default", foo(t2foos, "theirs", nil))
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	own, err := t1.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("own"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ownFoo := t1.makes(t, foos, "default", foo(foos, "own", nil))
	ownBar := t1.makes(t, bars, "", foo(bars, "own", nil))
	kept := []string{"example.com/hold"}
	blocks := true
	// From each kind, by each owner's name, to the UID of each.
	named := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "own"},
		{APIVersion: foos.GroupVersion().String(), Kind: "Foo", Name: "own"},
		{APIVersion: bars.GroupVersion().String(), Kind: "Bar", Name: "own"},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "not-there"},
	}
	var owners []metav1.OwnerReference
	for _, uid := range []types.UID{class.UID, priority.UID, theirs.UID, theirFoo.GetUID()} {
		for _, o := range named {
			o.UID, o.BlockOwnerDeletion = uid, &blocks
			owners = append(owners, o)
		}
	}
	for i, o := range owners {
		for _, in := range []struct {
			gvr       schema.GroupVersionResource
			namespace string
		}{{maps, "default"}, {foos, "default"}, {bars, ""}} {
			object := foo(in.gvr, string(rune('a'+i))+"-holds", nil)
			if in.gvr == maps {
				object.SetKind("ConfigMap")
				unstructured.RemoveNestedField(object.Object, "spec")
			}
			object.SetFinalizers(kept)
			object.SetOwnerReferences([]metav1.OwnerReference{o})
			t1.makes(t, in.gvr, in.namespace, object)
		}
	}
	// The collector works on what was made before these when these are gone.
	markers := map[schema.GroupVersionResource]*unstructured.Unstructured{}
	for gvr, namespace := range map[schema.GroupVersionResource]string{foos: "default", bars: ""} {
		object := foo(gvr, "z-marker", nil)
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: gvr.GroupVersion().String(),
			Kind: object.GetKind(), Name: "nobody", UID: "00000000-0000-0000-0000-000000000000"}})
		markers[gvr] = t1.makes(t, gvr, namespace, object)
	}
	t1.owned(t, "z-marker", nobody(foos, "Foo"))
	t1.collected(t, "z-marker")
	for gvr, namespace := range map[schema.GroupVersionResource]string{foos: "default", bars: ""} {
		eventually(t, gvr.Resource+" to be collected", func(ctx context.Context) (bool, error) {
			_, err := t1.in(gvr, namespace).Get(ctx, markers[gvr].GetName(), metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	}

	gone := func(what string, remove func(metav1.DeletionPropagation) error, policy metav1.DeletionPropagation,
		get func(context.Context) error) {
		t.Helper()
		if err := remove(policy); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		eventually(t, what+" to be gone", func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(get(ctx)), nil
		})
	}
	options := func(policy metav1.DeletionPropagation) metav1.DeleteOptions {
		return metav1.DeleteOptions{PropagationPolicy: &policy}
	}
	gone("a storage class", func(policy metav1.DeletionPropagation) error {
		return p.admin.StorageV1().StorageClasses().Delete(ctx, "shared", options(policy))
	}, foreground, func(ctx context.Context) error {
		_, err := p.admin.StorageV1().StorageClasses().Get(ctx, "shared", metav1.GetOptions{})
		return err
	})
	gone("a priority class", func(policy metav1.DeletionPropagation) error {
		return p.admin.SchedulingV1().PriorityClasses().Delete(ctx, "shared", options(policy))
	}, orphan, func(ctx context.Context) error {
		_, err := p.admin.SchedulingV1().PriorityClasses().Get(ctx, "shared", metav1.GetOptions{})
		return err
	})
	gone("a config map of another tenant", func(policy metav1.DeletionPropagation) error {
		return t2.client.CoreV1().ConfigMaps("default").Delete(ctx, "theirs", options(policy))
	}, foreground, func(ctx context.Context) error {
		_, err := t2.client.CoreV1().ConfigMaps("default").Get(ctx, "theirs", metav1.GetOptions{})
		return err
	})
	gone("a custom resource of another tenant", func(policy metav1.DeletionPropagation) error {
		return t2.in(t2foos, "default").Delete(ctx, "theirs", options(policy))
	}, foreground, func(ctx context.Context) error {
		_, err := t2.in(t2foos, "default").Get(ctx, "theirs", metav1.GetOptions{})
		return err
	})
	// What they really own goes with them, and not before.
	honest := configMap("honest")
	honest.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "own", UID: own.UID,
		BlockOwnerDeletion: &blocks}}
	if _, err := t1.client.CoreV1().ConfigMaps("default").Create(ctx, honest, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t1.owned(t, "honest-foo", ownFoo)
	t1.owned(t, "honest-bar", ownBar)
	for _, name := range []string{"honest", "honest-foo", "honest-bar"} {
		if _, err := t1.client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone("an own config map", func(policy metav1.DeletionPropagation) error {
		return t1.client.CoreV1().ConfigMaps("default").Delete(ctx, "own", options(policy))
	}, foreground, func(ctx context.Context) error {
		_, err := t1.client.CoreV1().ConfigMaps("default").Get(ctx, "honest", metav1.GetOptions{})
		return err
	})
	for _, in := range []struct {
		gvr             schema.GroupVersionResource
		namespace, owns string
	}{{foos, "default", "honest-foo"}, {bars, "", "honest-bar"}} {
		if err := t1.in(in.gvr, in.namespace).Delete(ctx, "own", options(foreground)); err != nil {
			t.Fatal(err)
		}
		t1.collected(t, in.owns)
	}
}
