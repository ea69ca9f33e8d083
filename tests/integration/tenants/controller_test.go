package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/heap"
	"github.com/a4s-io/a4s/server/tenancy/limits"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	tenantcontents "github.com/a4s-io/a4s/server/tenancy/tenants/contents"
	"github.com/a4s-io/a4s/server/tenancy/tenants/controller"
	"github.com/a4s-io/a4s/server/tenancy/tenants/provision"
	"github.com/a4s-io/a4s/server/tenancy/tenants/registry"
	"github.com/a4s-io/a4s/tests/nstest"
)

type spaces struct {
	*api
	contents *contents
	tenants  *tenantapi.Client
	client   kubernetes.Interface
}

// contents are those of the datastore, if it answers.
type contents struct {
	*limits.Limits
	silent atomic.Bool
}

// Contents implements controller.Contents.
func (c *contents) Contents(ctx context.Context, tenant string) ([]tenantcontents.Resource, error) {
	if c.silent.Load() {
		return nil, errors.New("the datastore does not answer")
	}
	return c.Limits.Contents(ctx, tenant)
}

type withoutLimits struct{}

// Get implements limits.Tenants.
func (withoutLimits) Get(context.Context, string) (*tenantapi.Tenant, error) {
	return &tenantapi.Tenant{}, nil
}

// TestSpacesAreMade runs the controller alone, without the edge and without
// upstream's controllers: it makes and empties spaces in composite form.
func TestSpacesAreMade(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	l := limits.New(limits.Options{Tenants: withoutLimits{}, Log: logrus.NewEntry(logrus.StandardLogger())})
	a := serveIn(t, t.TempDir(), apiserver.Seams{
		Groups: map[string]apiserver.Group{"": addTenants}, Definitions: registry.Definitions,
		Storage: func(g generic.RESTOptionsGetter) generic.RESTOptionsGetter {
			return l.Storage(storage.Decorate(g, storage.Options{}))
		},
	})
	t.Cleanup(l.Close)
	s := &spaces{api: a, contents: &contents{Limits: l}}
	var err error
	if s.tenants, err = tenantapi.NewClient(a.config(a.files.Admin), nil); err != nil {
		t.Fatal(err)
	}
	if s.client, err = kubernetes.NewForConfig(a.config(a.files.Admin)); err != nil {
		t.Fatal(err)
	}
	stop := s.control(t, "acme")
	t.Run("the default tenant and system exist", s.testDefaultTenant)
	t.Run("many at a time", s.testMany)
	t.Run("a space that cannot be seen stays", s.testSilence)
	t.Run("a deletion goes on after a restart", func(t *testing.T) { s.testRestart(t, stop) })
	if err := s.client.RbacV1().ClusterRoles().Delete(t.Context(), "admin-role.acme.tenant",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.dropNamespace(t, "default.many-3")
	s.control(t, "acme")
	t.Run("a restart repairs what is damaged and nothing else", func(t *testing.T) {
		eventually(t, "the namespace default of many-3", func(ctx context.Context) (bool, error) {
			_, err := s.client.CoreV1().Namespaces().Get(ctx, "default.many-3", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
		s.ready(t, "many-3")
		if _, err := s.client.RbacV1().ClusterRoles().Get(t.Context(), "admin-role.acme.tenant",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a role that was deleted: %v, want not found", err)
		}
	})
}

// control runs the controller until stop is called or the test ends.
func (s *spaces) control(t *testing.T, tenant string) (stop func()) {
	t.Helper()
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	stop = func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := group.StartAndWait(ctx, controller.New(controller.Options{
		Config: s.config(s.files.Admin), Contents: s.contents, DefaultTenant: tenant,
		Log: logrus.WithField("component", controller.Name),
	})); err != nil {
		t.Fatal(err)
	}
	return stop
}

func (s *spaces) ready(t *testing.T, tenant string) {
	t.Helper()
	eventually(t, "the space of "+tenant, func(ctx context.Context) (bool, error) {
		got, err := s.tenants.Get(ctx, tenant, metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(got.Status.Conditions, tenantapi.SpaceReady), err
	})
}

// use makes the space of a tenant as its first request does.
func (s *spaces) use(t *testing.T, tenant string) {
	t.Helper()
	p, err := provision.New(provision.Options{
		Config: s.config(s.files.Admin), Tenants: lookup{s.tenants}, RootCA: s.rootCA(t), Growth: heap.NewGrowth(),
		Has: func(_, _ sets.Set[string]) bool { return true }, Log: logrus.WithField("component", "provision"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ensure(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
}

// lookup asks the API for tenants, without a cache.
type lookup struct{ tenants *tenantapi.Client }

// Get implements provision.Tenants.
func (l lookup) Get(ctx context.Context, name string) (*tenantapi.Tenant, error) {
	return l.tenants.Get(ctx, name, metav1.GetOptions{})
}

// Known implements provision.Tenants.
func (l lookup) Known(name string) *tenantapi.Tenant {
	t, err := l.tenants.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return t
}

func (s *spaces) testDefaultTenant(t *testing.T) {
	ctx := t.Context()
	if _, err := s.tenants.Get(ctx, "system", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	s.use(t, "acme")
	for _, ns := range []string{"default.acme", "kube-system.acme", "kube-public.acme"} {
		if _, err := s.client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		// No controller of upstream's runs here.
		if _, err := s.client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		bundle, err := s.client.CoreV1().ConfigMaps(ns).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil || bundle.Data["ca.crt"] != s.rootCA(t) {
			t.Errorf("the CA bundle in %s is %+v, %v", ns, bundle, err)
		}
	}
	role, err := s.client.RbacV1().ClusterRoles().Get(ctx, "admin-role.acme.tenant", metav1.GetOptions{})
	if err != nil || len(role.Rules) != 2 {
		t.Errorf("the administrator's role is %+v, %v", role, err)
	}
	binding, err := s.client.RbacV1().ClusterRoleBindings().Get(ctx, "admin-role-binding.acme.tenant",
		metav1.GetOptions{})
	if err != nil || binding.RoleRef.Name != role.Name || len(binding.Subjects) != 2 ||
		binding.Subjects[0].Kind != rbacv1.UserKind || binding.Subjects[0].Name != "admin" {
		t.Errorf("its binding is %+v, %v", binding, err)
	}
	// Where the API is found is shown in the space and stored in the system's.
	if _, err := s.client.CoreV1().Services("default.acme").Get(ctx, "kubernetes",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the service of the API is stored: %v", err)
	}
}

func (s *spaces) testMany(t *testing.T) {
	const n = 40
	began := time.Now()
	for i := range n {
		tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i)}}
		made, err := s.tenants.Create(t.Context(), tenant, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// As an older release left it.
		made.Status.Conditions = nil
		if _, err := s.tenants.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		s.ready(t, fmt.Sprintf("many-%d", i))
	}
	t.Logf("%.0f spaces per second", n/time.Since(began).Seconds())
}

func (s *spaces) testSilence(t *testing.T) {
	s.contents.silent.Store(true)
	s.delete(t, "many-0")
	s.waits(t, "many-0", "DeletionFailed", "the datastore does not answer")
	s.contents.silent.Store(false)
	s.gone(t, "many-0")
}

// testRestart stops the controller for good in the middle of a deletion, has
// the rest go, and starts it again.
func (s *spaces) testRestart(t *testing.T, stop func()) {
	ctx := t.Context()
	maps, pods := s.client.CoreV1().ConfigMaps("default.many-1"), s.client.CoreV1().Pods("default.many-1")
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "used"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CoreV1().ServiceAccounts("default.many-1").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.delete(t, "many-1")
	s.waits(t, "many-1", "ObjectsRemain", ": pods default/held is held by example.com/hold")
	if _, err := maps.Get(ctx, "used", metav1.GetOptions{}); err != nil {
		t.Errorf("what a pod may use while it ends: %v", err)
	}
	eventually(t, "the empty namespace to go", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, "kube-public.many-1", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	stop()
	if _, err := pods.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	stop = s.control(t, "acme")
	s.gone(t, "many-1")
	stop()
}

func (s *spaces) delete(t *testing.T, tenant string) {
	t.Helper()
	if err := s.tenants.Delete(t.Context(), tenant, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waits waits until a deletion says what it waits for.
func (s *spaces) waits(t *testing.T, tenant, reason, message string) {
	t.Helper()
	eventually(t, "the report of a deletion", func(ctx context.Context) (bool, error) {
		got, err := s.tenants.Get(ctx, tenant, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.SpaceEmpty)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason &&
			strings.Contains(c.Message, message), nil
	})
}

// gone waits until a tenant is gone, and its keys are.
func (s *spaces) gone(t *testing.T, tenant string) {
	t.Helper()
	eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
		_, err := s.tenants.Get(ctx, tenant, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if left, err := s.contents.Limits.Contents(t.Context(), tenant); err != nil || len(left) > 0 {
		t.Errorf("left of %s: %v, %v", tenant, left, err)
	}
}

// dropNamespace deletes a namespace as its controller, which does not run
// here, would.
func (s *spaces) dropNamespace(t *testing.T, name string) {
	t.Helper()
	ctx, namespaces := t.Context(), s.client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
