package nodewrites

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/server/nodeapi/bootstrap"
	"github.com/a4s-io/a4s/server/partition/proxy"
)

// TestWhatIsSentOn: changes of copies by users, and nothing else.
func TestWhatIsSentOn(t *testing.T) {
	const importer = "system:a4s:partition:tp2"
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	importing, attaching := &user.DefaultInfo{Name: importer, Groups: []string{"system:a4s:partitions"}},
		&user.DefaultInfo{Name: attacher}
	account := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:x",
		Groups: []string{"system:serviceaccounts"}}
	for what, c := range map[string]struct {
		method, path string
		who          *user.DefaultInfo
		headers      http.Header
		sent         string // to whom, and as whom; "" for here, "-" for a refusal
	}{
		"patch of a copy":            {"PATCH", "/api/v1/nodes/copy", admin, nil, "rp1 admin"},
		"patch of its status":        {"PATCH", "/api/v1/nodes/copy/status", admin, nil, "rp1 admin"},
		"deletion of a copy":         {"DELETE", "/api/v1/nodes/copy", admin, nil, "rp1 admin"},
		"replacement of a copy":      {"PUT", "/api/v1/nodes/copy", admin, nil, "-"},
		"patch of an own node":       {"PATCH", "/api/v1/nodes/own", admin, nil, ""},
		"replacement of an own node": {"PUT", "/api/v1/nodes/own", admin, nil, ""},
		"reading a copy":             {"GET", "/api/v1/nodes/copy", admin, nil, ""},
		"the kubelet of a copy":      {"POST", "/api/v1/nodes/copy/proxy/x", admin, nil, ""},
		"deletion of all":            {"DELETE", "/api/v1/nodes", admin, nil, ""},
		"another kind":               {"PATCH", "/api/v1/namespaces/copy", admin, nil, ""},
		"another group":              {"PATCH", "/apis/metrics.k8s.io/v1beta1/nodes/copy", admin, nil, ""},
		"patch by a service account": {"PATCH", "/api/v1/nodes/copy", account, nil, "rp1 " + importer},
		"the importer":               {"PUT", "/api/v1/nodes/copy", importing, nil, ""},
		"who impersonates it":        {"PATCH", "/api/v1/nodes/copy", importing, impersonates, "rp1 " + importer},
		"volumes that are attached":  {"PATCH", "/api/v1/nodes/copy/status", attaching, nil, ""},
		"more by who attaches":       {"PATCH", "/api/v1/nodes/copy", attaching, nil, "rp1 " + importer},
		"who impersonates who does so": {"PATCH", "/api/v1/nodes/copy/status", attaching, impersonates,
			"rp1 " + importer},
	} {
		t.Run(what, func(t *testing.T) {
			sent := ""
			h := Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Options{
				Self: "tp2", Importer: importer,
				Elsewhere: func(_ context.Context, node string) string {
					return map[string]string{"copy": "rp1"}[node]
				},
				Forward: func(_ http.ResponseWriter, _ *http.Request, to proxy.Target) {
					sent = to.Partition + " " + to.User.GetName()
					if strings.HasPrefix(to.User.GetName(), "system:a4s") &&
						!slices.Contains(to.User.GetGroups(), "system:a4s:partitions") {
						t.Errorf("sent with the groups %q", to.User.GetGroups())
					}
				},
			})
			req := httptest.NewRequest(c.method, c.path, nil)
			for name, values := range c.headers {
				req.Header[name] = values
			}
			info, err := (&request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
				GrouplessAPIPrefixes: sets.NewString("api")}).NewRequestInfo(req)
			if err != nil {
				t.Fatal(err)
			}
			ctx := request.WithUser(request.WithRequestInfo(req.Context(), info), c.who)
			w := httptest.NewRecorder()
			bootstrap.Mark(h).ServeHTTP(w, req.WithContext(ctx))
			if c.sent == "-" {
				if w.Code != http.StatusMethodNotAllowed || !strings.Contains(w.Body.String(), "/partitions/rp1") {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				sent = "-"
			}
			if sent != c.sent {
				t.Errorf("sent to %q, want %q", sent, c.sent)
			}
		})
	}
}

var impersonates = http.Header{"Impersonate-User": {"x"}}
