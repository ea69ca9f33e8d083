package shares

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// room is the allocation of a node as its partition keeps it.
type room struct {
	mu      sync.Mutex
	version int
	stored  allocations.NodeAllocation
}

// ServeHTTP implements http.Handler.
func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if req.Method == http.MethodPut {
		var got allocations.NodeAllocation
		if json.NewDecoder(req.Body).Decode(&got) != nil || got.ResourceVersion != r.stored.ResourceVersion {
			w.WriteHeader(http.StatusConflict)
			return
		}
		r.version++
		got.ResourceVersion = fmt.Sprint(r.version)
		r.stored = got
	}
	_ = json.NewEncoder(w).Encode(&r.stored)
}

func (r *room) cpu() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	share := r.stored.Of("tp1")
	return share.Requests.Cpu().MilliValue()
}

// TestKilledBetweenShareAndBinding: a scheduler writes the share and binds the pod then. It ends
// between the two, or after both. The accountant of the next one sets the share to what is bound.
func TestKilledBetweenShareAndBinding(t *testing.T) {
	for name, bound := range map[string]bool{"before the binding": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			r := &room{}
			r.stored.APIVersion, r.stored.Kind = "v1", "NodeAllocation"
			r.stored.Name, r.stored.ResourceVersion = "n", "0"
			api := httptest.NewServer(r)
			defer api.Close()
			process := func() *shares {
				r.mu.Lock()
				stored := r.stored.DeepCopy()
				r.mu.Unlock()
				s, _ := sharesAt(t, api.URL, stored)
				return s
			}
			first := process()
			pod := &podShare{node: "n", share: shareOf(boundPod("new", "n", 1000, corev1.PodPending))}
			first.put("new", pod)
			if err := first.commit(t.Context(), "n", pod); err != nil {
				t.Fatal(err)
			}
			if r.cpu() != 1000 {
				t.Fatalf("the share is %d m", r.cpu())
			}
			next, want := process(), int64(0)
			if bound {
				next.podChanged(boundPod("new", "n", 1000, corev1.PodPending))
				want = 1000
			}
			if err := next.commit(t.Context(), "n", nil); err != nil {
				t.Fatal(err)
			}
			if r.cpu() != want {
				t.Errorf("the share is %d m, want %d", r.cpu(), want)
			}
		})
	}
}
