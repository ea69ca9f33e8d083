package spaces_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
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
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := func(name string) {
		t.Helper()
		eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
			_, err := tenants.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if left := p.keysOf(t, name); len(left) > 0 {
			t.Errorf("left in etcd: %v", left)
		}
	}
	ctx := t.Context()
	like := p.likeTenant(t, "full")
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
			strings.Contains(c.Message,
				"1 configmaps, 1 namespaces: configmaps default/held is held by example.com/hold"), nil
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
	// Whoever waits for the others waits until they are gone, which they are not before what follows.
	t.Logf("beside %d tenants that wait, a deletion took %s", stuck, time.Since(began).Round(time.Millisecond))
	if _, err := p.admin.CoreV1().ConfigMaps(like).Get(ctx, "theirs", metav1.GetOptions{}); err != nil {
		t.Errorf("in the namespace of the system that was called like the tenant: %v", err)
	}

	for _, s := range held {
		if _, err := p.admin.CoreV1().ConfigMaps("default."+s.name).Patch(ctx, "held", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range held {
		gone(s.name)
	}
	t.Run("what nothing serves", func(t *testing.T) { testUnserved(t, p, tenants) })
	t.Run("pods", func(t *testing.T) { testPodsEndFirst(t, p, tenants) })
}

// testPodsEndFirst: pods get their time to end, and keep what they use for it.
func testPodsEndFirst(t *testing.T, p *plane, tenants *tenantapi.Client) {
	s := p.tenant(t, "running")
	ctx, pods, maps := t.Context(), p.admin.CoreV1().Pods("default.running"),
		p.admin.CoreV1().ConfigMaps("default.running")
	if _, err := maps.Create(ctx, configMap("used"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// As if a kubelet ran it.
	if _, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := tenants.Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a report of the pod", func(ctx context.Context) (bool, error) {
		got, err := tenants.Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.SpaceEmpty)
		return c != nil && strings.Contains(c.Message, "1 pods") &&
			strings.Contains(c.Message, "pods default/web has 30 seconds to end"), nil
	})
	if _, err := maps.Get(ctx, "used", metav1.GetOptions{}); err != nil {
		t.Errorf("what the pod uses: %v", err)
	}
	now := int64(0)
	if err := pods.Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
		_, err := tenants.Get(ctx, s.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if left := p.keysOf(t, s.name); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
}

// testUnserved: objects of a CRD that serves no version any more can be
// deleted by nobody, and do not hold their tenant.
func testUnserved(t *testing.T, p *plane, tenants *tenantapi.Client) {
	post(t, p.Admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		`{"metadata":{"name":"olds.unserved.example.com"},
		"spec":{"group":"unserved.example.com","scope":"Namespaced","names":{"plural":"olds","singular":"old","kind":"Old","listKind":"OldList"},
		"versions":[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	s := p.tenant(t, "unserved")
	key := "/registry/unserved.example.com/olds/unserved/default/one"
	if _, err := p.etcd.Put(t.Context(), key, `{"apiVersion":"unserved.example.com/v1","kind":"Old",`+
		`"metadata":{"name":"one","namespace":"default.unserved"}}`); err != nil {
		t.Fatal(err)
	}
	if err := tenants.Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
		_, err := tenants.Get(ctx, s.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if left := p.keysOf(t, s.name); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
}

// likeTenant makes a namespace of the system with the name of a tenant, and
// more in it than is read at once. Its keys begin like the tenant's.
func (p *plane) likeTenant(t *testing.T, name string) string {
	t.Helper()
	ctx := t.Context()
	if _, err := p.admin.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 600 { // before and after the tenant's in their order
		cm := configMap(fmt.Sprintf("a-%d", i))
		if i == 0 {
			cm.Name = "theirs"
		}
		if _, err := p.admin.CoreV1().ConfigMaps(name).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// keysOf are the keys of a tenant, without those of a namespace of the system
// that is called like it: they are shorter.
func (p *plane) keysOf(t *testing.T, tenant string) []string {
	t.Helper()
	return slices.DeleteFunc(p.keys(t, "/"+tenant+"/"), func(key string) bool {
		_, rest, _ := strings.Cut(key, "/"+tenant+"/")
		return !strings.Contains(rest, "/") &&
			(strings.HasPrefix(key, "/registry/configmaps/") || strings.HasPrefix(key, "/registry/serviceaccounts/"))
	})
}

// fill makes objects that go in different ways: many, replaced by controllers,
// in namespaces of the tenant's own, in none.
func fill(t *testing.T, s *space) {
	t.Helper()
	ctx := t.Context()
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	if _, err := s.client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := s.client.CoreV1().ConfigMaps("own").
			Create(ctx, configMap(fmt.Sprintf("cm-%d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{"storage": quantity("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "192.0.2.9",
				Path: "/"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod", func(ctx context.Context) (bool, error) {
		pods, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) > 0, err
	})
}
