package spaces_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// kubeconfig is what `a4s tenant kubeconfig` writes for the user admin.
func (p *plane) kubeconfig(t *testing.T, tenant string, groups ...string) *rest.Config {
	t.Helper()
	admin, err := tenantadmin.New(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	who := tenantadmin.Identity{Tenant: tenant, User: tenantadmin.AdminUser, Groups: groups}
	var creds *tenantadmin.Credentials
	eventually(t, "a certificate", func(ctx context.Context) (bool, error) {
		creds, err = admin.Issue(ctx, who, time.Hour)
		return err == nil, nil
	})
	data, err := admin.Kubeconfig(who, creds, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.CAFile = -1, p.Files.ServerCA.Cert
	return cfg
}

// again deletes a tenant, and makes another one under its name.
func (p *plane) again(t *testing.T, name string) {
	t.Helper()
	p.end(t, name)
	planes.CreateTenant(t, p.Admin, name)
}

func (p *plane) end(t *testing.T, name string) {
	t.Helper()
	admin, err := tenantadmin.New(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	uid, _, err := admin.Delete(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.WaitGone(t.Context(), name, uid, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// TestWallV11KubeconfigOfADeletedTenant: who administered a tenant that is gone
// is nobody in a later one of its name, whatever they kept of the former.
func TestWallV11KubeconfigOfADeletedTenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	p.tenant(t, "t1")
	old := p.kubeconfig(t, "t1", "system:masters")
	former := p.as(t, "t1", old)
	if _, err := former.client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatalf("the kubeconfig is no good: %v", err)
	}
	// Without the tenant in the certificate its age decides, in both forms.
	aged := func(name string, organizations ...string) *rest.Config {
		return &rest.Config{Host: p.URL, QPS: -1,
			TLSClientConfig: planes.CertificateSince(t, p.Files, time.Now().Add(-time.Hour), name, organizations, nil)}
	}
	// These begin before the tenant is gone, and last.
	timeout := int64(3600)
	watched, err := former.client.CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{TimeoutSeconds: &timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	slow := slowly(t, old, "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"planted"}}`)

	p.end(t, "t1")
	// The edge knows by a watch which tenants there are.
	eventually(t, "a tenant that is gone not to be found", func(context.Context) (bool, error) {
		code, text, err := try(t, old, http.MethodGet, "/api/v1/namespaces/default/secrets", "", nil)
		if err != nil {
			return false, nil
		}
		if code < http.StatusBadRequest {
			return false, fmt.Errorf("%d %s", code, text)
		}
		return code == http.StatusNotFound && strings.Contains(text, "tenants"), nil
	})
	planes.CreateTenant(t, p.Admin, "t1")
	fresh := p.kubeconfig(t, "t1")
	planes.AwaitAccount(t, fresh, "default")
	now := p.as(t, "t1", fresh)
	if _, err := now.client.CoreV1().Secrets("default").
		Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a new kubeconfig: %v", err)
	}
	for what, cfg := range map[string]*rest.Config{
		"the kubeconfig": old, "a certificate that does not say of which": aged("admin", "tenant:t1"),
		"one in the old form": aged("tenant:t1:admin", "system:masters"),
	} {
		for _, path := range []string{"/api/v1/namespaces/default/secrets", "/tenants/t1/api/v1/secrets",
			"/api", "/version"} {
			if code, text := get(t, &rest.Config{Host: p.URL, TLSClientConfig: cfg.TLSClientConfig},
				path); code != http.StatusUnauthorized {
				t.Errorf("%s at %s: %d %s", what, path, code, text)
			}
		}
	}
	if code, text := slow(); code == http.StatusCreated {
		t.Errorf("a request of the former tenant ended in the new one: %d %s", code, text)
	}
	if _, err := now.client.CoreV1().Secrets("default").Get(ctx, "planted",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the former tenant planted: %v", err)
	}
	for e := range watched.ResultChan() { // ends with the former tenant
		if s, ok := e.Object.(*corev1.Secret); ok && s.Name == "new" {
			t.Error("the former tenant watches the new one")
		}
	}
}

// slowly sends a request whose last byte comes when the returned function is
// called, which returns the answer.
func slowly(t *testing.T, cfg *rest.Config, path, body string) func() (int, string) {
	t.Helper()
	host := strings.TrimPrefix(cfg.Host, "https://")
	host, prefix, _ := strings.Cut(host, "/")
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", host, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the test is over
	whole, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+"/"+prefix+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	whole.Header.Set("Content-Type", "application/json")
	var text strings.Builder
	if err := whole.Write(&text); err != nil {
		t.Fatal(err)
	}
	sent := text.String()
	if _, err := conn.Write([]byte(sent[:len(sent)-1])); err != nil {
		t.Fatal(err)
	}
	return func() (int, string) {
		_, _ = conn.Write([]byte(sent[len(sent)-1:])) // the server may have closed it
		resp, err := http.ReadResponse(bufio.NewReader(conn), whole)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close() //nolint:errcheck // only the code matters
		return resp.StatusCode, resp.Status
	}
}

// TestWallV11TokensOfADeletedTenant: a service account of the same name in the
// same namespace of a later tenant of the same name is another one.
func TestWallV11TokensOfADeletedTenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	s := p.tenant(t, "t1")
	asked, err := s.client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kept",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type: corev1.SecretTypeServiceAccountToken}
	if _, err := s.client.CoreV1().Secrets("default").Create(ctx, kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token in the Secret", func(ctx context.Context) (bool, error) {
		kept, err = s.client.CoreV1().Secrets("default").Get(ctx, "kept", metav1.GetOptions{})
		return err == nil && len(kept.Data["token"]) > 0, err
	})
	tokens := map[string]string{"a token that was asked for": asked.Status.Token,
		"that of a Secret": string(kept.Data["token"])}
	bearer := func(token string) *rest.Config {
		return &rest.Config{Host: p.URL, QPS: -1, BearerToken: token,
			TLSClientConfig: rest.TLSClientConfig{CAFile: p.Files.ServerCA.Cert}}
	}
	for what, token := range tokens {
		if code, text := get(t, bearer(token), "/api"); code != http.StatusOK {
			t.Fatalf("%s is no good: %d %s", what, code, text)
		}
	}
	p.again(t, "t1")
	fresh := p.as(t, "t1", p.kubeconfig(t, "t1"))
	planes.AwaitAccount(t, fresh.config, "default")
	// Also with a Secret of the same name.
	kept = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kept",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type: corev1.SecretTypeServiceAccountToken}
	if _, err := fresh.client.CoreV1().Secrets("default").Create(ctx, kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for what, token := range tokens {
		// Upstream believes a token that it has verified for ten seconds.
		eventually(t, what+" to be refused", func(context.Context) (bool, error) {
			code, _ := get(t, bearer(token), "/api")
			return code == http.StatusUnauthorized, nil
		})
	}
}

// TestWallV17MastersInsideATenant: the group of all rights has them in its space,
// and asks like everybody for what is not in it.
func TestWallV17MastersInsideATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.tenant(t, "t1")
	other := p.tenant(t, "t2")
	masters := p.as(t, "t1", p.user(t, "root", []string{"tenant:t1"}, []string{"system:masters"}))
	admin := p.as(t, "t1", p.user(t, "admin", []string{"tenant:t1"}, nil))

	// What users expect of it.
	for _, s := range []*space{masters} {
		if code, text := do(t, s.config, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`,
			nil); code != http.StatusCreated || !strings.Contains(text, `"system:masters"`) ||
			strings.Contains(text, "system:masters.") {
			t.Errorf("who am I: %d %s", code, text)
		}
		if _, err := s.client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	role := `{"metadata":{"name":"all"},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`
	if code, text := do(t, masters.config, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role,
		nil); code != http.StatusCreated {
		t.Errorf("a role with all rights: %d %s", code, text)
	}
	// What is named in bindings is the group of the space, as everybody reads it.
	const named = `{"metadata":{"name":"masters"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",` +
		`"kind":"ClusterRole","name":"all"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group",` +
		`"name":"system:masters"},{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:masters.t2"}]}`
	if code, text := do(t, masters.config, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		named, nil); code != http.StatusCreated {
		t.Errorf("a binding: %d %s", code, text)
	}
	if code, text := get(t, masters.config,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/masters"); code != http.StatusOK ||
		!strings.Contains(text, `"system:masters"`) || !strings.Contains(text, `"system:masters.t2"`) ||
		strings.Contains(text, ".t1") {
		t.Errorf("the binding: %d %s", code, text)
	}

	impersonating := []string{"Impersonate-User: x", "Impersonate-Group: system:masters"}
	for _, c := range []struct {
		what    string
		cfg     *rest.Config
		headers []string
	}{{"a master", masters.config, nil}, {"who takes on the group", admin.config, impersonating}} {
		for _, kind := range []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"} {
			resource := map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies",
				"MutatingAdmissionPolicy": "mutatingadmissionpolicies"}[kind]
			for _, param := range []struct {
				apiVersion, kind string
				code             int
			}{
				{"v1", "ConfigMap", http.StatusCreated}, {"v1", "Node", 0}, {"v1", "Tenant", 0},
				{"certificates.k8s.io/v1", "CertificateSigningRequest", 0},
				{"flowcontrol.apiserver.k8s.io/v1", "FlowSchema", 0},
			} {
				policy := map[string]any{
					"metadata": map[string]any{"name": "p-" + strings.ToLower(param.kind)},
					"spec": map[string]any{
						"paramKind": map[string]any{"apiVersion": param.apiVersion, "kind": param.kind},
						"matchConstraints": map[string]any{"resourceRules": []any{
							map[string]any{"apiGroups": []string{""}, "apiVersions": []string{"v1"},
								"operations": []string{"CREATE"}, "resources": []string{"configmaps"}},
						}},
					},
				}
				spec := policy["spec"].(map[string]any)
				if kind == "ValidatingAdmissionPolicy" {
					spec["validations"] = []any{map[string]any{"expression": "true"}}
				} else {
					spec["reinvocationPolicy"] = "Never"
					spec["mutations"] = []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{
						"expression": `[JSONPatch{op: "add", path: "/data", value: {"x": "y"}}]`,
					}}}
				}
				body, err := json.Marshal(policy)
				if err != nil {
					t.Fatal(err)
				}
				code, text := do(t, c.cfg, http.MethodPost,
					"/apis/admissionregistration.k8s.io/v1/"+resource+"?dryRun=All", string(body), c.headers)
				switch {
				case param.code != 0 && code != param.code:
					t.Errorf("%s, %s of %s: %d %s", c.what, kind, param.kind, code, text)
				case param.code == 0 &&
					(code < http.StatusBadRequest || !strings.Contains(text, "permission on all objects")):
					t.Errorf("%s, %s of %s is not refused: %d %s", c.what, kind, param.kind, code, text)
				}
			}
		}
	}
	// The group of another space is nobody's here.
	if code, text := do(t, admin.config, http.MethodGet, "/api/v1/secrets", "", []string{"Impersonate-User: x",
		"Impersonate-Group: system:masters.t2"}); code != http.StatusForbidden && code != http.StatusBadRequest {
		t.Errorf("the masters of another tenant: %d %s", code, text)
	}
	if code, text := get(t, &rest.Config{Host: other.config.Host, TLSClientConfig: masters.config.TLSClientConfig},
		"/tenants/t2/api/v1/secrets"); code != http.StatusForbidden {
		t.Errorf("another space: %d %s", code, text)
	}
}
