package cmd

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func TestSecretsEncryptFollowsTheServer(t *testing.T) {
	noConfig(t)
	asked := 0
	var action joinapi.EncryptionAction
	kubeconfig := filepath.Join(t.TempDir(), "admin.yaml")
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST " + joinapi.PathEncryptionStart:
			var req joinapi.EncryptionRequest
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				t.Error(err)
			}
			action = req.Action
			w.Write([]byte("{}")) //nolint:errcheck
		case "GET " + joinapi.PathEncryption:
			s := joinapi.EncryptionStatus{Stage: joinapi.EncryptionKeyPromoted, ActiveKey: "key2",
				Keys: []string{"key2", "key1"}, Stored: map[string]int{"key1": 3, "key2": 4}, Pending: 3,
				Servers: []joinapi.EncryptionServer{{Name: "one", Current: true}, {Name: "two"}, {Name: "three"}}}
			if action != "" {
				asked++
				s.Job = &joinapi.EncryptionJob{Action: action, Running: asked < 2, Step: "rewriting Secrets",
					Done: asked, Total: 7}
			}
			if asked >= 2 {
				s.Job.Error = "no space left"
			}
			json.NewEncoder(w).Encode(s) //nolint:errcheck
		default:
			t.Errorf("unexpected %s %s", r.Method, r.URL.Path)
		}
	}))
	t.Cleanup(srv.Close)
	writeKubeconfig(t, kubeconfig, srv.URL,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	_, out, _, err := run(t, "secrets-encrypt", "status", "--kubeconfig", kubeconfig)
	if err != nil || !strings.Contains(out, "key1          3") || !strings.Contains(out, "secrets-encrypt rotate") ||
		!strings.Contains(out, "not yet read by two, three\n") {
		t.Errorf("status: %v\n%s", err, out)
	}
	_, out, _, err = run(t, "secrets-encrypt", "rotate-keys", "--kubeconfig", kubeconfig)
	if action != joinapi.EncryptionRotate || err == nil || !strings.Contains(err.Error(), "no space left") ||
		!strings.Contains(out, "1 of 7") {
		t.Errorf("rotate: %q, %v\n%s", action, err, out)
	}
}
