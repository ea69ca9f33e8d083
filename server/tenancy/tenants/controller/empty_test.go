package controller

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

// fakeCluster serves discovery, deletions, and what finalizes a namespace. Its
// objects have the paths by which they are deleted.
type fakeCluster struct {
	t       *testing.T
	verbs   map[string][]string // of "v1 configmaps", group version and name
	mu      sync.Mutex
	objects []string
	paths   []string        // of the requests that change something, in order
	held    map[string]bool // objects that are marked only
	marked  map[string]bool
	refuse  string // a part of paths whose deletion is refused
	foreign string // a group version of somebody else's server
	broken  error  // of the datastore
	// finalizers are those of objects; failing is a part of paths that cannot be read.
	finalizers map[string][]string
	failing    string
	// stored is what the datastore has of custom resources.
	stored map[string]string
}

func newFakeCluster(t *testing.T, objects ...string) (*fakeCluster, *emptying) {
	f := &fakeCluster{t: t, objects: objects, held: map[string]bool{}, marked: map[string]bool{},
		verbs: map[string][]string{}}
	for _, r := range []string{
		"v1 namespaces", "v1 configmaps", "v1 pods", "v1 persistentvolumes", "apps/v1 deployments",
		"example.com/v1 widgets",
		"apiextensions.k8s.io/v1 customresourcedefinitions",
		"admissionregistration.k8s.io/v1 validatingwebhookconfigurations",
	} {
		f.verbs[r] = []string{"get", "list", "delete", "deletecollection"}
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	c, err := newController(Options{Config: &restclient.Config{Host: server.URL}, Contents: f,
		Log: logrus.NewEntry(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.shutDown)
	return f, &emptying{controller: c, tenant: "t1", marked: map[string]*corev1.Namespace{}, deleted: time.Now()}
}

// parse takes a path apart: /api/v1/namespaces/default.t1/configmaps/a
func parse(path string) (r contents.Resource, o contents.Object) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if parts[0] == "apis" {
		r.Group = parts[1]
		parts = parts[1:]
	}
	parts = parts[2:]
	if len(parts) > 2 {
		r.Namespaced, o.Namespace = true, parts[1]
		parts = parts[2:]
	}
	if r.Resource = parts[0]; len(parts) > 1 {
		o.Name = parts[1]
	}
	return r, o
}

// Discard implements Contents.
func (f *fakeCluster) Discard(context.Context, string) (int64, error) { return 0, nil }

// Contents implements Contents.
func (f *fakeCluster) Contents(_ context.Context, tenant string) ([]contents.Resource, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tenant != "t1" {
		f.t.Errorf("the contents of %s", tenant)
	}
	found := map[schema.GroupResource]*contents.Resource{}
	var out []contents.Resource
	for _, path := range slices.Sorted(slices.Values(f.objects)) {
		r, o := parse(path)
		if found[r.GroupResource] == nil {
			found[r.GroupResource] = &r
		}
		found[r.GroupResource].Objects = append(found[r.GroupResource].Objects, o)
		found[r.GroupResource].Count++
	}
	for _, r := range found {
		out = append(out, *r)
	}
	return out, f.broken
}

// Drop implements Contents.
func (f *fakeCluster) Drop(_ context.Context, _ string, r contents.Resource) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects = slices.DeleteFunc(f.objects, func(path string) bool {
		of, _ := parse(path)
		return of.GroupResource == r.GroupResource
	})
	return nil
}

// Remove implements Contents.
func (f *fakeCluster) Remove(
	_ context.Context, _ string, r contents.Resource, which func([]byte) bool,
) (n int64, err error) {
	f.mu.Lock()
	there := slices.Clone(f.objects)
	f.mu.Unlock()
	for _, path := range there {
		if of, _ := parse(path); of.GroupResource == r.GroupResource && which([]byte(f.stored[path])) {
			f.mu.Lock()
			f.objects = slices.DeleteFunc(f.objects, func(other string) bool { return other == path })
			f.mu.Unlock()
			n++
		}
	}
	return n, nil
}

func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failing != "" && strings.Contains(r.URL.Path, f.failing):
		http.Error(w, "no conversion", http.StatusInternalServerError)
		return
	case r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"):
		of, o := parse(strings.TrimPrefix(r.URL.Path, "/tenants/t1"))
		f.show(w, of.GroupResource, o)
		return
	case r.Method == http.MethodGet:
		// The space has what the system has.
		f.discover(w, strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"), "tenants/t1/"))
		return
	case f.refuse != "" && strings.Contains(r.URL.Path, f.refuse):
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	f.paths = append(f.paths, r.URL.Path)
	path, finalizes := strings.CutSuffix(r.URL.Path, "/finalize")
	is, o := parse(path)
	namespace := is.Resource == "namespaces"
	if namespace && finalizes != f.marked[path] {
		f.t.Errorf("%s %s, marked is %v", r.Method, r.URL.Path, f.marked[path])
	}
	if o.Name == "" && !is.Namespaced && o.Namespace == "" {
		f.t.Errorf("a deletion of everything at %s", path)
	}
	f.marked[path] = true
	if namespace && !finalizes {
		ns := corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
		ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		answer(w, ns)
		return
	}
	f.objects = slices.DeleteFunc(f.objects, func(there string) bool {
		return !f.held[there] && (there == path || o.Name == "" && strings.HasPrefix(there, path+"/"))
	})
	answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// show answers with the metadata of one object, or of all of a resource in the space.
func (f *fakeCluster) show(w http.ResponseWriter, r schema.GroupResource, o contents.Object) {
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList",
		APIVersion: "meta.k8s.io/v1"}}
	for _, path := range f.objects {
		of, is := parse(path)
		if of.GroupResource != r {
			continue
		}
		m := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata",
			APIVersion: "meta.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: is.Name, Namespace: is.Namespace,
			Finalizers: f.finalizers[path]}}
		if is == o {
			answer(w, m)
			return
		}
		_, m.Namespace = space.SplitNamespace(is.Namespace)
		list.Items = append(list.Items, m)
	}
	answer(w, list)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fakeCluster) discover(w http.ResponseWriter, path string) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for r, verbs := range f.verbs {
		gv, name, _ := strings.Cut(r, " ")
		if group, version, ok := strings.Cut(gv, "/"); ok {
			v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
			groups.Groups = append(groups.Groups,
				metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		if strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/") == gv {
			list.GroupVersion = gv
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: name, Verbs: verbs,
				StorageVersionHash: storageHash(schema.FromAPIVersionAndKind(gv, name)),
				Namespaced: slices.Contains([]string{"configmaps", "pods", "deployments", "widgets", "things"},
					name)})
		}
	}
	switch {
	case path == "api":
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case path == "apis":
		answer(w, groups)
	case strings.HasSuffix(path, "/apiservices"):
		group, version, _ := strings.Cut(f.foreign, "/")
		local := map[string]any{"spec": map[string]string{"group": "apps", "version": "v1"}}
		items := []any{local}
		if group != "" {
			items = append(items, map[string]any{"spec": map[string]any{"group": group, "version": version,
				"service": map[string]string{"name": "x"}}})
		}
		answer(w, map[string]any{"items": items})
	case list.GroupVersion != "":
		answer(w, list)
	default:
		http.NotFound(w, nil)
	}
}

const (
	ns      = "/api/v1/namespaces/default.t1"
	other   = "/api/v1/namespaces/n.t1"
	volume  = "/api/v1/persistentvolumes/pv1.t1.tenant"
	hook    = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/h.t1.tenant"
	crd     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com.t1.tenant"
	widget  = "/apis/example.com/v1/namespaces/default.t1/widgets/w"
	pod     = ns + "/pods/p"
	config  = ns + "/configmaps/a"
	deploy  = "/apis/apps/v1/namespaces/default.t1/deployments/d"
	another = other + "/configmaps/b"
)

func TestSpaceIsEmptiedInOrder(t *testing.T) {
	f, e := newFakeCluster(t, ns, other, volume, hook, crd, widget, pod, config, deploy, another)
	if left, err := e.run(t.Context()); err != nil || len(left) > 0 {
		t.Fatalf("left %s, %v", describe(left), err)
	}
	order := [][]string{{hook}, {widget}, {ns, other}, {pod, deploy}, {volume, config, another},
		{crd}, {ns + "/finalize"}}
	at := map[string]int{}
	for i, path := range f.paths {
		at[path] = i
	}
	for i := range order[1:] {
		for _, first := range order[i] {
			for _, then := range order[i+1] {
				if at[first] > at[then] {
					t.Errorf("%s came after %s", first, then)
				}
			}
		}
	}
	if len(f.paths) != 12 {
		t.Errorf("%d requests: %s", len(f.paths), strings.Join(f.paths, " "))
	}
}

func TestWhatIsHeldHoldsWhatComesAfterIt(t *testing.T) {
	for _, c := range []struct {
		name, held, left string
		there, asked     []string
	}{
		{"an object", config, "1 configmaps, 1 namespaces", []string{config, ns},
			[]string{ns, config, other, another, other + "/finalize", volume}},
		{"a pod", pod, "2 configmaps, 2 namespaces, 1 persistentvolumes, 1 pods",
			[]string{config, another, ns, other, pod, volume}, []string{ns, other, pod}},
		{"an instance", widget, "2 configmaps, 2 namespaces, 1 customresourcedefinitions.apiextensions.k8s.io, " +
			"1 persistentvolumes, 1 widgets.example.com", []string{crd, ns, widget, config, another, other, volume},
			[]string{widget}},
		{"a hook", hook, "1 validatingwebhookconfigurations.admissionregistration.k8s.io", []string{hook},
			[]string{hook, config, ns + "/finalize"}},
		{"a namespace", ns, "1 namespaces", []string{ns}, []string{config, ns + "/finalize"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := []string{ns, other, config, another, volume}
			if !slices.Contains(objects, c.held) {
				objects = append(objects, c.held)
			}
			if c.held == widget {
				objects = append(objects, crd)
			}
			f, e := newFakeCluster(t, objects...)
			f.held[c.held] = true
			f.held[crd] = true // it waits for its instances
			left, err := e.run(t.Context())
			if err != nil || describe(left) != c.left {
				t.Errorf("left %q, %v, want %q", describe(left), err, c.left)
			}
			slices.Sort(c.there)
			if there := slices.Sorted(slices.Values(f.objects)); !slices.Equal(there, c.there) {
				t.Errorf("there are %v, want %v", there, c.there)
			}
			for _, path := range c.asked {
				if !slices.Contains(f.paths, path) {
					t.Errorf("no request for %s in %v", path, f.paths)
				}
			}
		})
	}
}

func TestManyObjectsGoByNamespace(t *testing.T) {
	f, e := newFakeCluster(t, ns, other, another)
	for i := range few + 1 {
		f.objects = append(f.objects, ns+"/configmaps/c"+string(rune('a'+i)))
	}
	if left, err := e.run(t.Context()); err != nil || len(left) > 0 {
		t.Fatalf("left %s, %v", describe(left), err)
	}
	slices.Sort(f.paths)
	if want := []string{ns, ns + "/configmaps", ns + "/finalize", other, another,
		other + "/finalize"}; !slices.Equal(f.paths, want) {
		t.Errorf("requests %v, want %v", f.paths, want)
	}
}

// TestNamespacesWithObjectsElsewhere: the controller of the cluster knows how
// to ask other API servers.
func TestNamespacesWithObjectsElsewhere(t *testing.T) {
	for foreign, verbs := range map[string][]string{"other.com/v1": {"get", "delete"},
		"metrics.k8s.io/v1": {"get", "list"}, "silent.com/v1": nil} {
		f, e := newFakeCluster(t, ns)
		f.foreign = foreign
		if verbs != nil {
			f.verbs[foreign+" things"] = verbs
		}
		left, err := e.run(t.Context())
		if err != nil || len(left) > 0 == (foreign == "metrics.k8s.io/v1") {
			t.Errorf("%s: left %q, %v", foreign, describe(left), err)
		}
	}
}

func TestSpaceIsNotEmptyWhileThatIsNotKnown(t *testing.T) {
	f, e := newFakeCluster(t)
	f.broken = errors.New("no datastore")
	if left, err := e.run(t.Context()); err == nil {
		t.Errorf("the datastore does not answer: left %q, want an error", describe(left))
	}
	f.broken = nil
	f.objects = []string{ns, "/apis/gone.com/v1/things/x.t1.tenant", volume}
	if left, err := e.run(t.Context()); err == nil || slices.Contains(f.objects, volume) {
		t.Errorf("a resource that is not served: left %q, %v, want an error and no volume", describe(left), err)
	}
	for range patience {
		e.tries.When("t1")
	}
	if left, err := e.run(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("a resource that is not served for long: left %q, %v", describe(left), err)
	}
	f.refuse = "namespaces"
	f.objects = []string{ns, config}
	if left, err := e.run(t.Context()); err == nil || len(f.objects) != 2 {
		t.Errorf("a namespace that must not be deleted: left %q, %v", describe(left), err)
	}
}
