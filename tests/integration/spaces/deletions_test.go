package spaces_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/nstest"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/internal/tenantclient"
)

// stuck is how many tenants wait for something: more than are worked on at a
// time.
const stuck = 14

// TestDeletions: a tenant goes with all that is in its space, at once if
// nothing holds it, whoever else waits; one that waits says for what, and
// takes nothing new.
func TestDeletions(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	tenants, err := tenantclient.New(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := func(name string) {
		t.Helper()
		eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
			_, err := tenants.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if left := p.keys(t, "/"+name+"/"); len(left) > 0 {
			t.Errorf("left in etcd: %v", left)
		}
	}
	ctx := t.Context()
	var held []*space
	for i := range stuck {
		s := p.tenant(t, fmt.Sprintf("held-%d", i))
		cm := configMap("held")
		cm.Finalizers = []string{"example.com/hold"}
		if _, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		held = append(held, s)
	}
	full := p.tenant(t, "full")
	fill(t, full)
	for _, s := range held {
		if err := tenants.Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a report of what is waited for", func(ctx context.Context) (bool, error) {
		got, err := tenants.Get(ctx, held[0].name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.SpaceEmpty)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "ObjectsRemain" &&
			strings.Contains(c.Message, "1 configmaps, 1 namespaces: configmaps default/held is held by example.com/hold"), nil
	})
	_, err = p.admin.CoreV1().ConfigMaps("default.held-0").Create(ctx, configMap("late"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("made in a space that is being deleted: %v", err)
	}

	began := time.Now()
	if err := tenants.Delete(ctx, full.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(full.name)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("beside %d tenants that wait, a deletion took %s", stuck, took)
	}

	for _, s := range held {
		if _, err := p.admin.CoreV1().ConfigMaps("default."+s.name).Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range held {
		gone(s.name)
	}
}

// fill makes objects that go in different ways: many, replaced by controllers,
// in namespaces of the tenant's own, in none.
func fill(t *testing.T, s *space) {
	t.Helper()
	ctx := t.Context()
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	if _, err := s.client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := s.client.CoreV1().ConfigMaps("own").Create(ctx, configMap(fmt.Sprintf("cm-%d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{"storage": quantity("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "192.0.2.9", Path: "/"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod", func(ctx context.Context) (bool, error) {
		pods, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) > 0, err
	})
}
