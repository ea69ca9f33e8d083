package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

const atDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// secretive puts a word into everything of a CRD that is not for the
// tenants that it serves.
func secretive(word, policy string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations = map[string]string{sharingPolicy: policy, "note": word,
			"kubectl.kubernetes.io/last-applied-configuration": word, "meta.helm.sh/release-name": word}
		crd.Labels = map[string]string{"app": word}
		if policy == "optional" {
			crd.Annotations[rangeNames] = "a," + word
		}
		old := crd.Spec.Versions[0].DeepCopy()
		old.Name, old.Storage = "v1alpha1", false
		crd.Spec.Versions = append(crd.Spec.Versions, *old)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig: &apiextensionsv1.WebhookClientConfig{
					Service: &apiextensionsv1.ServiceReference{Namespace: "kube-system", Name: word},
				},
			}}
	}
}

// TestShownDefinitions: the CRDs of the system that serve a tenant are
// among its own for all who look for them, and tell nothing of the system.
func TestShownDefinitions(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.bareTenant(t, "a"), p.bareTenant(t, "b")
	system := p.as(t, "system", p.Admin)
	const word = "zqcanaryzq"
	forced := system.define(t, definition("forced.example.com", secretive(word, "forced"))).GroupResource().String()
	optional := system.define(t, definition("optional.example.com", secretive(word, "optional"))).
		GroupResource().String()
	private := system.define(t, definition("private.example.com")).GroupResource().String()
	a.shows(t, forced, true)
	a.shows(t, optional, true)
	a.shows(t, private, false)
	b.shows(t, forced, true)
	b.shows(t, optional, false)
	t.Run("fields", func(t *testing.T) { testShownFields(t, a, system, word, optional) })
	t.Run("lists", func(t *testing.T) { testShownLists(t, a, forced, optional) })
	t.Run("writes", func(t *testing.T) { testShownWrites(t, a, forced, optional) })
	t.Run("owners", func(t *testing.T) { testShownOwners(t, a, forced) })
	t.Run("informer", func(t *testing.T) { testShownFollowed(t, p, system, b, "informer.example.com") })
	t.Run("events", func(t *testing.T) { testShownEvents(t, p, system, a) })
	if keys := p.keys(t, "customresourcedefinitions/b/"); len(keys) > 0 {
		t.Errorf("what is shown is stored: %v", keys)
	}
}

// shows waits until a tenant finds a CRD, or does not.
func (s *space) shows(t *testing.T, name string, want bool) {
	t.Helper()
	eventually(t, name+" to be shown, or not, to "+s.name, func(ctx context.Context) (bool, error) {
		_, err := s.definitions(t).Get(ctx, name, metav1.GetOptions{})
		return err == nil == want && (want || apierrors.IsNotFound(err)), nil
	})
}

func testShownFields(t *testing.T, a, system *space, word, name string) {
	ctx := t.Context()
	for _, path := range []string{
		atDefinitions + "/" + name, atDefinitions + "/" + name + "/status", atDefinitions, atDefinitions + "?limit=1",
		atDefinitions + "?resourceVersion=0",
		atDefinitions + "?watch=1&timeoutSeconds=1",
		atDefinitions + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D" + name,
		atDefinitions + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" +
			"allowWatchBookmarks=true",
		"/apis/apiextensions.k8s.io/v1/watch/customresourcedefinitions?timeoutSeconds=1",
	} {
		for _, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
			"application/json;as=Table;v=v1;g=meta.k8s.io",
			"application/json;as=PartialObjectMetadata" + map[bool]string{true: "List"}[path == atDefinitions] +
				";v=v1;g=meta.k8s.io"} {
			code, body := do(t, a.config, http.MethodGet, path, "", []string{"Accept: " + accept})
			if code == http.StatusOK && strings.Contains(path, "watch=1") && strings.Contains(path, name) {
				body = says(t, a.config, path, accept, func(body string) bool { return strings.Contains(body, name) })
			}
			if code != http.StatusOK && code != http.StatusNotAcceptable {
				t.Errorf("%s as %s: %d %.300s", path, accept, code, body)
			}
			if strings.Contains(body, word) || strings.Contains(body, ".a.tenant") ||
				strings.Contains(body, "managedFields") {
				t.Errorf("%s as %s tells too much: %s", path, accept, body)
			}
			if code == http.StatusOK && strings.Contains(path, name) && !strings.Contains(body, name) {
				t.Errorf("%s as %s has not what was asked for: %s", path, accept, body)
			}
		}
	}
	if _, body := get(t, a.config, atDefinitions+"/"+name); !strings.Contains(body, `"tenant":"system"`) {
		t.Errorf("it is not said whose it is: %s", body)
	}
	// Nor does what goes wrong with them.
	group := strings.TrimPrefix(name, "foos.")
	for _, body := range []string{`{"apiVersion":"` + group +
		`/v1alpha1","kind":"Foo","metadata":{"name":"old"},"spec":{"x":"y"}}`,
		`{"apiVersion":"` + group + `/v1","kind":"Foo","metadata":{"name":"new"},"spec":{"x":"y"}}`} {
		version := "v1"
		if strings.Contains(body, "v1alpha1") {
			version = "v1alpha1"
		}
		code, answer := do(t, a.config, http.MethodPost,
			"/apis/"+group+"/"+version+"/namespaces/default/foos", body, nil)
		if version == "v1" && code != http.StatusCreated || version != "v1" &&
			(code != http.StatusInternalServerError || !strings.Contains(answer, "its administrators")) ||
			strings.Contains(answer, word) {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	for _, path := range []string{"/foos", "/foos/new", "/foos?watch=1&timeoutSeconds=1"} {
		if code, answer := get(t, a.config,
			"/apis/"+group+"/v1alpha1/namespaces/default"+path); strings.Contains(answer, word) {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	theirs, err := system.definitions(t).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		cfg := rest.CopyConfig(a.config)
		cfg.ContentType, cfg.AcceptContentTypes = media, media
		crd, err := p(a, cfg).definitions(t).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if crd.Annotations[sharingPolicy] != "optional" || len(crd.Annotations) != 1 || len(crd.Labels) > 0 ||
			len(crd.Finalizers) > 0 || crd.UID == theirs.UID || crd.UID == "" {
			t.Errorf("its head: %v", crd.ObjectMeta)
		}
		if crd.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter ||
			crd.Spec.Conversion.Webhook.ClientConfig != nil {
			t.Errorf("its conversion: %v", crd.Spec.Conversion)
		}
		if !slices.EqualFunc(crd.Spec.Versions, theirs.Spec.Versions,
			func(a, b apiextensionsv1.CustomResourceDefinitionVersion) bool { return a.String() == b.String() }) ||
			crd.Status.AcceptedNames.Kind != "Foo" || !slices.Contains(crd.Status.StoredVersions, "v1") {
			t.Errorf("what it defines: %v", crd)
		}
	}
}

// p is a space with another way to ask.
func p(s *space, cfg *rest.Config) *space {
	other := *s
	other.config = cfg
	return &other
}

func testShownLists(t *testing.T, a *space, forced, optional string) {
	ctx := t.Context()
	for _, plural := range []string{"ones", "twos", "threes"} {
		a.define(t, definition("own.example.com", named(plural, strings.ToUpper(plural[:1])+plural[1:len(plural)-1])))
	}
	definitions := a.definitions(t)
	names := func(options metav1.ListOptions) []string {
		t.Helper()
		var found []string
		for pages := 0; pages == 0 || options.Continue != ""; pages++ {
			list, err := definitions.List(ctx, options)
			if err != nil {
				t.Fatalf("%v: %v", options, err)
			}
			if options.Limit > 0 && int64(len(list.Items)) > options.Limit {
				t.Errorf("%d in a page of %d", len(list.Items), options.Limit)
			}
			for i := range list.Items {
				found = append(found, list.Items[i].Name)
			}
			if list.RemainingItemCount != nil && options.Limit > 0 && *list.RemainingItemCount != int64(5-len(found)) {
				t.Errorf("%d are said to remain after %d of 5", *list.RemainingItemCount, len(found))
			}
			options.Continue = list.Continue
		}
		return found
	}
	all := names(metav1.ListOptions{})
	if len(all) != 5 || !slices.Contains(all, forced) || !slices.Contains(all, optional) {
		t.Errorf("all: %v", all)
	}
	for limit := range int64(7) {
		if paged := names(metav1.ListOptions{Limit: limit}); !slices.Equal(paged, all) {
			t.Errorf("in pages of %d: %v", limit, paged)
		}
	}
	for _, c := range []struct {
		options metav1.ListOptions
		want    int
	}{
		{metav1.ListOptions{ResourceVersion: "0"}, 5},
		{metav1.ListOptions{FieldSelector: "metadata.name=" + forced}, 1},
		{metav1.ListOptions{FieldSelector: "metadata.name!=" + forced}, 4},
		{metav1.ListOptions{LabelSelector: "app"}, 0},
		{metav1.ListOptions{LabelSelector: "!app"}, 5},
	} {
		if found := names(c.options); len(found) != c.want {
			t.Errorf("%v: %v", c.options, found)
		}
	}
}

func testShownWrites(t *testing.T, a *space, forced, optional string) {
	ctx := t.Context()
	definitions := a.definitions(t)
	for _, name := range []string{forced, optional} {
		crd, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, updated := definitions.Update(ctx, crd, metav1.UpdateOptions{})
		_, status := definitions.UpdateStatus(ctx, crd, metav1.UpdateOptions{})
		_, patched := definitions.Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"mine":"yes"}}}`), metav1.PatchOptions{})
		for what, err := range map[string]error{"update": updated, "status": status, "patch": patched,
			"delete": definitions.Delete(ctx, name, metav1.DeleteOptions{})} {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the administrators of the cluster") ||
				strings.Contains(err.Error(), ".tenant") {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
	own := definition("forced.example.com")
	if _, err := definitions.Create(ctx, own, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("another of the forced one: %v", err)
	}
	body, err := json.Marshal(definition("optional.example.com", func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		crd.Labels = map[string]string{"mine": "yes"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	// As clients do that know nothing of what is there.
	if _, err := definitions.Patch(ctx, optional, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: "test"}); err != nil {
		t.Errorf("one of the tenant's own: %v", err)
	}
	if crd, err := definitions.Get(ctx, optional, metav1.GetOptions{}); err != nil || crd.Labels["mine"] != "yes" ||
		len(crd.ManagedFields) == 0 {
		t.Errorf("the own one is not shown: %v, %v", crd, err)
	}
	if list, err := definitions.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 5 {
		t.Errorf("beside an own one: %v", err)
	}
	if err := definitions.Delete(ctx, optional, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, "the one of the system to be shown again", func(ctx context.Context) (bool, error) {
		crd, err := definitions.Get(ctx, optional, metav1.GetOptions{})
		return err == nil && crd.Labels["mine"] == "", nil
	})
}

// testShownOwners: what a shown CRD owns is there as long as that is.
func testShownOwners(t *testing.T, a *space, name string) {
	ctx := t.Context()
	crd, err := a.definitions(t).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for owned, uid := range map[string]types.UID{"kept": crd.UID, "orphaned": "0e0e0e0e-0000-0000-0000-000000000000"} {
		_, err := a.client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: owned, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: name, UID: uid},
			}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	a.collected(t, "orphaned")
	if _, err := a.client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("what is owned by what is there: %v", err)
	}
}

// testShownFollowed: a controller's informer follows what begins and ceases to
// serve its tenant, whatever it is because of.
func testShownFollowed(t *testing.T, p *plane, system, b *space, group string) {
	ctx := t.Context()
	client, err := clientset.NewForConfig(b.config)
	if err != nil {
		t.Fatal(err)
	}
	factory := externalversions.NewSharedInformerFactory(client, 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions()
	lister, synced := informer.Lister(), informer.Informer().HasSynced
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	factory.Start(stop.Done())
	if !cache.WaitForCacheSync(stop.Done(), synced) {
		t.Fatal("the informer does not get in sync")
	}
	name := system.define(t, definition(group)).GroupResource().String()
	follows := func(why string, want bool) {
		t.Helper()
		eventually(t, why, func(ctx context.Context) (bool, error) {
			_, err := lister.Get(name)
			_, direct := b.definitions(t).Get(ctx, name, metav1.GetOptions{})
			return err == nil == want && direct == nil == want, nil
		})
	}
	shares := func(annotations map[string]any) {
		t.Helper()
		if err := system.share(t, name, annotations); err != nil {
			t.Fatal(err)
		}
	}
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	patches := func(patch string) {
		t.Helper()
		if _, err := tenants.Patch(ctx, "b", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	follows("nothing", false)
	shares(map[string]any{sharingPolicy: "optional", rangeNames: "b"})
	follows("the range", true)
	shares(map[string]any{rangeNames: "a"})
	follows("another range", false)
	shares(map[string]any{rangeNames: nil, rangeSelector: "tier=gold"})
	patches(`{"metadata":{"labels":{"tier":"gold"}}}`)
	follows("labels of the tenant", true)
	patches(`{"spec":{"crdPolicy":"NeverUseSystemCRDUnlessForced"}}`)
	follows("the policy", false)
	shares(map[string]any{sharingPolicy: "forced"})
	follows("a forced one", true)
	shares(map[string]any{sharingPolicy: "optional"})
	follows("an optional one", false)
	patches(`{"spec":{"crdPolicy":null},"metadata":{"labels":{"tier":null}}}`)
	shares(map[string]any{rangeSelector: nil})
	follows("all tenants", true)
	if err := system.definitions(t).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	follows("its deletion", false)
}

// testShownEvents: each event of a watch, and where one can go on.
func testShownEvents(t *testing.T, p *plane, system, a *space) {
	ctx := t.Context()
	definitions := a.definitions(t)
	crd := definition("events.example.com", func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations = map[string]string{sharingPolicy: "optional"}
	})
	begin, err := definitions.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := definitions.Watch(ctx, metav1.ListOptions{ResourceVersion: begin.ResourceVersion,
		FieldSelector: "metadata.name=" + crd.Name, AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	next := func(want watch.EventType, own bool) {
		t.Helper()
		for event := range w.ResultChan() {
			if event.Type == watch.Bookmark || event.Type == watch.Modified && want != watch.Modified {
				continue
			}
			got, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			if !ok || event.Type != want || got.Labels["mine"] == "yes" != own || got.Name != crd.Name {
				t.Fatalf("%s %v, want %s, own %t", event.Type, event.Object, want, own)
			}
			return
		}
		t.Fatalf("the watch ended without %s", want)
	}
	system.define(t, crd)
	next(watch.Added, false)
	own := definition("events.example.com")
	own.Labels = map[string]string{"mine": "yes"}
	if _, err := definitions.Create(ctx, own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted, false)
	next(watch.Added, true)
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	prefers := func(policy string) {
		t.Helper()
		if _, err := tenants.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"crdPolicy":`+policy+`}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	prefers(`"SystemCRDFirst"`)
	next(watch.Deleted, true)
	next(watch.Added, false)
	if _, err := definitions.Patch(ctx, crd.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"mine":"too"}}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "can be deleted") {
		t.Errorf("a patch of what does not serve: %v", err)
	}
	prefers("null")
	next(watch.Deleted, false)
	next(watch.Added, true)
	if err := definitions.Delete(ctx, crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted, true)
	next(watch.Added, false)

	// Who comes back from before a change has to list again.
	late, err := definitions.Watch(ctx, metav1.ListOptions{ResourceVersion: begin.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Stop()
	expires(t, late)
	again, err := definitions.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	w, err = definitions.Watch(ctx,
		metav1.ListOptions{ResourceVersion: again.ResourceVersion, FieldSelector: "metadata.name=" + crd.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := system.share(t, crd.Name, map[string]any{"api-approved.kubernetes.io": "unapproved"}); err != nil {
		t.Fatal(err)
	}
	next(watch.Modified, false)
	if err := system.definitions(t).Delete(ctx, crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted, false)
}
