package limits

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func quotaOf(pairs ...string) map[string]resource.Quantity {
	q := map[string]resource.Quantity{}
	for i := 0; i < len(pairs); i += 2 {
		q[pairs[i]] = resource.MustParse(pairs[i+1])
	}
	return q
}

// TestUsesByNames: what upstream's evaluators say of what is named, and nothing else.
func TestUsesByNames(t *testing.T) {
	pod := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Resources: core.ResourceRequirements{
		Requests: core.ResourceList{"cpu": resource.MustParse("250m"), "example.com/gpu": resource.MustParse("2"),
			"ephemeral-storage": resource.MustParse("1Gi"), "memory": resource.MustParse("100m")},
		Limits: core.ResourceList{"cpu": resource.MustParse("1")},
	}}}}}
	ended := pod.DeepCopy()
	ended.Status.Phase = core.PodSucceeded
	dying, grace := pod.DeepCopy(), int64(1)
	dying.DeletionTimestamp, dying.DeletionGracePeriodSeconds = &metav1.Time{}, &grace
	large := pod.DeepCopy()
	large.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("9E")
	service := &core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeLoadBalancer,
		Ports: []core.ServicePort{{Port: 80}, {Port: 81}}}}
	class := "fast"
	claim := &core.PersistentVolumeClaim{Spec: core.PersistentVolumeClaimSpec{StorageClassName: &class}}
	claim.Spec.Resources.Requests = core.ResourceList{"storage": resource.MustParse("3Gi")}
	devices := &resourceapi.ResourceClaim{}
	devices.Spec.Devices.Requests = []resourceapi.DeviceRequest{exactly("gpu",
		resourceapi.DeviceAllocationModeExactCount, 2)}
	const pods, claims = "pods", "persistentvolumeclaims"
	for name, c := range map[string]struct {
		resource schema.GroupResource
		obj      runtime.Object
		names    []string
		want     numbers
	}{
		"a pod": {schema.GroupResource{Resource: pods}, pod, []string{"requests.cpu", "limits.cpu", "pods",
			"requests.example.com/gpu", "requests.ephemeral-storage", "count/pods",
			"requests.example.com/other", "memory"},
			numbers{"requests.cpu": 250, "limits.cpu": 1000, "pods": 1, "requests.example.com/gpu": 2,
				"requests.ephemeral-storage": 1 << 30, "count/pods": 1, "memory": 1}},
		"one that has ended": {schema.GroupResource{Resource: pods}, ended, []string{"cpu", "pods", "count/pods"},
			numbers{"count/pods": 1}},
		"one whose time to end is over": {schema.GroupResource{Resource: pods}, dying, []string{"cpu", "pods"},
			numbers{"cpu": 250, "pods": 1}},
		"beyond measure":  {schema.GroupResource{Resource: pods}, large, []string{"cpu"}, numbers{"cpu": most}},
		"what is unnamed": {schema.GroupResource{Resource: pods}, pod, []string{"count/secrets", "secrets"}, nil},
		"what is unread": {schema.GroupResource{Resource: pods}, nil, []string{"count/pods", "cpu"},
			numbers{"count/pods": 1}},
		"a load balancer": {schema.GroupResource{Resource: "services"}, service, []string{"services",
			"services.nodeports",
			"services.loadbalancers"}, numbers{"services": 1, "services.nodeports": 2, "services.loadbalancers": 1}},
		"a claim": {schema.GroupResource{Resource: claims}, claim, []string{"requests.storage", claims,
			"fast.storageclass.storage.k8s.io/requests.storage", "slow.storageclass.storage.k8s.io/requests.storage",
			"fast.storageclass.storage.k8s.io/persistentvolumeclaims"},
			numbers{"requests.storage": 3 << 30, claims: 1,
				"fast.storageclass.storage.k8s.io/requests.storage":       3 << 30,
				"fast.storageclass.storage.k8s.io/persistentvolumeclaims": 1}},
		"devices": {schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, devices,
			[]string{"gpu.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io"},
			numbers{"gpu.deviceclass.resource.k8s.io/devices": 2, "count/resourceclaims.resource.k8s.io": 1}},
		"a secret": {schema.GroupResource{Resource: "secrets"}, nil, []string{"secrets", "count/secrets"},
			numbers{"secrets": 1, "count/secrets": 1}},
		"a custom resource": {schema.GroupResource{Group: "example.com", Resource: "widgets"}, nil,
			[]string{"count/widgets.example.com", "count/widgets.example.org"},
			numbers{"count/widgets.example.com": 1}},
	} {
		limits := map[string]resource.Quantity{}
		for _, name := range c.names {
			limits[name] = resource.MustParse("1")
		}
		counts := newCounting(limits)
		if len(counts.names) != len(c.names) {
			t.Errorf("%s: counts %v", name, counts.names)
		}
		got := counts.uses(c.resource, c.obj)
		if got == nil {
			got = &quotaUse{}
		}
		if !maps.Equal(got.uses, c.want) {
			t.Errorf("%s uses %v, want %v", name, got.uses, c.want)
		}
	}
	if (*counting)(nil).uses(schema.GroupResource{Resource: pods}, pod) != nil {
		t.Error("something is counted for a tenant without quotas")
	}
}

func always() bool { return true }

// TestQuotaIsExact: whatever happens at once, as much is made as there is room for.
func TestQuotaIsExact(t *testing.T) {
	l, limits := newAccounting(), quotaOf("count/jobs.batch", "7", "cpu", "1500m")
	used := charge{quota: &quotaUse{numbers{"count/jobs.batch": 1, "cpu": 300, "memory": 9}}}
	made := createNamed(t, l, used, reservation{quota: used.quota.uses}, func() bool {
		_, _, err := l.reserveQuota("t", used.quota.uses, limits, always)
		return err == nil
	})
	if made != 5 {
		t.Errorf("%d of 300m were made, the limit is 1500m", made)
	}
	lack, n, err := l.reserveQuota("t", numbers{"cpu": 1}, limits, always)
	if err == nil || lack != "cpu" || n != 1500 {
		t.Errorf("%s, %d, %v", lack, n, err)
	}
	if _, _, err := l.reserveQuota("t", numbers{}, limits, func() bool { return false }); err != errRecounted {
		t.Errorf("reserved by what is not counted any more: %v", err)
	}
	if got := l.usedQuota("t"); !maps.Equal(got, numbers{"count/jobs.batch": 5, "cpu": 1500, "memory": 45}) {
		t.Errorf("%v", got)
	}
	l.begin()
	l.end(made)
	if len(l.accounts) > 0 {
		t.Errorf("nothing is there any more, and %v is used", l.usedQuota("t"))
	}
}

// TestCountingAnewIsTheSame: a reading of what there is gives what a ledger has that was
// told of each write by these names, also if it learns something newer meanwhile.
func TestCountingAnewIsTheSame(t *testing.T) {
	uses := func(n int64) *quotaUse { return &quotaUse{numbers{"count/jobs.batch": 1, "cpu": n}} }
	running, anew := newAccounting(), newAccounting()
	for i := range int64(50) {
		key := fmt.Sprintf("k%d", i)
		running.put("t", key, i, 1, isObject, charge{pods: i, quota: uses(i)})
		anew.put("t", key, i, 1, isObject, charge{pods: i, quota: &quotaUse{numbers{"secrets": i}}})
	}
	anew.dropQuota("t", always)
	if got := anew.usedQuota("t"); len(got) > 0 {
		t.Errorf("%v is left of other names", got)
	}
	running.put("t", "k3", 60, 1, isObject, charge{quota: uses(1000)})
	anew.put("t", "k3", 60, 1, isObject, charge{quota: uses(1000)})
	running.remove("t", "k4", 61)
	anew.remove("t", "k4", 61)
	for range 2 { // a second reading changes nothing
		for i := range int64(50) { // as it was before
			anew.setQuota("t", fmt.Sprintf("k%d", i), i, uses(i), always)
		}
	}
	got, want := anew.usedQuota("t"), running.usedQuota("t")
	if !maps.Equal(got, want) || want["cpu"] != 50*49/2+1000-3-4 {
		t.Errorf("%v, want %v", got, want)
	}
	if anew.used("t") != running.used("t") {
		t.Errorf("%v, want %v", anew.used("t"), running.used("t"))
	}
	anew.setQuota("other", "k", 1, uses(1), always)
	for i := range int64(50) {
		anew.remove("t", fmt.Sprintf("k%d", i), 100)
	}
	if len(anew.accounts) > 0 {
		t.Errorf("accounts of nobody: %v", anew.usedQuota("t"))
	}
}

// TestAnotherCountingEndsTheOne: who counted by other names changes nothing any more.
func TestAnotherCountingEndsTheOne(t *testing.T) {
	l := New(Options{})
	first, _ := l.quotas.want("t", quotaOf("pods", "1"))
	second, begins := l.quotas.want("t", quotaOf("cpu", "1"))
	if _, again := l.quotas.want("t", quotaOf("pods", "1")); !begins || again || !second.covers(quotaOf("pods", "2")) {
		t.Error("who sees the Tenant as it was has it counted anew")
	}
	of := charge{quota: &quotaUse{numbers{"cpu": 300, "pods": 1}}}
	l.accounting.put("t", "k", 1, 1, isObject, of)
	l.accounting.dropQuota("t", l.quotas.counts("t", first))
	if l.accounting.setQuota("t", "k", 1, &quotaUse{numbers{"pods": 1}}, l.quotas.counts("t", first)) {
		t.Error("it is not told that it is in vain")
	}
	if got := l.accounting.usedQuota("t"); !maps.Equal(got, of.quota.uses) {
		t.Errorf("%v is used, want %v", got, of.quota.uses)
	}
	if !l.accounting.setQuota("t", "k", 1, nil, l.quotas.counts("t", second)) || len(l.accounting.usedQuota("t")) > 0 {
		t.Error("who counts now does not")
	}
}

// TestWritesWaitForWhatTheyNeed: while what a tenant has is being counted, only a write waits that
// takes more of what is counted.
func TestWritesWaitForWhatTheyNeed(t *testing.T) {
	tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	l := New(Options{Tenants: &oneTenant{tenant}})
	limits := quotaOf("cpu", "1", "count/secrets", "1")
	if _, begins := l.quotas.want("t", limits); !begins {
		t.Fatal("it is counted already")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		resource string
		was      before
		obj      runtime.Object
		waits    bool
	}{
		"what is not counted":        {"configmaps", before{}, &core.ConfigMap{}, false},
		"a secret":                   {"secrets", before{}, &core.Secret{}, true},
		"a secret that changes":      {"secrets", before{exists: true}, &core.Secret{}, false},
		"a pod without requests":     {"pods", before{}, &core.Pod{}, false},
		"a pod":                      {"pods", before{}, podOf("300m"), true},
		"a pod that changes":         {"pods", before{exists: true}, podOf("300m"), true},
		"a pod whose end begins":     {"pods", before{exists: true}, ending(podOf("300m")), false},
		"a pod that is ending":       {"pods", before{exists: true, deleting: true}, ending(podOf("300m")), true},
		"a pod that has ended again": {"pods", before{exists: true}, succeeded(podOf("300m")), false},
	} {
		s := &limited{stored: stored{resource: schema.GroupResource{Resource: c.resource}}, limits: l}
		w := &write{limited: s, tenant: "t", name: "default/x", key: "k"}
		if err := w.reserveQuota(ctx, limits, c.was, c.obj); (err != nil) != c.waits {
			t.Errorf("%s: %v, want it to wait: %t", name, err, c.waits)
		}
	}
}

func podOf(cpu string) *core.Pod {
	return &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Resources: core.ResourceRequirements{
		Requests: core.ResourceList{"cpu": resource.MustParse(cpu)}}}}}}
}

func ending(p *core.Pod) *core.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
	return p
}

func succeeded(p *core.Pod) *core.Pod {
	p.Status.Phase = core.PodSucceeded
	return p
}

// TestNamesThatAreCountedChange: fewer names are counted on, others begin anew, once.
func TestNamesThatAreCountedChange(t *testing.T) {
	q := &quotas{}
	first, begins := q.want("t", quotaOf("cpu", "1", "pods", "1"))
	if !begins {
		t.Error("nobody counts")
	}
	if again, begins := q.want("t", quotaOf("pods", "5")); begins || again != first {
		t.Error("counted anew for a name that is counted")
	}
	var began atomic.Int64
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if _, begins := q.want("t", quotaOf("pods", "1", "secrets", "1")); begins {
				began.Add(1)
			}
		})
	}
	group.Wait()
	if began.Load() != 1 || q.of("t") == first || q.of("other") != nil {
		t.Errorf("counted anew %d times", began.Load())
	}
}

// TestQuotaInTheStatus: each limit by its name, beside what counts.
func TestQuotaInTheStatus(t *testing.T) {
	l := New(Options{Defaults: &tenantapi.TenantLimits{Quota: quotaOf("count/jobs.batch", "5")}})
	tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: tenantapi.TenantSpec{
		Limits: &tenantapi.TenantLimits{Quota: quotaOf("requests.cpu", "2", "requests.storage", "1Gi")}}}
	c, _ := l.quotas.want("t", l.limitsOf(tenant).Quota)
	l.accounting.put("t", "k", 1, 1, isObject, charge{quota: &quotaUse{numbers{"requests.cpu": 1500,
		"count/jobs.batch": 1}}})
	close(c.done)
	var got []string
	for _, u := range quotaUsage(l, tenant) {
		got = append(got, fmt.Sprintf("%s %s/%s", u.Name, u.Used.String(), u.Limit.String()))
		if u.Counts == "" {
			t.Errorf("%s does not say what it counts", u.Name)
		}
	}
	want := "[quota.count/jobs.batch 1/5 quota.requests.cpu 1500m/2 quota.requests.storage 0/1Gi]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	tenant.Spec.Limits.Quota["pods"] = resource.MustParse("1")
	if quotaUsage(l, tenant) != nil {
		t.Error("something is said of what is not counted yet")
	}
	l.Forget("t")
	if l.quotas.of("t") != nil {
		t.Error("something is counted for a tenant that is gone")
	}
}

// TestQuotaOfNodePortsBeforeTheyAreTaken: what the storage would refuse takes no ports.
func TestQuotaOfNodePortsBeforeTheyAreTaken(t *testing.T) {
	tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: tenantapi.TenantSpec{
		Limits: &tenantapi.TenantLimits{Quota: quotaOf("services.nodeports", "2")}}}
	l := New(Options{Tenants: &oneTenant{tenant}})
	c, _ := l.quotas.want("t", tenant.Spec.Limits.Quota)
	close(c.done)
	ask := NodePorts(l)
	service := func(ports int) *core.Service {
		return &core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeNodePort,
			Ports: make([]core.ServicePort, ports)}}
	}
	if err := ask(t.Context(), "t", service(2), nil); err != nil {
		t.Errorf("two ports of two: %v", err)
	}
	l.accounting.put("t", "k", 1, 1, isObject, charge{quota: &quotaUse{numbers{"services.nodeports": 1}}})
	if err := ask(t.Context(), "t", service(2), service(1)); err != nil {
		t.Errorf("one port more: %v", err)
	}
	if err := ask(t.Context(), "t", service(3), service(1)); !apierrors.IsForbidden(err) {
		t.Errorf("two ports more: %v", err)
	}
	if err := ask(t.Context(), "t", service(2), nil); !apierrors.IsForbidden(err) {
		t.Errorf("two ports of another service: %v", err)
	}
}
