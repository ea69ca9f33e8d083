package spaces_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

const quotasOfA = `{"quota":{"count/jobs.batch":"3","count/foos.example.com":"1","services.nodeports":"2",` +
	`"services.loadbalancers":"0","requests.example.com/gpu":"3","limits.cpu":"1500m",` +
	`"fast.storageclass.storage.k8s.io/requests.storage":"3Gi"}}`

// TestQuotasByName: a tenant is bounded over its whole space by what a ResourceQuota bounds
// in a namespace.
func TestQuotasByName(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	cfg := planes.Settings(t.TempDir())
	up := func() *plane {
		p := planes.Start(t, cfg)
		return &plane{Plane: p, admin: p.Client, etcd: p.Etcd(t)}
	}
	p := up()
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	ctx := t.Context()
	if _, err := a.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	planes.AwaitAccount(t, a.config, "more")
	if err := makeJob(ctx, a, "default", "before"); err != nil {
		t.Fatal(err)
	}
	testNamesOfQuotas(t, p)
	p.bounded(t, "a", quotasOfA)
	p.quotas(t, "a") // it is counted
	if u := p.usage(t, "a", "quota.count/jobs.batch"); u.Used.Value() != 1 || u.Limit == nil || u.Limit.Value() != 3 {
		t.Errorf("what was there before counts as %s of %v", u.Used.String(), u.Limit)
	}
	testQuotaOfObjects(t, p, a, b)
	testQuotaOfServices(t, a)
	testQuotaOfPods(t, a)
	testQuotaOfStorage(t, p, a)

	// Names that change are counted from then on, and what was there with them.
	want := p.quotas(t, "a")
	p.bounded(t, "a", `{"quota":{"count/services":"2","limits.memory":"1Gi"}}`)
	service := nodePortService("web3", 0)
	_, err := a.client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	refused(t, "a service more", err, "quota.count/services, requested: 1, used: 2, limited: 2")
	p.bounded(t, "a", quotasOfA)
	if got := p.quotas(t, "a"); !maps.Equal(got, want) {
		t.Errorf("counted anew: %v, want %v", got, want)
	}

	if err := p.Group.Stop(); err != nil {
		t.Fatal(err)
	}
	p = up()
	a = p.as(t, "a", p.user(t, "admin", []string{"tenant:a"}, nil))
	planes.AwaitAccount(t, a.config, "more") // its roles are known
	refused(t, "a job after a restart", makeJob(ctx, a, "more", "late"), "used: 3, limited: 3")
	if got := p.quotas(t, "a"); !maps.Equal(got, want) {
		t.Errorf("after a restart: %v, want %v", got, want)
	}
	p.limit(t, "a", "null")
	eventually(t, "no limit", func(ctx context.Context) (bool, error) {
		return makeJob(ctx, a, "more", "late") == nil, nil
	})
}

// quotas are what the status says that a tenant uses by names.
func (p *plane) quotas(t *testing.T, tenant string) map[string]string {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	eventually(t, "it is counted what the tenant uses", func(ctx context.Context) (bool, error) {
		x, err := tenants.Get(ctx, tenant, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, u := range x.Status.Usage {
			if strings.HasPrefix(u.Name, "quota.") {
				found[u.Name] = u.Used.String()
			}
		}
		return len(found) > 0, nil
	})
	return found
}

// testNamesOfQuotas: what nothing counts is refused with what would be right.
func testNamesOfQuotas(t *testing.T, p *plane) {
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	for quota, want := range map[string]string{
		`{"widgets":"1"}`:           "requests.DOMAIN/RESOURCE",
		`{"count/jobs":"1"}`:        "count/jobs.batch",
		`{"example.com/gpu":"1"}`:   "requests.example.com/gpu",
		`{"count/nodes":"1"}`:       "system-only",
		`{"services":"0.5"}`:        "whole number",
		`{"count/jobs.batch":-1}`:   "must not be negative",
		`{"count/events":"1"}`:      "do not count",
		`{"limits.cpu":"9999999P"}`: "must be at most",
	} {
		_, err := tenants.Patch(t.Context(), "a", types.MergePatchType,
			[]byte(`{"spec":{"limits":{"quota":`+quota+`}}}`), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "spec.limits.quota") {
			t.Errorf("%s: %v, want %q", quota, err, want)
		}
	}
}

func makeJob(ctx context.Context, s *space, namespace, name string) error {
	stopped := true
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Suspend: &stopped}}
	job.Spec.Template.Spec = sleeper(name, nil).Spec
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := s.client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
	return err
}

// madeAtOnce makes twelve things and returns how many there are then.
func madeAtOnce(t *testing.T, create func(i int) error) int64 {
	t.Helper()
	var made atomic.Int64
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			if err := create(i); err == nil {
				made.Add(1)
			} else if !apierrors.IsForbidden(err) {
				t.Errorf("past the limit: %v", err)
			}
		})
	}
	group.Wait()
	return made.Load()
}

// testQuotaOfObjects: of Jobs there is one already, and three are the limit.
func testQuotaOfObjects(t *testing.T, p *plane, a, b *space) {
	ctx := t.Context()
	if n := madeAtOnce(t, func(i int) error {
		return makeJob(ctx, a, []string{"default", "more"}[i%2], fmt.Sprintf("j%d", i))
	}); n != 2 {
		t.Errorf("%d jobs were made, there was room for 2", n)
	}
	refused(t, "a job more", makeJob(ctx, a, "more", "late"),
		"exceeded limit of the tenant: quota.count/jobs.batch, requested: 1, used: 3, limited: 3", "spec.limits.quota")
	if err := makeJob(ctx, p.as(t, "a", p.Admin), "default.a", "of-the-system"); !apierrors.IsForbidden(err) {
		t.Errorf("made by the system: %v", err)
	}
	if err := makeJob(ctx, b, "default", "of-another"); err != nil {
		t.Errorf("the limit is that of another tenant: %v", err)
	}
	if _, err := a.client.BatchV1().Jobs("default").Patch(ctx, "before", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("changing what is there: %v", err)
	}
	background := metav1.DeletePropagationBackground
	if err := a.client.BatchV1().Jobs("default").Delete(ctx, "before",
		metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the room of a job that is gone", func(ctx context.Context) (bool, error) {
		return makeJob(ctx, a, "more", "again") == nil, nil
	})
	refused(t, "a job after that", makeJob(ctx, a, "more", "late"), "used: 3, limited: 3")

	foos := a.define(t, definition("example.com"))
	if n := madeAtOnce(t, func(i int) error {
		_, err := a.in(foos, []string{"default", "more"}[i%2]).Create(ctx, foo(foos, fmt.Sprintf("f%d", i), nil),
			metav1.CreateOptions{})
		return err
	}); n != 1 {
		t.Errorf("%d custom resources were made, 1 is the limit", n)
	}
}

func nodePortService(name string, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort}}
	for i := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: 81 + int32(i)})
	}
	return s
}

// testQuotaOfServices: what grows is refused as what is made.
func testQuotaOfServices(t *testing.T, a *space) {
	ctx := t.Context()
	services := a.client.CoreV1().Services("default")
	if _, err := services.Create(ctx, nodePortService("web", 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grow := func(to int) error {
		now, err := services.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ports := nodePortService("web", make([]int32, to)...).Spec.Ports
		ports[0].NodePort = now.Spec.Ports[0].NodePort
		now.Spec.Ports = ports
		_, err = services.Update(ctx, now, metav1.UpdateOptions{})
		return err
	}
	refused(t, "two ports more", grow(3), "quota.services.nodeports, requested: 2, used: 1, limited: 2")
	if err := grow(2); err != nil {
		t.Errorf("one port more: %v", err)
	}
	plain := nodePortService("plain", 0)
	plain.Spec.Type = corev1.ServiceTypeClusterIP
	if _, err := services.Create(ctx, plain, metav1.CreateOptions{}); err != nil {
		t.Errorf("a service without node ports: %v", err)
	}
	_, err := services.Patch(ctx, "plain", types.MergePatchType, []byte(`{"spec":{"type":"NodePort"}}`),
		metav1.PatchOptions{})
	refused(t, "another type", err, "quota.services.nodeports, requested: 1, used: 2, limited: 2")
	balancer := nodePortService("balancer", 0)
	balancer.Spec.Type, balancer.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, new(bool)
	_, err = a.client.CoreV1().Services("more").Create(ctx, balancer, metav1.CreateOptions{})
	refused(t, "a load balancer", err, "quota.services.loadbalancers, requested: 1, used: 0, limited: 0")
}

// testQuotaOfPods: by resources of nodes, and by limits.
func testQuotaOfPods(t *testing.T, a *space) {
	ctx := t.Context()
	create := func(namespace, name, of, n string) error {
		pod := sleeper(name, corev1.ResourceList{corev1.ResourceName(of): resource.MustParse(n)})
		pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
		_, err := a.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	const gpu = "example.com/gpu"
	if err := create("default", "g1", gpu, "2"); err != nil {
		t.Fatal(err)
	}
	refused(t, "two more", create("more", "g2", gpu, "2"),
		"quota.requests.example.com/gpu, requested: 2, used: 2, limited: 3")
	if err := create("more", "g2", gpu, "1"); err != nil {
		t.Errorf("one more: %v", err)
	}
	if err := create("more", "other", "example.com/other", "7"); err != nil {
		t.Errorf("of another resource: %v", err)
	}
	if err := create("default", "c1", "cpu", "1"); err != nil {
		t.Errorf("a processor: %v", err)
	}
	refused(t, "a processor more", create("default", "c2", "cpu", "1"),
		"quota.limits.cpu, requested: 1, used: 1, limited: 1500m")
}

// testQuotaOfStorage: by class.
func testQuotaOfStorage(t *testing.T, p *plane, a *space) {
	ctx := t.Context()
	if _, err := p.admin.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/none",
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(namespace, name, class, size string) error {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		_, err := a.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
		return err
	}
	if err := create("default", "v1", "fast", "2Gi"); err != nil {
		t.Fatal(err)
	}
	refused(t, "more of the class", create("more", "v2", "fast", "2Gi"),
		"quota.fast.storageclass.storage.k8s.io/requests.storage, requested: 2Gi, used: 2Gi, limited: 3Gi")
	if err := create("more", "v2", "slow", "20Gi"); err != nil {
		t.Errorf("of another class: %v", err)
	}
}
