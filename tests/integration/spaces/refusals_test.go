package spaces_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestRefusalsAreAudited: what the edge refuses before the API server's own
// chain sees it is in the audit log as everything else, once.
func TestRefusalsAreAudited(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	p := start(t, func(c *config.Server) { c.AuditLogPath = log })
	a := p.tenant(t, "a")
	ghost := p.as(t, "ghost", p.user(t, "casper", []string{"tenant:ghost"}, nil))
	busy := p.tenant(t, "busy")
	busy.occupy(t, p)
	for _, c := range []struct {
		what         string
		cfg          *rest.Config
		method, path string
		body         string
		code         int
		user, tenant string
		verb         string
		resource     string
		inNamespace  string
	}{
		{"a user of a tenant that does not exist", ghost.config, http.MethodGet,
			"/api/v1/namespaces/default/configmaps/refused1", "",
			http.StatusNotFound, "casper", "ghost", "get", "configmaps", "default.ghost"},
		{"an administrator in a tenant that does not exist", p.Admin, http.MethodGet,
			"/api/v1/tenants/nobody/namespaces/default/configmaps/refused2", "",
			http.StatusNotFound, "system:admin", "nobody", "get", "configmaps", "default.nobody"},
		{"an object whose tenant is no name", p.Admin, http.MethodPost,
			"/api/v1/tenants/a/namespaces/default/configmaps?fieldManager=refused3",
			`{"metadata":{"name":"x","tenant":1}}`,
			http.StatusBadRequest, "system:admin", "a", "create", "configmaps", "default.a"},
		{"a default role", a.config, http.MethodDelete,
			"/apis/rbac.authorization.k8s.io/v1/clusterroles/view?fieldManager=refused4", "",
			http.StatusForbidden, "admin", "a", "delete", "clusterroles", ""},
		{"what tenants do not have", a.config, http.MethodGet, "/apis/refused5.example.com/v1/things/x", "",
			http.StatusNotFound, "admin", "a", "get", "things", ""},
		{"too many at once", busy.config, http.MethodGet, "/api/v1/persistentvolumes/refused6", "",
			http.StatusTooManyRequests, "admin", "busy", "get", "persistentvolumes", ""},
		{"all tenants at once, changed", p.Admin, http.MethodDelete,
			"/tenants/all/api/v1/pods?fieldManager=refused7", "",
			http.StatusBadRequest, "system:admin", "all", "deletecollection", "pods", ""},
	} {
		code, text := do(t, c.cfg, c.method, c.path, c.body, nil)
		if code != c.code {
			t.Errorf("%s: %d %s", c.what, code, text)
		}
		mark := c.path[strings.Index(c.path, "refused"):][:len("refused1")]
		eventually(t, "the audit event of "+c.what, func(context.Context) (bool, error) {
			events, err := findEvents(log, mark)
			if err != nil || len(events) == 0 {
				return false, err
			}
			e := events[0]
			if len(events) != 1 || int(e.ResponseStatus.Code) != c.code ||
				e.User.Username != c.user || e.Verb != c.verb ||
				e.ObjectRef.Resource != c.resource || e.ObjectRef.Namespace != c.inNamespace ||
				e.Annotations["a4s.io/tenant"] != c.tenant {
				t.Errorf("%s: audited as %+v", c.what, events)
			}
			return true, nil
		})
	}
}

// occupy uses up what the tenant may ask at a time, until the test ends: the
// body of the one request never ends.
func (s *space) occupy(t *testing.T, p *plane) {
	t.Helper()
	p.limit(t, s.name, `{"requestsInFlight":1}`)
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	body, hold := io.Pipe()
	t.Cleanup(func() { hold.Close() }) //nolint:errcheck // it is not used any more
	go func() {
		req, err := http.NewRequest(http.MethodPost, s.config.Host+"/api/v1/namespaces/default/configmaps", body)
		if err != nil {
			return // the next wait says it
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close() //nolint:errcheck // nothing is in it
		}
	}()
	if _, err := io.WriteString(hold, "{"); err != nil { // returns when it is being sent
		t.Fatal(err)
	}
	eventually(t, "the request to be in flight", func(context.Context) (bool, error) {
		return p.metric(t, `a4s_tenant_requests_in_flight{tenant="`+s.name+`"}`) == "1", nil
	})
	eventually(t, "the limit to be known", func(context.Context) (bool, error) {
		code, _ := get(t, s.config, "/api/v1/namespaces/default/pods")
		return code == http.StatusTooManyRequests, nil
	})
}

// recorded is what the test reads of an audit event.
type recorded struct {
	Verb           string
	User           authenticationv1.UserInfo
	ObjectRef      struct{ Resource, Namespace string }
	ResponseStatus struct{ Code int32 }
	Annotations    map[string]string
}

// findEvents are the audit events about what has mark in it.
func findEvents(log, mark string) ([]recorded, error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var found []recorded
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), mark) {
			continue
		}
		var e recorded
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, nil // the line is being written
		}
		found = append(found, e)
	}
	return found, lines.Err()
}
