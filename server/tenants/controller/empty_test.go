package controller

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// fakeSpace is the view of one tenant: it serves discovery, lists and
// deletions below its prefix and knows nothing else.
type fakeSpace struct {
	t      *testing.T
	prefix string

	mu       sync.Mutex
	paths    []string            // "api/v1/pods", in the order of discovery
	objects  map[string][]object // by path
	deletes  []string            // paths, in the order of requests
	broken   string              // a group version whose discovery fails
	holdBack string              // path whose objects are only marked
}

type object struct{ namespace, name string }

func newFakeSpace(t *testing.T) (*fakeSpace, *view) {
	f := &fakeSpace{t: t, prefix: "/tenants/t1/", objects: map[string][]object{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	c, err := newController(Options{Config: &rest.Config{Host: server.URL}, Log: logrus.NewEntry(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.queue.ShutDown)
	v, err := c.viewOf("t1")
	if err != nil {
		t.Fatal(err)
	}
	return f, v
}

// add makes a resource known and its objects exist.
func (f *fakeSpace) add(path string, objects ...object) {
	f.paths = append(f.paths, path)
	f.objects[path] = objects
}

func (f *fakeSpace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, f.prefix)
	if !ok {
		f.t.Errorf("a request for %s, outside of the view", r.URL.Path)
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodDelete {
		f.delete(w, path)
		return
	}
	if _, ok := f.objects[path]; ok {
		f.list(w, r, path)
		return
	}
	f.discover(w, path)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func split(path string) (gv, resource string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

func (f *fakeSpace) discover(w http.ResponseWriter, path string) {
	switch path {
	case "api":
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return
	case "apis":
		groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, p := range f.paths {
			gv, _ := split(p)
			gv, named := strings.CutPrefix(gv, "apis/")
			group, version := split(gv)
			if named && !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group }) {
				v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
				groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		answer(w, groups)
		return
	}
	if path == f.broken {
		http.Error(w, "no endpoints", http.StatusServiceUnavailable)
		return
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/")}
	for _, p := range f.paths {
		gv, name := split(p)
		if gv != path {
			continue
		}
		r := metav1.APIResource{Name: name, Kind: name, Verbs: []string{"get", "list", "delete"}, Namespaced: name == "configmaps"}
		if name != "namespaces" {
			r.Verbs = append(r.Verbs, "deletecollection")
		}
		list.APIResources = append(list.APIResources, r)
	}
	list.APIResources = append(list.APIResources, metav1.APIResource{Name: "things/status", Kind: "things", Verbs: []string{"list", "delete"}})
	answer(w, list)
}

func (f *fakeSpace) list(w http.ResponseWriter, r *http.Request, path string) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		f.t.Errorf("a list of %s without a limit", path)
	}
	from, _ := strconv.Atoi(q.Get("continue"))
	objects := f.objects[path][from:]
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
	if len(objects) > limit {
		rest := int64(len(objects) - limit)
		list.Continue, list.RemainingItemCount = strconv.Itoa(from+limit), &rest
		objects = objects[:limit]
	}
	for _, o := range objects {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}})
	}
	answer(w, list)
}

func (f *fakeSpace) delete(w http.ResponseWriter, path string) {
	f.deletes = append(f.deletes, path)
	collection, name := path, ""
	if _, ok := f.objects[path]; !ok {
		collection, name = split(path)
		if before, after, ok := strings.Cut(collection, "/namespaces/"); ok {
			_, resource := split(after)
			collection = before + "/" + resource
		}
	}
	if collection != f.holdBack {
		// A page that is being read must not shift.
		f.objects[collection] = slices.DeleteFunc(slices.Clone(f.objects[collection]), func(o object) bool { return name == "" || o.name == name })
	}
	answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// step empties the space one step further and says what was there and what was
// asked to go.
func step(t *testing.T, f *fakeSpace, v *view) (left, deletes string) {
	t.Helper()
	f.deletes = nil
	remain, err := v.empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(f.deletes)
	return describe(remain), strings.Join(f.deletes, " ")
}

func TestSpaceIsEmptiedInOrder(t *testing.T) {
	f, v := newFakeSpace(t)
	f.add("api/v1/namespaces", object{name: "default"}, object{name: "n"})
	f.add("api/v1/configmaps", object{"lost", "a"}, object{"lost", "b"})
	f.add("api/v1/persistentvolumes", object{name: "pv1"}, object{name: "pv2"}, object{name: "pv3"})
	f.add("api/v1/nodes", object{name: "node1"}) // the cluster's
	f.add("apis/storage.k8s.io/v1/storageclasses", object{name: "shared"})
	f.add("apis/example.com/v1/widgets", object{name: "custom"})
	f.add("apis/rbac.authorization.k8s.io/v1/clusterroles")

	f.holdBack = "api/v1/namespaces"
	for range 2 {
		// While there are namespaces nothing else goes.
		left, deletes := step(t, f, v)
		if left != "2 namespaces" || deletes != "api/v1/namespaces/default api/v1/namespaces/n" {
			t.Fatalf("with namespaces: left %q, deleted %q", left, deletes)
		}
	}
	f.holdBack = "api/v1/persistentvolumes"
	step(t, f, v)
	left, deletes := step(t, f, v)
	if left != "3 persistentvolumes, 2 configmaps, 1 widgets.example.com" ||
		deletes != "api/v1/namespaces/lost/configmaps/a api/v1/namespaces/lost/configmaps/b api/v1/persistentvolumes apis/example.com/v1/widgets" {
		t.Fatalf("without namespaces: left %q, deleted %q", left, deletes)
	}
	if left, _ := step(t, f, v); left != "3 persistentvolumes" {
		t.Fatalf("with held volumes: left %q", left)
	}
	f.holdBack = ""
	step(t, f, v)
	if left, deletes := step(t, f, v); left != "" || deletes != "" {
		t.Errorf("an empty space: left %q, deleted %q", left, deletes)
	}
	if len(f.objects["api/v1/nodes"]) != 1 || len(f.objects["apis/storage.k8s.io/v1/storageclasses"]) != 1 {
		t.Error("objects of the system space were deleted")
	}
}

func TestDefinitionsGoAfterTheirInstances(t *testing.T) {
	f, v := newFakeSpace(t)
	v.kinds = &kinds.Table{} // takes every resource for one of tenants
	f.add("api/v1/namespaces")
	f.add("apis/apiextensions.k8s.io/v1/customresourcedefinitions", object{name: "widgets.example.com"})
	f.add("apis/example.com/v1/widgets", object{name: "w"})
	for _, want := range []string{"apis/example.com/v1/widgets", "apis/apiextensions.k8s.io/v1/customresourcedefinitions", ""} {
		if _, deletes := step(t, f, v); deletes != want {
			t.Errorf("deleted %q, want %q", deletes, want)
		}
	}
}

func TestManyNamespacesAreAllDeleted(t *testing.T) {
	f, v := newFakeSpace(t)
	var many []object
	for i := range 2*pageSize + 1 {
		many = append(many, object{name: "n" + strconv.Itoa(i)})
	}
	f.add("api/v1/namespaces", many...)
	f.holdBack = "api/v1/namespaces"
	if left, deletes := step(t, f, v); left != "1001 namespaces" || strings.Count(deletes, "api/v1/namespaces/") != len(many) {
		t.Errorf("left %q, deleted %d", left, strings.Count(deletes, "api/v1/namespaces/"))
	}
}

func TestSpaceIsNotEmptyWhileAGroupIsUnknown(t *testing.T) {
	f, v := newFakeSpace(t)
	f.add("api/v1/namespaces")
	f.add("apis/example.com/v1/widgets", object{name: "hidden"})
	f.broken = "apis/example.com/v1"
	if left, err := v.empty(t.Context()); err == nil {
		t.Errorf("the space has %q left, want an error", describe(left))
	}
}

func TestAnUnknownViewIsNotAnEmptyOne(t *testing.T) {
	f, v := newFakeSpace(t)
	if left, err := v.empty(t.Context()); err == nil {
		t.Errorf("nothing is served: the space has %q left, want an error", describe(left))
	}
	f.add("api/v1/configmaps")
	if left, err := v.empty(t.Context()); err == nil {
		t.Errorf("namespaces are not served: the space has %q left, want an error", describe(left))
	}
}
