package spaces_test

//lint:file-ignore SA1019 Endpoints are deprecated, and clients still read them

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestEverySpaceHasTheObjectsOfTheAPI: the Service kubernetes, its Endpoints and
// its EndpointSlice are in every space what they are in a cluster of one's own,
// follow the servers, and are not the tenant's to change.
func TestEverySpaceHasTheObjectsOfTheAPI(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	a := p.bareTenant(t, "a")
	if keys := p.keys(t, "/a/default/kubernetes"); len(keys) > 0 {
		t.Errorf("stored in the space: %v", keys)
	}
	// What an earlier version stored is not seen.
	if _, err := p.etcd.Put(ctx, "/registry/services/specs/a/default/kubernetes",
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"kubernetes","namespace":"default.a","uid":"1"},`+
			`"spec":{"type":"ExternalName","externalName":"kubernetes.default.svc.cluster.local"}}`); err != nil {
		t.Fatal(err)
	}
	// The API server writes its objects when it serves already.
	var systems *corev1.Service
	var systemsEndpoints *corev1.Endpoints
	eventually(t, "the objects of the system space", func(ctx context.Context) (_ bool, err error) {
		if systems, err = p.admin.CoreV1().Services("default").
			Get(ctx, "kubernetes", metav1.GetOptions{}); err == nil {
			systemsEndpoints, err = p.admin.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, err
		}
		slices, err := p.admin.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(slices.Items) > 0, err
	})
	service, err := a.client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(service.Spec, systems.Spec) || service.Spec.Type != corev1.ServiceTypeClusterIP ||
		service.Namespace != "default" || service.Labels["component"] != "apiserver" {
		t.Errorf("the service is %+v", service)
	}
	endpoints, err := a.client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil || len(endpoints.Subsets) == 0 || !reflect.DeepEqual(endpoints.Subsets, systemsEndpoints.Subsets) {
		t.Errorf("the endpoints are %+v, %v", endpoints, err)
	}
	for _, opts := range []metav1.ListOptions{{LabelSelector: "kubernetes.io/service-name=kubernetes"},
		{FieldSelector: "metadata.name=kubernetes"}, {FieldSelector: "metadata.namespace=default"}} {
		slices, err := a.client.DiscoveryV1().EndpointSlices("default").List(ctx, opts)
		if err != nil || len(slices.Items) != 1 ||
			slices.Items[0].Endpoints[0].Addresses[0] != endpoints.Subsets[0].Addresses[0].IP {
			t.Errorf("%v: the slices are %+v, %v", opts, slices, err)
		}
	}
	none, err := a.client.DiscoveryV1().EndpointSlices("").List(ctx,
		metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=other"})
	if err != nil || len(none.Items) != 0 {
		t.Errorf("selected by another label: %+v, %v", none, err)
	}
	if all, err := a.client.CoreV1().Services("kube-system").List(ctx, metav1.ListOptions{}); err != nil ||
		len(all.Items) != 0 {
		t.Errorf("in another namespace: %+v, %v", all, err)
	}

	// Among others, page by page, in every form of list.
	for _, name := range []string{"aa", "zz"} {
		if _, err := a.client.CoreV1().Services("default").
			Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
				metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]int{}
	for _, ns := range []string{"", "default"} {
		opts := metav1.ListOptions{Limit: 1}
		for {
			page, err := a.client.CoreV1().Services(ns).List(ctx, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Items {
				found[s.Name]++
			}
			if opts.Continue = page.Continue; opts.Continue == "" {
				break
			}
		}
	}
	if !reflect.DeepEqual(found, map[string]int{"aa": 2, "zz": 2, "kubernetes": 2}) {
		t.Errorf("page by page: %v", found)
	}
	forms, err := metadata.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	if partial, err := forms.Resource(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")).
		List(ctx, metav1.ListOptions{}); err != nil || len(partial.Items) != 1 ||
		partial.Items[0].Namespace != "default" {
		t.Errorf("the metadata of the slices: %+v, %v", partial, err)
	}
	if code, body := do(t, a.config, http.MethodGet, "/api/v1/services", "",
		[]string{"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"}); code != http.StatusOK ||
		!strings.Contains(body, `"ClusterIP","`+systems.Spec.ClusterIP+`"`) || strings.Contains(body, "default.a") {
		t.Errorf("the table: %d %s", code, body)
	}

	// Kept by the cluster.
	labels := []byte(`{"metadata":{"labels":{"x":"y"}}}`)
	for _, dry := range [][]string{nil, {metav1.DryRunAll}} {
		if _, err := a.client.CoreV1().Services("default").Patch(ctx, "kubernetes", types.MergePatchType, labels,
			metav1.PatchOptions{DryRun: dry}); !apierrors.IsForbidden(err) {
			t.Errorf("patching the service: %v", err)
		}
		if _, err := a.client.CoreV1().Services("default").Patch(ctx, "kubernetes", types.MergePatchType, labels,
			metav1.PatchOptions{DryRun: dry}, "status"); !apierrors.IsForbidden(err) {
			t.Errorf("patching its status: %v", err)
		}
		if _, err := a.client.CoreV1().Endpoints("default").Create(ctx,
			&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}},
			metav1.CreateOptions{DryRun: dry}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("making the endpoints: %v", err)
		}
		forged := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			AddressType: discoveryv1.AddressTypeIPv4}
		if _, err := a.client.DiscoveryV1().EndpointSlices("default").Update(ctx, forged,
			metav1.UpdateOptions{DryRun: dry}); !apierrors.IsForbidden(err) {
			t.Errorf("replacing the slice: %v", err)
		}
		if err := a.client.CoreV1().Services("default").Delete(ctx, "kubernetes",
			metav1.DeleteOptions{DryRun: dry}); !apierrors.IsForbidden(err) {
			t.Errorf("deleting the service: %v", err)
		}
	}
	if err := a.client.DiscoveryV1().EndpointSlices("default").
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("deleting all slices: %v", err)
	}
	if _, err := a.client.DiscoveryV1().EndpointSlices("default").
		Get(ctx, "kubernetes", metav1.GetOptions{}); err != nil {
		t.Errorf("after that: %v", err)
	}
	if code, body := get(t, a.config,
		"/api/v1/namespaces/default/services/https:kubernetes:/proxy/version"); code == http.StatusOK {
		t.Errorf("the proxy leads to the server: %s", body)
	}

	// A watch, an informer with and one without a stream of the first objects.
	watched, err := a.client.DiscoveryV1().EndpointSlices("default").Watch(ctx,
		metav1.ListOptions{ResourceVersion: endpointsVersion(ctx, t, a), AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	streamed, err := a.client.CoreV1().Services("").Watch(ctx, metav1.ListOptions{SendInitialEvents: new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer streamed.Stop()
	var names []string
	for e := range streamed.ResultChan() {
		if e.Type == watch.Bookmark {
			break
		}
		s, ok := e.Object.(*corev1.Service)
		if !ok || e.Type != watch.Added {
			t.Fatalf("an event %s of %T", e.Type, e.Object)
		}
		names = append(names, s.Namespace+"/"+s.Name)
	}
	if len(names) != 3 || names[0] != "default/kubernetes" {
		t.Errorf("the first objects are %v", names)
	}
	informer := cache.NewSharedInformer(cache.NewListWatchFromClient(a.client.CoreV1().RESTClient(), "endpoints", "",
		fields.Everything()), &corev1.Endpoints{}, 0)
	came, once := make(chan struct{}), sync.Once{}
	look := func(obj any) {
		if e, ok := obj.(*corev1.Endpoints); ok && e.Name == "kubernetes" &&
			strings.Contains(fmt.Sprint(e.Subsets), "192.0.2.99") {
			once.Do(func() { close(came) })
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look,
		UpdateFunc: func(_, obj any) { look(obj) }}); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) || len(informer.GetStore().ListKeys()) != 1 {
		t.Errorf("the informer has %v", informer.GetStore().ListKeys())
	}

	// Another server comes.
	slice, err := p.admin.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice.Labels["seen"] = "true"
	if _, err := p.admin.DiscoveryV1().EndpointSlices("default").
		Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range watched.ResultChan() {
		if e.Type == watch.Bookmark {
			continue
		}
		accessor, err := meta.Accessor(e.Object)
		if err != nil || e.Type != watch.Modified || accessor.GetNamespace() != "default" ||
			accessor.GetLabels()["seen"] != "true" {
			t.Errorf("the event of the change: %+v, %v", e, err)
		}
		break
	}
	stored, err := p.admin.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.Subsets[0].Addresses = append(stored.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.99"})
	if _, err := p.admin.CoreV1().Endpoints("default").Update(ctx, stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-came:
	case <-time.After(deadline):
		t.Error("the informer has not heard of another server")
	}
}

func endpointsVersion(ctx context.Context, t *testing.T, s *space) string {
	t.Helper()
	list, err := s.client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}
