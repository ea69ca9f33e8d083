package joining

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
)

// signed is a client with a certificate of the cluster that says this.
func (c *cluster) signed(name string, organizations ...string) *http.Client {
	c.t.Helper()
	ca, err := pki.LoadCA(c.files.ClientCA)
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	cert, err := ca.Sign(key.Public(), pki.Leaf{CommonName: name, Organization: organizations, Client: true})
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.t.TempDir()
	pair := pki.Pair{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	for path, data := range map[string][]byte{
		pair.Cert: cert, pair.Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return c.client(pair)
}

// What tenants use of a server names all of them, and is for administrators of the cluster
// alone: no user of a tenant reads it, whatever groups their certificate has.
func TestUseOfTenantsIsForAdministrators(t *testing.T) {
	c := newCluster(t)
	code, _, body := c.send(c.client(c.files.Admin), "GET", joinapi.PathTenantUse, "", "")
	if code != 200 || !strings.Contains(body, `"acme"`) || !strings.Contains(body, `"server":"local"`) {
		t.Errorf("an administrator: %d %s", code, body)
	}
	for who, client := range map[string]*http.Client{
		"a tenant's administrator":     c.signed("admin", "tenant:acme"),
		"with a group of the cluster":  c.signed("admin", "tenant:acme", pki.GroupMasters),
		"with the tenant in the name":  c.signed("tenant:acme", pki.GroupMasters),
		"in the old form":              c.signed("acme:admin", pki.GroupMasters),
		"a user of the system, no one": c.signed("somebody", "system:authenticated"),
	} {
		code, _, body := c.send(client, "GET", joinapi.PathTenantUse, "", "")
		if code != http.StatusForbidden || strings.Contains(body, "seatSeconds") {
			t.Errorf("%s: %d %s, want 403", who, code, body)
		}
	}
}
