package serving

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// A watch ends with 410 when another CRD serves its tenant, and no other
// watch does.
func TestWatchesEndWhenAnotherDefinitionServes(t *testing.T) {
	foos := schema.GroupResource{Group: "example.com", Resource: "foos"}
	var uid atomic.Value
	uid.Store("one")
	w := watches{serving: func(tenant string, _ schema.GroupResource) (crd.Source,
		*apiextensionsv1.CustomResourceDefinition) {
		of := &apiextensionsv1.CustomResourceDefinition{}
		if of.UID = "always"; tenant == "a" {
			of.UID = types.UID(uid.Load().(string)) //nolint:errcheck // nothing else is in it
		}
		return crd.Local, of
	}}
	begin := func(tenant, media string) (answer *httptest.ResponseRecorder, ended chan struct{}) {
		answer, ended = httptest.NewRecorder(), make(chan struct{})
		begun := make(chan struct{})
		go func() {
			defer close(ended)
			w.serve(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), tenant, foos,
				func(rw http.ResponseWriter, req *http.Request) {
					if media != "" {
						rw.Header().Set("Content-Type", media)
						rw.WriteHeader(http.StatusOK)
					}
					close(begun)
					<-req.Context().Done()
				})
		}()
		<-begun
		return answer, ended
	}
	inJSON, first := begin("a", "application/json")
	inProto, second := begin("a", "application/vnd.kubernetes.protobuf;stream=watch")
	unbegun, third := begin("a", "")
	_, other := begin("b", "application/json")
	w.changed("a", foos)
	select {
	case <-first:
		t.Fatal("it ended although nothing had changed")
	default:
	}
	uid.Store("two")
	w.changed("", foos)
	<-first
	<-second
	<-third
	var event struct {
		Type   string
		Object metav1.Status
	}
	if err := json.Unmarshal(inJSON.Body.Bytes(), &event); err != nil || event.Type != "ERROR" ||
		event.Object.Code != http.StatusGone || event.Object.Reason != metav1.StatusReasonExpired {
		t.Errorf("JSON: %v, %s", err, inJSON.Body)
	}
	if body := inProto.Body.String(); len(body) < 4 || int(body[3]) != len(body)-4 ||
		!strings.Contains(body, "k8s\x00") || !strings.Contains(body, "Expired") {
		t.Errorf("protobuf: %q", inProto.Body)
	}
	if unbegun.Body.Len() > 0 {
		t.Errorf("before the answer: %q", unbegun.Body)
	}
	select {
	case <-other:
		t.Error("another tenant's watch ended")
	default:
	}
	if len(w.running) != 1 {
		t.Errorf("remembered: %v", w.running)
	}
}

// TestWatchesOfWhatEndedFirst: a watch ends with 410 also when the storage of the CRD that
// serves no more ends before it is cut, and one that ends by itself does not.
func TestWatchesOfWhatEndedFirst(t *testing.T) {
	for _, goes := range []bool{true, false} {
		source := crd.Local
		w := watches{serving: func(string, schema.GroupResource) (crd.Source,
			*apiextensionsv1.CustomResourceDefinition) {
			return source, &apiextensionsv1.CustomResourceDefinition{}
		}}
		answer := httptest.NewRecorder()
		w.serve(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "a", foos,
			func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusOK)
				if goes {
					source = crd.System // whoever is told of it cuts later
				}
			})
		if expired := strings.Contains(answer.Body.String(), string(metav1.StatusReasonExpired)); expired != goes {
			t.Errorf("another CRD serves: %t, the watch ended with %q", goes, answer.Body)
		}
	}
}
