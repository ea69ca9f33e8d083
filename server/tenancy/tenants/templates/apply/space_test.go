package apply

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/directory"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// fakeSpace is the API of one tenant, t, as far as templates need it, and what is known of the tenant.
type fakeSpace struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by path below the space
	tenant  *tenantapi.Tenant
	of      *tenantapi.TenantTemplate
	made    int
	// full has no room for another object.
	full bool
	// lists are the tokens that pages of dormant tenants were asked for with; pages is how many there are.
	lists []string
	pages int
	// refuse is the code of answers to requests whose path contains the key.
	refuse map[string]int
}

func (f *fakeSpace) Known(string) *tenantapi.Tenant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tenant
}

func (f *fakeSpace) Follow(context.Context, directory.Follower) (stop func(), known bool) {
	return func() {}, true
}

func (f *fakeSpace) Names() []string { return []string{"t"} }

func (f *fakeSpace) Template(string) *tenantapi.TenantTemplate { return f.of }

func (f *fakeSpace) TemplateNames() []string { return []string{f.of.Name} }

const configMaps = "/api/v1/namespaces/default/configmaps/"

// ofSystem and ofAccesses begin the paths of what is in the system space.
const ofSystem, ofAccesses = "/tenants/system", "/api/v1/tenantaccesses/"

func newFakeSpace(t *testing.T) (*fakeSpace, *controller) {
	t.Helper()
	f := &fakeSpace{objects: map[string]*unstructured.Unstructured{}, refuse: map[string]int{},
		of: &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold", UID: "g", Generation: 1}},
		tenant: &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t", UID: "t"},
			Spec: tenantapi.TenantSpec{Template: "gold"},
			Status: tenantapi.TenantStatus{Conditions: []metav1.Condition{
				{Type: tenantapi.SpaceReady, Status: metav1.ConditionTrue, Reason: tenantapi.ReasonMade}}}}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := newController(Options{Tenants: f, Log: logrus.NewEntry(logrus.New()),
		Config: &restclient.Config{Host: server.URL,
			ContentConfig: restclient.ContentConfig{ContentType: runtime.ContentTypeJSON}}})
	if err != nil {
		t.Fatal(err)
	}
	return f, c
}

// put has an object be there that somebody made.
func (f *fakeSpace) put(path, uid string, more map[string]any) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"theirs": "x"}}}
	o.SetName(path[strings.LastIndex(path, "/")+1:])
	o.SetUID(types.UID(uid))
	for key, value := range more {
		o.Object["metadata"].(map[string]any)[key] = value
	}
	f.objects[path] = o
}

func (f *fakeSpace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	code, answer := f.answer(r, body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if code >= http.StatusBadRequest {
		answer = map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
			"message": "refused", "reason": map[int]string{http.StatusNotFound: "NotFound",
				http.StatusForbidden: "Forbidden", http.StatusConflict: "Conflict",
				http.StatusUnprocessableEntity: "Invalid"}[code]}
	}
	_ = json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client fails then
}

func (f *fakeSpace) answer(r *http.Request, body []byte) (int, any) {
	for part, code := range f.refuse {
		if strings.Contains(r.URL.Path, part) {
			return code, nil
		}
	}
	path, in := strings.CutPrefix(r.URL.Path, "/tenants/t")
	if !in && !strings.HasPrefix(path, ofSystem) && !strings.HasPrefix(path+"/", ofAccesses) {
		if strings.HasSuffix(path, "/tenants") {
			return http.StatusOK, f.page(r.URL.Query().Get("continue"))
		}
		if strings.HasSuffix(path, "/status") {
			is := &tenantapi.Tenant{}
			if err := json.Unmarshal(body, is); err != nil {
				return http.StatusBadRequest, nil
			}
			f.tenant = is
		}
		return http.StatusOK, withKind(f.tenant)
	}
	if r.Method == http.MethodPost {
		return f.create(path, body, r.URL.Query().Has("dryRun"))
	}
	is, there := f.objects[path]
	switch {
	case r.Method == http.MethodPatch && strings.Contains(r.Header.Get("Content-Type"), "apply"):
		return f.apply(path, body, r.URL.Query().Has("dryRun"))
	case !there:
		return http.StatusNotFound, nil
	case r.Method == http.MethodPut:
		return f.replace(path, body)
	case r.Method == http.MethodPatch:
		is.SetOwnerReferences(nil)
		is.SetFinalizers(nil)
	case r.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		if err := json.Unmarshal(body, &options); err != nil {
			return http.StatusBadRequest, nil
		}
		if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != is.GetUID() {
			return http.StatusConflict, nil
		}
		if len(is.GetFinalizers()) == 0 {
			delete(f.objects, path)
		}
	}
	return http.StatusOK, is.Object
}

// page is one of dormant tenants, which are all t.
func (f *fakeSpace) page(from string) any {
	f.lists = append(f.lists, from)
	list := &tenantapi.TenantList{Items: []tenantapi.Tenant{*withKind(f.tenant)}}
	list.APIVersion, list.Kind = "v1", tenantapi.Kind+"List"
	if len(from)+1 < f.pages {
		list.Continue = from + "x"
	}
	return list
}

// create makes an object that is not there.
func (f *fakeSpace) create(path string, body []byte, dryRun bool) (int, any) {
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON(body); err != nil {
		return http.StatusBadRequest, nil
	}
	path = strings.TrimSuffix(path, "/") + "/" + made.GetName()
	if f.objects[path] != nil {
		return http.StatusConflict, nil
	}
	if !dryRun {
		f.made++
		made.SetUID(types.UID(strings.Repeat("m", f.made)))
		f.objects[path] = made
	}
	return http.StatusCreated, made.Object
}

// replace changes all of an object but whom an access is for.
func (f *fakeSpace) replace(path string, body []byte) (int, any) {
	next, is := &unstructured.Unstructured{}, f.objects[path]
	if err := next.UnmarshalJSON(body); err != nil {
		return http.StatusBadRequest, nil
	}
	if next.GetUID() != is.GetUID() {
		return http.StatusConflict, nil
	}
	if user(next) != user(is) {
		return http.StatusUnprocessableEntity, nil
	}
	f.objects[path] = next
	return http.StatusOK, next.Object
}

// apply keeps what an object has besides, and makes what is not there.
func (f *fakeSpace) apply(path string, body []byte, dryRun bool) (int, any) {
	wanted := &unstructured.Unstructured{}
	if err := wanted.UnmarshalJSON(body); err != nil {
		return http.StatusBadRequest, nil
	}
	is, there := f.objects[path]
	switch {
	case !there && wanted.GetUID() != "":
		return http.StatusConflict, nil
	case !there && dryRun && f.full:
		return http.StatusForbidden, nil
	case !there && dryRun:
		return http.StatusCreated, wanted.Object
	case there && is.Object["type"] != nil && is.Object["type"] != wanted.Object["type"]:
		return http.StatusUnprocessableEntity, nil
	case !there:
		f.made++
		wanted.SetUID(types.UID(strings.Repeat("m", f.made)))
		f.objects[path] = wanted
		return http.StatusCreated, wanted.Object
	case wanted.GetUID() != "" && wanted.GetUID() != is.GetUID():
		return http.StatusUnprocessableEntity, nil
	}
	for key, value := range wanted.Object {
		if key != "metadata" && key != "data" {
			is.Object[key] = value
		}
	}
	for key, value := range data(wanted) {
		data(is)[key] = value
	}
	return http.StatusOK, is.Object
}

func data(o *unstructured.Unstructured) map[string]any {
	of, _ := o.Object["data"].(map[string]any)
	return of
}

func withKind(t *tenantapi.Tenant) *tenantapi.Tenant {
	t = t.DeepCopy()
	t.APIVersion, t.Kind = "v1", tenantapi.Kind
	return t
}

// says has the template have objects.
func (f *fakeSpace) says(t *testing.T, objects ...string) []templates.Object {
	t.Helper()
	f.of.Spec.Objects = nil
	for _, o := range objects {
		f.of.Spec.Objects = append(f.of.Spec.Objects, runtime.RawExtension{Raw: []byte(o)})
	}
	out, err := templates.Render(f.of, f.tenant)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func configMap(name string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"default"},` +
		`"data":{"ours":"x"}}`
}
