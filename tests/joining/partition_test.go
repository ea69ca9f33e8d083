package joining

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/nodeapi"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/partition/nodeidentity"
)

// TestNodesAreNotKnownYet: a server that has just started refuses nobody whom it cannot judge;
// they are to come again.
func TestNodesAreNotKnownYet(t *testing.T) {
	guard := nodeidentity.New(nodeidentity.Options{Self: "rp2", Several: func() bool { return true }})
	c := newClusterWith(t, func(o *nodeapi.Options) { o.Partition, o.Nodes = "rp2", guard })
	client := c.client(nodeCertificate(t, c, "own", "rp2"))
	for _, path := range []string{joinapi.PathLocalVolumes, joinapi.PathConfig} {
		code, header, body := c.send(client, "GET", path, "", "")
		if code != 503 || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", path, code, header, body)
		}
	}
}

// TestNodesOfOtherPartitions: all partitions share the CA of clients, so a server tells
// nodes by the partition that their certificate names, and names itself in those it signs.
func TestNodesOfOtherPartitions(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "copy",
			Labels: map[string]string{nodecopies.Label: "rp1"}}}), 0)
	guard := nodeidentity.New(nodeidentity.Options{Self: "rp2", Several: func() bool { return true }})
	if err := guard.Follow(f.Core().V1().Nodes()); err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	c := newClusterWith(t, func(o *nodeapi.Options) { o.Partition, o.Nodes = "rp2", guard })

	join := func(name string) string {
		return nodeRequest(t, func(r *joinapi.NodeRequest) { r.NodeName = name })
	}
	for _, name := range []string{"own", "new"} {
		code, _, body := c.send(c.client(pki.Pair{}), "POST", joinapi.PathNode, c.tokens.Agent().Authorization(),
			join(name))
		var resp joinapi.NodeResponse
		if err := json.Unmarshal([]byte(body), &resp); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", name, code, body)
		}
		certs, err := pki.ParseCerts(resp.ClientCert)
		if err != nil {
			t.Fatal(err)
		}
		if got := certs[0].Subject.Organization; !slices.Contains(got, "system:nodes") ||
			!slices.Contains(got, "system:a4s:nodes-of:rp2") {
			t.Errorf("%s: the groups are %q", name, got)
		}
	}
	code, _, body := c.send(c.client(pki.Pair{}), "POST", joinapi.PathNode, c.tokens.Agent().Authorization(),
		join("copy"))
	if s := wantStatus(t, body, 403); code != 403 || s.Reason != joinapi.ReasonNodeNameTaken {
		t.Errorf("a name that another partition has: %d %s", code, body)
	}
	for _, tc := range []struct {
		node, of     string
		join, stream int
	}{
		{"own", "rp2", 200, 503}, // the stream has nothing yet
		{"own", "rp1", 403, 403},
		{"own", "", 403, 403},
		{"copy", "rp1", 403, 503},
		{"copy", "rp2", 403, 403},
		{"unknown", "rp2", 200, 503},
		{"unknown", "rp1", 403, 403},
	} {
		client := c.client(nodeCertificate(t, c, tc.node, tc.of))
		if code, _, body := c.send(client, "POST", joinapi.PathNode, "", join(tc.node)); code != tc.join {
			t.Errorf("node %s of %q joins: %d %s, want %d", tc.node, tc.of, code, body, tc.join)
		}
		if code, _, body := c.send(client, "GET", joinapi.PathLocalVolumes, "", ""); code != tc.stream {
			t.Errorf("node %s of %q asks for a stream: %d %s, want %d", tc.node, tc.of, code, body, tc.stream)
		}
	}
}

// nodeCertificate is what a server of a partition signs.
func nodeCertificate(t *testing.T, c *cluster, node, partition string) pki.Pair {
	t.Helper()
	ca, err := pki.LoadCA(c.files.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.SignNodeClient(key.Public(), node, partition, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pair := pki.Pair{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	for file, data := range map[string][]byte{pair.Cert: cert, pair.Key: keyPEM} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pair
}
