package spaces_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiserviceclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/informers/externalversions"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestAPIServices reads the APIServices of a tenant as controllers do that look
// for something in them: there are those that every cluster has, and none that
// reports this one.
func TestAPIServices(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	ctx := t.Context()
	system := aggregator(t, p.Admin).ApiregistrationV1().APIServices()
	const word = "zqcanaryzq"
	foreign := apiService("v1", word+".example.com")
	foreign.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "kube-system", Name: word}
	foreign.Spec.InsecureSkipTLSVerify = true
	if _, err := system.Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ofSystem := p.as(t, "system", p.Admin).define(t, definition("private-"+word+".example.com"))
	eventually(t, "the APIService of the definition", func(ctx context.Context) (bool, error) {
		_, err := system.Get(ctx, "v1."+ofSystem.Group, metav1.GetOptions{})
		return err == nil, nil
	})

	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		cfg := rest.CopyConfig(a.config)
		cfg.ContentType, cfg.AcceptContentTypes = media, media
		t.Run(media, func(t *testing.T) { testReadsAPIServices(t, cfg, system, foreign.Name, "v1."+ofSystem.Group) })
	}
	t.Run("writes", func(t *testing.T) { testWritesAPIServices(t, a, foreign.Name) })
	t.Run("raw", func(t *testing.T) {
		const at = "/apis/apiregistration.k8s.io/v1/apiservices"
		for _, path := range []string{at, at + "?limit=3", at + "?watch=1&timeoutSeconds=1",
			at + "?fieldSelector=metadata.name%3D" + foreign.Name,
			at + "?fieldSelector=metadata.name%3D" + foreign.Name + "&watch=1&timeoutSeconds=1",
			"/apis/apiregistration.k8s.io/v1/watch/apiservices?timeoutSeconds=1",
			at + "?resourceVersion=0", at + "?sendInitialEvents=true&watch=1&timeoutSeconds=1&allowWatchBookmarks=1&" +
				"resourceVersionMatch=NotOlderThan"} {
			code, body := get(t, a.config, path)
			if code != http.StatusOK || strings.Contains(body, word) && !strings.Contains(path, word) ||
				strings.Contains(body, "a4s.open") {
				t.Errorf("%s: %d %.300s", path, code, body)
			}
		}
		code, body := do(t, a.config, http.MethodGet, at, "",
			[]string{"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"})
		if code != http.StatusOK || strings.Contains(body, word) ||
			!strings.Contains(body, `"v1.apps","Local","True"`) {
			t.Errorf("as a Table: %d %.300s", code, body)
		}
	})
}

func apiService(version, group string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version + "." + group},
		Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: version, GroupPriorityMinimum: 10,
			VersionPriority: 1},
	}
}

func aggregator(t *testing.T, cfg *rest.Config) clientset.Interface {
	t.Helper()
	client, err := clientset.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// plantAPIServer adds an API server that nobody reaches, whose every word is
// the cluster's.
func plantAPIServer(t *testing.T, p *plane, word string) {
	t.Helper()
	foreign := apiService("v1", word+".apis.example.com")
	foreign.Annotations = map[string]string{"note": word}
	foreign.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "kube-system", Name: word}
	foreign.Spec.InsecureSkipTLSVerify = true
	if _, err := aggregator(t, p.Admin).ApiregistrationV1().APIServices().Create(t.Context(), foreign,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testReadsAPIServices(
	t *testing.T, cfg *rest.Config, system apiserviceclient.APIServiceInterface, hidden ...string,
) {
	ctx := t.Context()
	client := aggregator(t, cfg)
	own := client.ApiregistrationV1().APIServices()
	var names []string
	next := ""
	for pages := 0; pages == 0 || next != ""; pages++ {
		page, err := own.List(ctx, metav1.ListOptions{Limit: 5, Continue: next})
		if err != nil || len(page.Items) > 5 {
			t.Fatalf("a page: %v, %v", page, err)
		}
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
			if page.Items[i].Spec.Service != nil || len(page.Items[i].Spec.CABundle) > 0 {
				t.Errorf("%s tells of an API server", page.Items[i].Name)
			}
		}
		next = page.Continue
	}
	for _, want := range []string{"v1.", "v1.apps", "v1.apiextensions.k8s.io", "v1.rbac.authorization.k8s.io",
		"v1.flowcontrol.apiserver.k8s.io"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing: %v", want, names)
		}
	}
	for _, not := range hidden {
		if slices.Contains(names, not) {
			t.Errorf("%s is shown", not)
		}
		if _, err := own.Get(ctx, not, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", not, err)
		}
	}
	if one, err := own.Get(ctx, "v1.apps", metav1.GetOptions{}); err != nil || one.Spec.Group != "apps" {
		t.Errorf("one: %v, %v", one, err)
	}
	heads, err := metadata.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	partial, err := heads.Resource(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")).List(ctx,
		metav1.ListOptions{})
	if err != nil || len(partial.Items) != len(names) {
		t.Errorf("heads: %v, %v", partial, err)
	}

	// A controller follows what becomes visible and what ceases to be.
	factory := externalversions.NewSharedInformerFactory(client, 0)
	informer := factory.Apiregistration().V1().APIServices()
	lister := informer.Lister()
	synced := informer.Informer().HasSynced
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	factory.Start(stop.Done())
	if !cache.WaitForCacheSync(stop.Done(), synced) {
		t.Fatal("the informer does not get in sync")
	}
	if all, err := lister.List(labels.Everything()); err != nil || len(all) != len(names) {
		t.Errorf("the informer has %d, %v", len(all), err)
	}
	events, err := own.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=v9.policy"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if _, err := system.Create(ctx, apiService("v9", "policy"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Delete(context.Background(), "v9.policy", metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	event := func(want watch.EventType) {
		t.Helper()
		for e := range events.ResultChan() {
			if s, ok := e.Object.(*apiregistrationv1.APIService); ok && s.Spec.Service != nil {
				t.Errorf("the watch tells of an API server: %v", e)
			}
			if e.Type == want {
				return
			}
			if e.Type != watch.Modified {
				t.Fatalf("%s instead of %s: %v", e.Type, want, e.Object)
			}
		}
		t.Fatalf("the watch ended without %s", want)
	}
	event(watch.Added)
	eventually(t, "the informer to see it", func(context.Context) (bool, error) {
		_, err := lister.Get("v9.policy")
		return err == nil, nil
	})
	if _, err := system.Patch(ctx, "v9.policy", types.MergePatchType, []byte(`{"spec":{"insecureSkipTLSVerify":true,`+
		`"service":{"namespace":"kube-system","name":"zqcanaryzq"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	event(watch.Deleted)
	eventually(t, "the informer to lose it", func(context.Context) (bool, error) {
		_, err := lister.Get("v9.policy")
		return apierrors.IsNotFound(err), nil
	})
	if err := system.Delete(ctx, "v9.policy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testWritesAPIServices(t *testing.T, a *space, foreign string) {
	ctx := t.Context()
	own := aggregator(t, a.config).ApiregistrationV1().APIServices()
	_, created := own.Create(ctx, apiService("v1", "mine.example.com"), metav1.CreateOptions{})
	_, patched := own.Patch(ctx, "v1.apps", types.MergePatchType, []byte(`{"spec":{"caBundle":"eA=="}}`),
		metav1.PatchOptions{})
	_, elsewhere := own.Patch(ctx, foreign, types.MergePatchType, []byte(`{"spec":{"caBundle":"eA=="}}`),
		metav1.PatchOptions{})
	_, updated := own.Update(ctx, apiService("v1", "apps"), metav1.UpdateOptions{})
	_, status := own.UpdateStatus(ctx, apiService("v1", "apps"), metav1.UpdateOptions{})
	for what, err := range map[string]error{
		"create": created, "patch": patched, "patch of what is hidden": elsewhere, "update": updated, "status": status,
		"delete":     own.Delete(ctx, "v1.apps", metav1.DeleteOptions{}),
		"delete all": own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "made by the administrators of the cluster") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
