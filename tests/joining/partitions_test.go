package joining

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
)

// know sets what the server knows of partitions; quietly tells nobody.
func (c *cluster) know(p *joinapi.Partitions, quietly bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = p
	if !quietly {
		close(c.news)
		c.news = make(chan struct{})
	}
}

// TestPartitionsAreTold: a node is told the partitions and every change, and is asked to wait
// for what is not complete.
func TestPartitionsAreTold(t *testing.T) {
	c := newCluster(t)
	joined := c.mustJoin(c.machine("n1"))
	home := joinapi.NodePartition{Name: "main", Home: true, Tenants: true, Servers: []string{"192.0.2.1:6443"},
		ServiceCIDR: "10.43.0.0/16", ClusterDNS: "10.43.0.10"}
	further := joinapi.NodePartition{Name: "tp2", Tenants: true, Servers: []string{"192.0.2.2:6443"}}
	c.know(&joinapi.Partitions{Self: "main", Partitions: []joinapi.NodePartition{home}}, true)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.server.URL+joinapi.PathPartitions, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.client(pki.Pair{Cert: joined.ClientCert, Key: joined.ClientKey}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	next := func() joinapi.Partitions {
		t.Helper()
		var line joinapi.Partitions
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		return line
	}
	want := joinapi.Partitions{Self: "main", Partitions: []joinapi.NodePartition{home}}
	if got := next(); !got.Equal(want) {
		t.Errorf("it began with %+v", got)
	}
	// That the list is complete now is no change of it.
	want.Complete = true
	c.know(&want, true)
	for got := next(); !got.Equal(want); got = next() {
		if got.Complete {
			t.Errorf("then came %+v", got)
		}
	}
	more := joinapi.Partitions{Self: "main", Complete: true, Partitions: []joinapi.NodePartition{home, further}}
	c.know(&more, false)
	if got := next(); !got.Equal(more) {
		t.Errorf("after a change came %+v", got)
	}
	// What is not known any more ends the stream.
	c.know(nil, false)
	var line joinapi.Partitions
	if err := lines.Decode(&line); err == nil {
		t.Errorf("then came %+v", line)
	}
}
