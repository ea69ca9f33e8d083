package shares

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// TestUnansweredWrite: the accountant lowers the share, and is not answered. A pod that takes
// just what went away needs a write all the same, or others get its room.
func TestUnansweredWrite(t *testing.T) {
	const before, after = "5", "6"
	stored := &allocations.NodeAllocation{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeAllocation"},
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: before}}
	share := shareOf(boundPod("old", "n", 1000, corev1.PodRunning))
	share.Partition = "tp1"
	stored.Set(share)
	written := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var out any = stored
		if req.Method == http.MethodPut {
			var got allocations.NodeAllocation
			if err := json.NewDecoder(req.Body).Decode(&got); err != nil {
				t.Error(err)
			}
			written++
			switch {
			case written == 1: // it is done
				got.ResourceVersion = after
				stored = &got
				panic(http.ErrAbortHandler)
			case got.ResourceVersion != stored.ResourceVersion:
				refusal := apierrors.NewConflict(schema.GroupResource{Resource: "nodeallocations"}, "n", nil)
				w.WriteHeader(http.StatusConflict)
				out = refusal.ErrStatus
			default:
				got.ResourceVersion = "7"
				stored = &got
				out = stored
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	// The watch is late: it shows what was there before all of this.
	s, p := sharesAt(t, api.URL, stored)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.commit(ctx, "n", nil); err == nil {
		t.Fatal("the accountant was answered")
	}
	next := &podShare{node: "n", share: shareOf(boundPod("new", "n", 1000, corev1.PodPending))}
	s.put("new", next)
	if err := s.commit(ctx, "n", next); err != nil {
		t.Fatal(err)
	}
	share = stored.Of("tp1")
	if got := share.Requests.Cpu().MilliValue(); got != 1000 || !next.counted {
		t.Errorf("the share is %d m, after %d writes", got, written)
	}
	if p.isUnsure("n") {
		t.Error("what is there is not known")
	}
}
