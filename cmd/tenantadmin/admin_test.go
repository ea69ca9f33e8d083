package tenantadmin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestReadyTakesPods: a tenant is not ready before its namespace has the service account that
// a pod needs, which is made after the namespace; and what is missing is said.
func TestReadyTakesPods(t *testing.T) {
	const missing = 2
	var asked atomic.Int32
	var never atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = &tenantapi.Tenant{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Tenant"},
			ObjectMeta: metav1.ObjectMeta{Name: "team-a"},
			Status: tenantapi.TenantStatus{Phase: tenantapi.Active, Conditions: []metav1.Condition{
				{Type: tenantapi.SpaceReady, Status: metav1.ConditionTrue}}}}
		if strings.HasSuffix(req.URL.Path, "/namespaces/default/serviceaccounts/default") {
			n := asked.Add(1)
			answer = &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}}
			if n <= missing || never.Load() {
				status := apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "default").Status()
				status.TypeMeta, answer = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, status
				w.WriteHeader(http.StatusNotFound)
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer s.Close()
	admin, err := New(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.WaitReady(t.Context(), "team-a"); err != nil || asked.Load() != missing+1 {
		t.Errorf("ready after %d questions: %v", asked.Load(), err)
	}
	never.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = admin.WaitReady(ctx, "team-a")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "service account default") {
		t.Errorf("it is never ready: %v", err)
	}
}
