package access

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestNamespaceMadeAgain: an access in the space of a tenant gives nothing in a namespace that is another one than
// when rights in it were looked at.
func TestNamespaceMadeAgain(t *testing.T) {
	writes := 0
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		writes++ // of the status, which is stored as it comes
		out.Header().Set("Content-Type", in.Header.Get("Content-Type"))
		if _, err := io.Copy(out, in.Body); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	accesses, err := tenantapi.NewAccessClient(&restclient.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := newAccess()
	a.Name, a.Generation, a.Spec.Namespace = "ci.team-a.tenant", 3, "apps"
	a.Spec.User, a.Spec.ServiceAccount = "", &tenantapi.AccessAccount{Namespace: "ci", Name: "deployer"}
	w := &work{controller: &controller{accesses: accesses}, inside: a.Name, isOwn: true}
	w.read(a)
	is := func(name, uid string) tenantapi.AccessNamespace {
		return tenantapi.AccessNamespace{Name: name, UID: types.UID(uid), Generation: w.a.Generation}
	}
	for _, step := range []struct {
		name       string
		uids       [3]string // of apps, argocd and ci, "" for none
		generation int64
		known      [3]string
		replaced   bool
		writes     int
	}{
		{"at first", [3]string{"1", "2", ""}, 3, [3]string{"1", "2", ""}, false, 1},
		{"nothing happens", [3]string{"1", "2", ""}, 3, [3]string{"1", "2", ""}, false, 0},
		{"the first one of its name", [3]string{"1", "2", "3"}, 3, [3]string{"1", "2", "3"}, false, 1},
		{"one is gone", [3]string{"", "2", "3"}, 3, [3]string{"1", "2", "3"}, false, 0},
		{"and made again", [3]string{"4", "2", "3"}, 3, [3]string{"1", "2", "3"}, true, 0},
		{"still", [3]string{"4", "2", "3"}, 3, [3]string{"1", "2", "3"}, true, 0},
		{"that of the account, too", [3]string{"4", "2", "5"}, 3, [3]string{"1", "2", "3"}, true, 0},
		{"the access is changed", [3]string{"4", "2", "5"}, 4, [3]string{"4", "2", "5"}, false, 1},
		{"that of the Secret", [3]string{"4", "6", "5"}, 4, [3]string{"4", "2", "5"}, true, 0},
	} {
		var objects []runtime.Object
		var want []tenantapi.AccessNamespace
		w.a.Generation, writes = step.generation, 0
		for i, name := range []string{"apps", "argocd", "ci"} {
			if uid := step.uids[i]; uid != "" {
				objects = append(objects, &corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}})
			}
			if uid := step.known[i]; uid != "" {
				want = append(want, is(name, uid))
			}
		}
		w.home = fake.NewClientset(objects...)
		err := w.sameNamespaces(t.Context())
		var why *failure
		if replaced := errors.As(err, &why) && why.reason == tenantapi.ReasonNamespace; replaced != step.replaced ||
			err != nil && !replaced || writes != step.writes || !slices.Equal(w.a.Status.Namespaces, want) {
			t.Errorf("%s: %v; %d writes; %+v", step.name, err, writes, w.a.Status.Namespaces)
		}
	}
	ofSystem := &work{a: newAccess()}
	if err := ofSystem.sameNamespaces(t.Context()); err != nil ||
		!apiequality.Semantic.DeepEqual(ofSystem.a, newAccess()) {
		t.Errorf("one of the system space: %+v, %v", ofSystem.a, err)
	}
}
