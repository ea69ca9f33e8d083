package shares

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

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
			client, err := allocations.NewClient(&rest.Config{Host: api.URL,
				ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("110")}}}
			process := func() *shares {
				f := informers.NewSharedInformerFactory(fake.NewClientset(node), 0)
				s := newShares()
				s.nodes = f.Core().V1().Nodes().Lister()
				f.Start(t.Context().Done())
				f.WaitForCacheSync(t.Context().Done())
				s.o.Local, s.o.Stats, s.o.Log = "rp", &Stats{}, logrus.NewEntry(logrus.StandardLogger())
				p := newPartition(t.Context(), s, ResourcePartition{Name: "rp", Client: client})
				t.Cleanup(p.queue.ShutDown)
				s.partitions["rp"] = p
				r.mu.Lock()
				defer r.mu.Unlock()
				if err := p.store.Add(r.stored.DeepCopy()); err != nil {
					t.Fatal(err)
				}
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
