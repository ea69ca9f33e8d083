package tenantadmin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// What is deleted and held for longer loses its finalizers, each of which is said; nothing
// else is touched, and what cannot be listed does not keep the rest.
func TestDropper(t *testing.T) {
	reply := func(w http.ResponseWriter, v any) { answer(t, w, http.StatusOK, v) }
	object := func(name string, deleted time.Duration, finalizers ...string) metav1.PartialObjectMetadata {
		m := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata",
			APIVersion: "meta.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u",
			ResourceVersion: "7", Finalizers: finalizers}}
		if deleted > 0 {
			at := metav1.NewTime(time.Now().Add(-deleted))
			m.DeletionTimestamp = &at
		}
		return m
	}
	pages := map[string][]metav1.PartialObjectMetadata{
		"": {object("stuck\x1b", time.Minute, "example.com/a", "example.com/b"),
			object("new", time.Second, "example.com/a"), object("there", 0, "example.com/a"),
			object("free", time.Minute)},
		"next": {object("last", time.Minute, "example.com/c")},
	}
	const maps = "/tenants/t1/api/v1/namespaces/default/configmaps/"
	var patched []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/tenants/t1/api":
			reply(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		case r.URL.Path == "/tenants/t1/apis":
			reply(w, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
		case r.URL.Path == "/tenants/t1/api/v1":
			verbs := []string{"list", "patch"}
			reply(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
				GroupVersion: "v1", APIResources: []metav1.APIResource{
					{Name: "broken", Kind: "Broken", Namespaced: true, Verbs: verbs},
					{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: verbs},
					{Name: "reviews", Kind: "Review", Verbs: []string{"create"}}}})
		case r.Method == http.MethodGet && r.URL.Path == "/tenants/t1/api/v1/configmaps":
			from := r.URL.Query().Get("continue")
			list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList",
				APIVersion: "meta.k8s.io/v1"}, Items: pages[from]}
			if from == "" {
				list.Continue = "next"
			}
			reply(w, list)
		case r.Method == http.MethodPatch:
			var body struct {
				Metadata struct {
					UID, ResourceVersion string
					Finalizers           []string
				}
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Metadata.UID != "u" ||
				body.Metadata.ResourceVersion != "7" || len(body.Metadata.Finalizers) > 0 {
				t.Errorf("%s: %+v, %v", r.URL.Path, body, err)
			}
			patched = append(patched, strings.TrimPrefix(r.URL.Path, maps))
			reply(w, object("x", 0))
		default:
			http.Error(w, "no", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	admin, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	d := NewDropper(admin, "t1", func(s string) { said = append(said, s) })
	for range 2 { // the second comes too early
		if err := d.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(patched, []string{"stuck\x1b", "last"}) {
		t.Errorf("patched %q", patched)
	}
	if want := []string{
		`dropped finalizers of configmaps "default/stuck\x1b": "example.com/a", "example.com/b"`,
		`dropped finalizers of configmaps "default/last": "example.com/c"`,
	}; !slices.Equal(said, want) {
		t.Errorf("said %q", said)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := NewDropper(admin, "t1", nil).Drop(ended); err == nil {
		t.Error("no error of a context that ended")
	}
}

// TestWaitGoneWhileDropping: a tenant that goes between two looks at it is gone, although
// its resources are not found then.
func TestWaitGoneWhileDropping(t *testing.T) {
	looked := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !looked && strings.HasSuffix(r.URL.Path, "/tenants/t1") {
			looked = true
			answer(t, w, http.StatusOK, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1", UID: "u"}})
			return
		}
		gone := apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, "t1").Status()
		answer(t, w, http.StatusNotFound, &gone)
	}))
	defer server.Close()
	admin, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.WaitGone(t.Context(), "t1", "u", nil, NewDropper(admin, "t1", nil).Drop); err != nil || !looked {
		t.Errorf("looked: %v, %v", looked, err)
	}
}

func answer(t *testing.T, w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}
