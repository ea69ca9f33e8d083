package failure

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
)

// TestWrite: an error has the headers that upstream's chain gives every answer.
func TestWrite(t *testing.T) {
	upstream := httptest.NewRecorder()
	genericapifilters.WithCacheControl(http.NotFoundHandler()).ServeHTTP(upstream,
		httptest.NewRequest(http.MethodGet, "/api", nil))
	for _, c := range []struct {
		err   error
		code  int
		again string
	}{
		{Again(503, metav1.StatusReasonServiceUnavailable, 5, "not now"), 503, "5"},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, "t"), 404, ""},
		{errors.New("anything"), 500, ""},
	} {
		w := httptest.NewRecorder()
		Write(w, c.err)
		var st metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil || st.Kind != "Status" || int(st.Code) != c.code {
			t.Errorf("%v: %s, %v", c.err, w.Body, err)
		}
		if w.Code != c.code || w.Header().Get("Retry-After") != c.again ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v: %d, %v", c.err, w.Code, w.Header())
		}
		const name = "Cache-Control"
		if got, want := w.Header().Get(name), upstream.Header().Get(name); got != want || want == "" {
			t.Errorf("%v: %s is %q, want %q", c.err, name, got, want)
		}
	}
}
