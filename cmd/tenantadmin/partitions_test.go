package tenantadmin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// TestPartitionsAreListed as the server sees them, from one answer: no other one is asked for,
// which home would have to give.
func TestPartitionsAreListed(t *testing.T) {
	at, nodes := time.Date(2026, 11, 27, 22, 0, 0, 0, time.UTC), 3
	states := []joinapi.PartitionState{
		{Name: "main", Roles: []string{"tenant", "resource"}, State: joinapi.PartitionAway, Nodes: &nodes, Tenants: 2,
			ServiceCIDR: "10.43.0.0/16", ClusterCIDR: "10.42.0.0/16", Servers: []string{"s1 (10.0.0.1:6443)"},
			Silent: []string{"s1 (10.0.0.1:6443)"}, LastSeen: &at},
		{Name: "rp2", Roles: []string{"resource"}, State: joinapi.PartitionReady, LastSeen: &at,
			Servers: []string{"r1 (10.0.0.2:6443)"}},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != joinapi.PathPartitionStates {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(states)
	}))
	defer s.Close()
	a, err := New(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	list, err := a.Partitions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WritePartitions(&out, list); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"NAME ROLES STATE NODES TENANTS LAST SEEN",
		"main tenant,resource away 3 2 2026-11-27T22:00:00Z 10.43.0.0/16 10.42.0.0/16 s1 (10.0.0.1:6443) silent",
		"rp2 resource ready - 0 now"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q: %s", want, text)
		}
	}
}
