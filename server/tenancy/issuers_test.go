package tenancy

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestClusterIssuers: which providers are the cluster's is said by its arguments, and by a file that changes.
func TestClusterIssuers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	write := func(text string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age) // two writes can have one time
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	c := newClusterIssuers([]string{"--service_account_issuer=https://accounts", "oidc-issuer-url=https://flag",
		"authentication-config=" + file}, "cluster.local")
	check := func(want map[string]bool) {
		t.Helper()
		for url, has := range want {
			if c.has(url) != has {
				t.Errorf("%s: %v", url, !has)
			}
		}
	}
	always := map[string]bool{"https://kubernetes.default.svc.cluster.local": true, "https://accounts": true,
		"https://flag": true, "https://one": false, "": false}
	check(always)
	write("jwt: [{issuer: {url: https://one}}]", 3*time.Hour)
	check(map[string]bool{"https://one": true, "https://two": false, "https://flag": true})
	write("jwt: [", 2*time.Hour)
	check(map[string]bool{"https://one": true})
	write("jwt: [{issuer: {url: https://two}}]", time.Hour)
	check(map[string]bool{"https://one": false, "https://two": true})
}
