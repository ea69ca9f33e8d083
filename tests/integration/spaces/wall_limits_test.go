package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// large is what one object can hold about.
const large = 1_300_000

// usage is what the status of a tenant says that it uses of a limit.
func (p *plane) usage(t *testing.T, tenant, limit string) tenantapi.LimitUsage {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := tenants.Get(t.Context(), tenant, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range x.Status.Usage {
		if u.Counts == "" {
			t.Errorf("the use of %s does not say what it counts", u.Name)
		}
		if u.Name == limit {
			return u
		}
	}
	return tenantapi.LimitUsage{}
}

func lease(name string, size int) *coordinationv1.Lease {
	holder := strings.Repeat("x", size)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

func eventIn(namespace, name string, size int) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, Message: strings.Repeat("x", size),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "x"}}
}

// timedOut reports whether the datastore of a slow machine did not say in time whether it has done a write.
func timedOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "request timed out")
}

// TestWallV9BytesOfATenant: what a tenant has in the datastore is bounded, of
// whatever kind it is, and nobody else notices.
func TestWallV9BytesOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	ctx := t.Context()
	leases := a.client.CoordinationV1().Leases("default")

	_, err := a.client.CoreV1().Pods("default").Create(ctx, sleeper("small", nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held := configMap("held")
	held.Finalizers = []string{"example.com/held"}
	if _, err := a.client.CoreV1().ConfigMaps("default").Create(ctx, held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const most = 16 << 20
	p.bounded(t, "a", `{"bytes":"16Mi"}`)

	// Events have a part of it, and leases the rest, also when all come at once.
	events := 0
	for ; events < 20 && err == nil; events++ {
		_, err = a.client.CoreV1().Events("default").Create(ctx, eventIn("default", fmt.Sprintf("e%d", events), large),
			metav1.CreateOptions{})
	}
	refused(t, "events of a quarter of the bytes", err, "exceeded limit of the tenant: bytes", "spec.limits.bytes",
		"administrator of the cluster")
	if events > 4 {
		t.Errorf("%d large events were made", events-1)
	}
	var made atomic.Int64
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			l, begun := lease(fmt.Sprintf("l%d", i), large), time.Now()
			for {
				_, err := leases.Create(ctx, l, metav1.CreateOptions{})
				switch {
				case err == nil, apierrors.IsAlreadyExists(err):
					made.Add(1)
				case timedOut(err) && time.Since(begun) < deadline:
					continue
				case !apierrors.IsForbidden(err):
					t.Errorf("a lease past the limit: %v", err)
				}
				return
			}
		})
	}
	group.Wait()
	if n := made.Load(); n < 5 || n > 12 {
		t.Errorf("%d leases of %d bytes and %d such events are within %d bytes", n, large, events-1, most)
	}
	_, err = leases.Create(ctx, lease("more", large), metav1.CreateOptions{})
	refused(t, "one more", err, "bytes", fmt.Sprintf("limited: %d", most))
	var u tenantapi.LimitUsage
	rest := 0
	// What is left is filled, as far as it goes; what timed out may have its room for a while.
	eventually(t, "the bytes to be used", func(ctx context.Context) (bool, error) {
		for size := large; size > 0; size -= 8192 {
			_, err := leases.Create(ctx, lease(fmt.Sprintf("rest%d", rest), size), metav1.CreateOptions{})
			if err == nil || timedOut(err) {
				rest++
				break
			}
		}
		u = p.usage(t, "a", "bytes")
		return u.Used.Value() > most-50_000, nil
	})
	if u.Used.Value() < most*9/10 || u.Used.Value() > most || u.Limit == nil || u.Limit.Value() != most {
		t.Errorf("the status says %s of %v", u.Used.String(), u.Limit)
	}

	// At the limit: what grows is refused, what shrinks or goes is not.
	_, err = a.client.CoreV1().ConfigMaps("default").Patch(ctx, "held", types.MergePatchType,
		[]byte(`{"data":{"x":"`+strings.Repeat("x", 100_000)+`"}}`), metav1.PatchOptions{})
	refused(t, "an update that grows", err, "bytes")
	if err := a.client.CoreV1().ConfigMaps("default").Delete(ctx, "held", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting what waits: %v", err)
	}
	_, err = a.client.CoreV1().ConfigMaps("default").Patch(ctx, "held", types.MergePatchType,
		[]byte(`{"data":{"x":"`+strings.Repeat("x", 100_000)+`"}}`), metav1.PatchOptions{})
	refused(t, "an update of what waits", err, "bytes")
	if _, err := a.client.CoreV1().ConfigMaps("default").Patch(ctx, "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("letting go of what waits: %v", err)
	}

	// The system can say how things are, and others do not notice.
	pods := p.admin.CoreV1().Pods("default.a")
	status := `{"status":{"message":"` + strings.Repeat("x", 50_000) + `"}}`
	if _, err := pods.Patch(ctx, "small", types.MergePatchType, []byte(status), metav1.PatchOptions{},
		"status"); err != nil {
		t.Errorf("the system reports of a pod: %v", err)
	}
	status = `{"metadata":{"annotations":{"x":"` + strings.Repeat("x", 200_000) + `"}}}`
	if _, err := p.admin.CoreV1().ConfigMaps("default.a").Patch(ctx, "kube-root-ca.crt", types.MergePatchType,
		[]byte(status), metav1.PatchOptions{}); err != nil {
		t.Errorf("the system says a little more of an object: %v", err)
	}
	if _, err := p.admin.CoreV1().Events("default.a").Create(ctx, eventIn("default.a", "of-the-system", 100_000),
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an event of the system past the limit: %v", err)
	}
	if _, err := b.client.CoreV1().ConfigMaps("default").
		Create(ctx, configMap("b"), metav1.CreateOptions{}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if _, err := p.admin.CoreV1().ConfigMaps("default").
		Create(ctx, configMap("system"), metav1.CreateOptions{}); err != nil {
		t.Errorf("the system: %v", err)
	}

	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Create(ctx, lease("again", large), metav1.CreateOptions{}); err != nil {
		t.Errorf("a deletion makes no room: %v", err)
	}

	// Writing the same again and again fills the datastore with history.
	path := "/apis/coordination.k8s.io/v1/namespaces/default/leases/again"
	code, times := http.StatusOK, 0
	for ; times < 200 && code == http.StatusOK; times++ {
		body := fmt.Sprintf(`{"spec":{"holderIdentity":%q}}`, strings.Repeat("y", large-times%2))
		code, _ = do(t, a.config, http.MethodPatch, path, body, []string{"Content-Type: application/merge-patch+json"})
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("%d MB were written over and over, and the answer is %d", times*large/1_000_000, code)
	}
	if err := leases.Delete(ctx, "again", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting after that: %v", err)
	}
}

// TestWallV9EventsOfATenant: events come at a rate.
func TestWallV9EventsOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, func(c *config.Server) { c.TenantDefaultLimits = []string{"eventsPerSecond=1"} })
	a := p.tenant(t, "a")
	code, text := 0, ""
	for i := 0; i < 200 && code != http.StatusTooManyRequests; i++ {
		body := fmt.Sprintf(`{"metadata":{"name":"e%d"},"involvedObject":{"kind":"Pod","namespace":"default"}}`, i)
		code, text = do(t, a.config, http.MethodPost, "/api/v1/namespaces/default/events", body, nil)
	}
	if code != http.StatusTooManyRequests || !strings.Contains(text, "eventsPerSecond") {
		t.Errorf("the last of many events: %d %s", code, text)
	}
	var err error
	for i := 0; i < 200 && err == nil; i++ {
		_, err = p.admin.CoreV1().Events("default.a").Create(t.Context(),
			eventIn("default.a", fmt.Sprintf("s%d", i), 1), metav1.CreateOptions{})
	}
	if !apierrors.IsForbidden(err) {
		t.Errorf("the last of many events of the system: %v", err)
	}
	if _, err := p.admin.CoreV1().Events("default").Create(t.Context(), eventIn("default", "system", 1),
		metav1.CreateOptions{}); err != nil {
		t.Errorf("an event in the system's space: %v", err)
	}
}

// sleeper is a pod that requests something.
func sleeper(name string, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "example.com/none", Resources: corev1.ResourceRequirements{Requests: requests},
	}}}}
}

// TestWallLimitsOfATenant: what runs for a tenant is bounded in a way that its
// own administrator cannot take away.
func TestWallLimitsOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.tenant(t, "a")
	ctx := t.Context()
	// all creates many at once and returns how many were made.
	all := func(create func(name string) error) int64 {
		t.Helper()
		var made atomic.Int64
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				if err := create(fmt.Sprintf("x%d", i)); err == nil {
					made.Add(1)
				} else if !apierrors.IsForbidden(err) {
					t.Errorf("past the limit: %v", err)
				}
			})
		}
		group.Wait()
		return made.Load()
	}
	pods := a.client.CoreV1().Pods("default")
	pod := func(prefix string, requests corev1.ResourceList) func(string) error {
		return func(name string) error {
			_, err := pods.Create(ctx, sleeper(prefix+name, requests), metav1.CreateOptions{})
			return err
		}
	}
	now := int64(0)
	clear := func() {
		t.Helper()
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now},
			metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no pods", func(context.Context) (bool, error) {
			u := p.usage(t, "a", "pods")
			return u.Used.IsZero(), nil
		})
	}
	p.bounded(t, "a", `{"pods":3}`)
	if n := all(pod("p", nil)); n != 3 {
		t.Errorf("%d pods of 3", n)
	}
	refused(t, "a pod too many", pod("p", nil)("more"), "pods, requested: 1, used: 3, limited: 3", "spec.limits.pods")

	// Only nodes end pods that they have.
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		t.Fatal(err)
	}
	name := list.Items[0].Name
	if err := p.admin.CoreV1().Pods("default.a").Bind(ctx,
		&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default.a"},
			Target: corev1.ObjectReference{Kind: "Node", Name: "ghost"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	end := []byte(`{"status":{"phase":"Succeeded"}}`)
	if _, err := pods.Patch(ctx, name, types.MergePatchType, end, metav1.PatchOptions{},
		"status"); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant ends a pod that runs: %v", err)
	}
	if _, err := p.admin.CoreV1().Pods("default.a").Patch(ctx, name, types.MergePatchType, end, metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod to have ended", func(context.Context) (bool, error) {
		return pod("p", nil)("next") == nil, nil
	})
	clear()

	for what, c := range map[string]struct {
		limits   string
		requests corev1.ResourceList
	}{
		"cpu":    {`{"cpu":"1500m"}`, corev1.ResourceList{"cpu": quantity("500m")}},
		"memory": {`{"memory":"3Gi"}`, corev1.ResourceList{"memory": quantity("1Gi")}},
	} {
		p.bounded(t, "a", c.limits)
		if n := all(pod(what, c.requests)); n != 3 {
			t.Errorf("%s: %d pods, there is room for 3", what, n)
		}
		refused(t, "more "+what, pod(what, c.requests)("more"), what+", requested: ", "spec.limits."+what)
		if err := pod(what, nil)("without"); err != nil {
			t.Errorf("a pod that requests nothing: %v", err)
		}
		clear()
	}

	p.bounded(t, "a", `{"storage":"6Gi"}`)
	claims := a.client.CoreV1().PersistentVolumeClaims("default")
	claim := func(name string) error {
		_, err := claims.Create(ctx, storageClaim(name, "2Gi"), metav1.CreateOptions{})
		return err
	}
	if n := all(claim); n != 3 {
		t.Errorf("%d claims of 2 GiB in 6", n)
	}
	refused(t, "a claim too many", claim("more"), "storage, requested: 2147483648, used: 6442450944",
		"spec.limits.storage")

	p.bounded(t, "a", `{"loadBalancers":2}`)
	services := a.client.CoreV1().Services("default")
	service := func(kind corev1.ServiceType) func(string) error {
		return func(name string) error {
			_, err := services.Create(ctx,
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
					Type: kind, Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 81}},
				}}, metav1.CreateOptions{})
			return err
		}
	}
	if n := all(service(corev1.ServiceTypeLoadBalancer)); n != 2 {
		t.Errorf("%d load balancers of 2", n)
	}
	if err := service(corev1.ServiceTypeClusterIP)("plain"); err != nil {
		t.Errorf("another service: %v", err)
	}
	_, err = services.Patch(ctx, "plain", types.MergePatchType, []byte(`{"spec":{"type":"LoadBalancer"}}`),
		metav1.PatchOptions{})
	refused(t, "a service that becomes a load balancer", err, "loadBalancers, requested: 1, used: 2, limited: 2")

	p.bounded(t, "a", `{"definitions":2}`)
	if n := all(func(name string) error { return tryDefine(ctx, a, name+"s.example.com") }); n != 2 {
		t.Errorf("%d definitions of 2", n)
	}
	if err := tryDefine(ctx, a, "mores.example.com"); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "definitions, requested: 1, used: 2, limited: 2") {
		t.Errorf("a definition too many: %v", err)
	}

	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tenants.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"limits":{"memory":"-1Gi"}}}`),
		metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.limits.memory") {
		t.Errorf("a negative limit: %v", err)
	}
	if _, err := tenants.Patch(ctx, "a", types.MergePatchType,
		[]byte(`{"status":{"usage":[{"name":"pods","used":"0"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if kv, err := p.etcd.Get(ctx, "/registry/tenants/a"); err != nil ||
		strings.Contains(fmt.Sprintf("%s", kv.Kvs), "usage") {
		t.Errorf("what is counted is stored: %v", err)
	}
	if u := p.usage(t, "a", "definitions"); u.Used.Value() != 2 || u.Limit == nil || u.Limit.Value() != 2 {
		t.Errorf("the status says %s", u.Used.String())
	}
	testUsageIsWhatThereIs(t, p, a)
}

// tryDefine makes a CRD of namespaced custom resources of any content.
func tryDefine(ctx context.Context, s *space, name string) error {
	plural, group, _ := strings.Cut(name, ".")
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	crds := s.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	_, err := crds.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind,
				"listKind": kind + "List"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}, metav1.CreateOptions{})
	return err
}

// testUsageIsWhatThereIs: nothing is counted twice or not at all, custom
// resources and what comes and goes included.
func testUsageIsWhatThereIs(t *testing.T, p *plane, a *space) {
	ctx := t.Context()
	p.bounded(t, "a", `{"objects":100000}`)
	if err := tryDefine(ctx, a, "things.example.net"); err != nil {
		t.Fatal(err)
	}
	things := a.dynamic.Resource(schema.GroupVersionResource{Group: "example.net", Version: "v1", Resource: "things"}).
		Namespace("default")
	thing := func(i int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.net/v1", "kind": "Thing", "metadata": map[string]any{"name": fmt.Sprintf("t%d", i)},
			"x": strings.Repeat("x", 1000*i),
		}}
	}
	for i := range 10 {
		eventually(t, "a thing", func(ctx context.Context) (bool, error) {
			_, err := things.Create(ctx, thing(i), metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err), nil
		})
		if _, err := a.client.CoreV1().ConfigMaps("default").
			Create(ctx, configMap(fmt.Sprintf("c%d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		if err := things.Delete(ctx, fmt.Sprintf("t%d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.client.CoreV1().ConfigMaps("default").Patch(ctx, fmt.Sprintf("c%d", i), types.MergePatchType,
			[]byte(`{"data":{"x":"`+strings.Repeat("x", 500)+`"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var said string
	defer func() {
		if t.Failed() {
			t.Log(said)
		}
	}()
	eventually(t, "the usage to be what the datastore has", func(ctx context.Context) (bool, error) {
		all, err := p.etcd.Get(ctx, "/registry/", clientv3.WithPrefix())
		if err != nil {
			return false, err
		}
		size := int64(0)
		for _, kv := range all.Kvs {
			if strings.Contains(string(kv.Key), "/a/") {
				size += int64(len(kv.Key) + len(kv.Value))
			}
		}
		objects, bytes := p.usage(t, "a", "objects"), p.usage(t, "a", "bytes")
		count := int64(p.counted(t, "a"))
		said = fmt.Sprintf("%d bytes and %d objects, the status says %d and %d", size, count, bytes.Used.Value(),
			objects.Used.Value())
		return bytes.Used.Value() == size && objects.Used.Value() == count, nil
	})
}

// TestWallV9WayBackFromAFullDatastore: an overload leaves room for others, and a
// datastore that is full nevertheless takes writes again once there is room.
func TestWallV9WayBackFromAFullDatastore(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if os.Getenv(planes.DatastoreVariable) != "" {
		t.Skip("only embedded etcd has a quota")
	}
	p := start(t, func(c *config.Server) { c.EtcdArgs = []string{"quota-backend-bytes=100663296"} })
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	ctx := t.Context()
	write := func(name string) error {
		_, err := p.admin.CoreV1().ConfigMaps("default").Create(ctx, configMap(name), metav1.CreateOptions{})
		return err
	}

	// An overload within the limit of its tenant is more than there is.
	var group sync.WaitGroup
	var stopped atomic.Int64
	for w := range 4 {
		group.Go(func() {
			for i := range 60 {
				body, err := json.Marshal(lease(fmt.Sprintf("l%d-%d", w, i), large))
				if err != nil {
					t.Error(err)
					return
				}
				if code, text := do(t, a.config, http.MethodPost,
					"/apis/coordination.k8s.io/v1/namespaces/default/leases", string(body),
					nil); code != http.StatusCreated {
					if code != http.StatusTooManyRequests || !strings.Contains(text, "almost full") {
						t.Errorf("the overload is told: %d %.200s", code, text)
					}
					stopped.Add(1)
					return
				}
			}
		})
	}
	group.Wait()
	if stopped.Load() != 4 {
		t.Error("the overload was not stopped")
	}
	if err := write("beside-the-overload"); err != nil {
		t.Errorf("the system beside an overload: %v", err)
	}
	if _, err := b.client.CoreV1().ConfigMaps("default").
		Create(ctx, configMap("b"), metav1.CreateOptions{}); err != nil {
		t.Errorf("another tenant beside an overload: %v", err)
	}
	if err := a.client.CoordinationV1().Leases("default").
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}

	value := strings.Repeat("x", large)
	fill := func(key func(i int) string) {
		t.Helper()
		for i := range 1000 {
			if _, err := p.etcd.Put(ctx, key(i), value); err != nil {
				if !strings.Contains(err.Error(), "space exceeded") {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatal("the datastore takes everything")
	}
	// Full of versions that nobody needs: it finds room by itself.
	fill(func(int) string { return "/fill/one" })
	eventually(t, "room after a history", func(context.Context) (bool, error) {
		return write("after-history") == nil, nil
	})

	// Full of what is there: deletions go, and then everything does.
	fill(func(i int) string { return fmt.Sprintf("/fill/%d", i) })
	if err := write("while-full"); err == nil {
		t.Error("a full datastore takes a write")
	}
	if err := p.admin.CoreV1().ConfigMaps("default").Delete(ctx, "after-history", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting from a full datastore: %v", err)
	}
	if _, err := p.etcd.Delete(ctx, "/fill/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "room after deletions", func(context.Context) (bool, error) {
		return write("after-deletions") == nil, nil
	})
	if _, err := a.client.CoreV1().ConfigMaps("default").
		Create(ctx, configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a tenant after that: %v", err)
	}
}
