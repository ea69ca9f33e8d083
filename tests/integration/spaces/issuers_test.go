package spaces_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/openid"
	"github.com/a4s-io/a4s/tests/planes"
)

const whoAmI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// logsInAt gives a tenant its own provider, or takes it away.
func (p *plane) logsInAt(t *testing.T, tenant string, of *tenantapi.TenantAuthentication) {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"authentication": of}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Patch(t.Context(), tenant, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// providedBy is what a Tenant says of a provider.
func providedBy(of *openid.Provider) *tenantapi.TenantAuthentication {
	prefix := "own:"
	return &tenantapi.TenantAuthentication{
		Issuer: tenantapi.TenantIssuer{URL: of.URL, Audiences: []string{openid.Client}, CertificateAuthority: of.CA},
		ClaimMappings: tenantapi.TenantClaimMappings{
			Username: tenantapi.PrefixedClaim{Claim: "sub", Prefix: &prefix},
			Groups:   &tenantapi.PrefixedClaim{Claim: "groups", Prefix: &prefix},
		},
	}
}

// TestTenantIssuer: whoever logs in at the provider of a tenant is a user of that tenant and of nothing else,
// whatever the provider says and however it answers.
func TestTenantIssuer(t *testing.T) {
	program := openid.Build(t)
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	of := openid.New(t, program, listenOutside(t, "", 0))
	for _, name := range []string{"a", "b", "c"} {
		p.bareTenant(t, name)
	}
	of.Users(t, map[string]map[string]any{
		"ann": {"groups": []string{"dev"}, "tenant": "b", "a4s.io/tenant": []string{"b", "system"}},
		"mallory": {"groups": []string{"system:masters", "system:masters.b", "system:serviceaccounts:default.b"},
			"tenant": "system"},
		"system:admin": {},
	})
	ann, mallory, admin := of.Login(t, "ann"), of.Login(t, "mallory"), of.Login(t, "system:admin")
	answers := func(what, token, path string, code int) string {
		t.Helper()
		got, body := get(t, p.bearer(token), path)
		if got != code {
			t.Errorf("%s: %s: %d %.400s, want %d", what, path, got, body, code)
		}
		return body
	}
	becomes := func(what, token, path string, code int) {
		t.Helper()
		eventually(t, what, func(context.Context) (bool, error) {
			got, _, err := try(t, p.bearer(token), http.MethodGet, path, "", nil)
			return err == nil && got == code, nil
		})
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	answers("nobody's provider", ann, "/tenants/a"+maps, http.StatusUnauthorized)

	p.bind(t, "a", "own:ann", "view")
	p.logsInAt(t, "a", providedBy(of))
	becomes("her role in a", ann, "/tenants/a"+maps, http.StatusOK)
	answers("what the role does not give", ann, "/tenants/a/api/v1/namespaces/default/secrets", http.StatusForbidden)
	answers("the short path", ann, maps, http.StatusOK)
	// Elsewhere she gets the answers that other users of a get.
	same := p.user(t, "own:ann", []string{"tenant:a"}, nil)
	for _, path := range []string{"/tenants/b" + maps, "/tenants/c" + maps, "/tenants/system" + maps,
		"/tenants/system/api/v1/nodes", "/tenants/all" + maps, "/api/v1/tenants", "/api/v1/tenants/b",
		"/tenants/none" + maps} {
		code, body := get(t, same, path)
		if code < http.StatusBadRequest {
			t.Errorf("%s shows something to a user of a: %d %.300s", path, code, body)
		}
		answers("out of a", ann, path, code)
	}
	answers("out of a", ann, "/tenants/b"+maps, http.StatusForbidden)
	testWhoLogsIn(t, p, ann, mallory)
	answers("groups of the system", mallory, "/tenants/a"+maps, http.StatusForbidden)
	answers("groups of the system, in b", mallory, "/tenants/b"+maps, http.StatusForbidden)
	answers("the token of another key", ann[:len(ann)-8]+"AAAAAAAA", "/tenants/a"+maps, http.StatusUnauthorized)

	// With an empty prefix the provider names users as it likes, and still none of Kubernetes'.
	bare, empty := providedBy(of), ""
	bare.ClaimMappings.Username.Prefix, bare.ClaimMappings.Groups.Prefix = &empty, &empty
	p.bind(t, "a", "ann", "view")
	p.logsInAt(t, "a", bare)
	// Which the server did not refuse before, with a prefix.
	becomes("the admin of the system", admin, "/tenants/a"+maps, http.StatusUnauthorized)
	becomes("her name without a prefix", ann, "/tenants/a"+maps, http.StatusOK)
	answers("masters", mallory, "/tenants/a"+maps, http.StatusForbidden)
	answers("masters in b", mallory, "/tenants/b"+maps, http.StatusForbidden)
	p.logsInAt(t, "a", providedBy(of))

	// Two tenants that have one provider: the path says which.
	p.logsInAt(t, "b", providedBy(of))
	becomes("to say the tenant", ann, maps, http.StatusUnauthorized)
	if body := answers("no tenant", ann, maps, http.StatusUnauthorized); !strings.Contains(body, "/tenants/NAME") {
		t.Errorf("it does not say why: %s", body)
	}
	answers("in a", ann, "/tenants/a"+maps, http.StatusOK)
	answers("in b, without a role", ann, "/tenants/b"+maps, http.StatusForbidden)
	p.bind(t, "b", "own:ann", "view")
	becomes("her role in b", ann, "/tenants/b"+maps, http.StatusOK)
	p.logsInAt(t, "b", nil)
	becomes("b without a provider", ann, "/tenants/b"+maps, http.StatusForbidden)

	testProviderAway(t, p, of, ann)
	testReservedIssuers(t, p, of)
	testProviderInside(t, p, of)

	// The end of the tenant is that of its users.
	last := of.Login(t, "ann")
	becomes("the last key", last, "/tenants/a"+maps, http.StatusOK)
	if code, body := do(t, p.Admin, http.MethodDelete, "/api/v1/tenants/a", "", nil); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	eventually(t, "the tenant to be gone", func(context.Context) (bool, error) {
		code, _ := get(t, p.Admin, "/api/v1/tenants/a")
		return code == http.StatusNotFound, nil
	})
	becomes("nobody any more", last, "/tenants/a"+maps, http.StatusUnauthorized)
	planes.CreateTenant(t, p.Admin, "a")
	answers("the next of the name", last, "/tenants/a"+maps, http.StatusUnauthorized)
}

// testWhoLogsIn: what is known of users of a's provider inside is of a alone.
func testWhoLogsIn(t *testing.T, p *plane, ann, mallory string) {
	t.Helper()
	for token, want := range map[string][]string{ann: {"own:ann", "own:dev", "system:authenticated"},
		mallory: {"own:mallory", "own:system:masters", "own:system:masters.b",
			"own:system:serviceaccounts:default.b", "system:authenticated"}} {
		code, body := do(t, p.bearer(token), http.MethodPost, "/tenants/a"+whoAmI, `{}`, nil)
		var me authenticationv1.SelfSubjectReview
		if err := json.Unmarshal([]byte(body), &me); err != nil || code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
		who := me.Status.UserInfo
		if who.Username != want[0] || !slices.Equal(who.Groups, want[1:]) {
			t.Errorf("%+v, want %q", who, want)
		}
		for key, values := range who.Extra {
			if key == "a4s.io/tenant" && !slices.Equal(values, []string{"a"}) {
				t.Errorf("of the tenants %q", values)
			}
		}
	}
	// Whoever is shown the token learns of it in a only.
	for path, known := range map[string]bool{"/tenants/a": true, "/tenants/b": false, "/tenants/system": false} {
		code, body := do(t, p.Admin, http.MethodPost, path+"/apis/authentication.k8s.io/v1/tokenreviews",
			`{"spec":{"token":"`+ann+`"}}`, nil)
		if code != http.StatusCreated || strings.Contains(body, `"authenticated":true`) != known {
			t.Errorf("a review in %s: %d %s", path, code, body)
		}
	}
}

// testProviderAway: a provider that does not answer harms nobody else, and its users only where it has to be
// asked; one with another key is asked again.
func testProviderAway(t *testing.T, p *plane, of *openid.Provider, ann string) {
	t.Helper()
	const path = "/tenants/a/api/v1/namespaces/default/configmaps"
	of.Stop()
	if code, body := get(t, p.bearer(ann), path); code != http.StatusOK {
		t.Errorf("with the keys that are known: %d %s", code, body)
	}
	// Another Tenant with it has to ask, and waits; its users and those of others go on meanwhile.
	p.logsInAt(t, "c", providedBy(of))
	waiting := make(chan int, 20)
	for range cap(waiting) {
		go func() { waiting <- toldToComeAgain(t.Context(), p.bearer(ann), strings.Replace(path, "/a/", "/c/", 1)) }()
	}
	name, organizations := planes.AdminOf("b")
	others := p.user(t, name, organizations, nil)
	for range 20 {
		if code, body := get(t, others, "/api/v1/namespaces/default/configmaps"); code != http.StatusOK {
			t.Errorf("of another tenant meanwhile: %d %s", code, body)
		}
	}
	for range cap(waiting) {
		if code := <-waiting; code != http.StatusServiceUnavailable {
			t.Errorf("who waits for it: %d", code)
		}
	}
	p.logsInAt(t, "c", nil)

	of.Start(t)
	next := of.Login(t, "ann")
	eventually(t, "the new key to be known", func(context.Context) (bool, error) {
		code, _ := get(t, p.bearer(next), path)
		return code == http.StatusOK, nil
	})
	if code, body := get(t, p.bearer(ann), path); code != http.StatusUnauthorized {
		t.Errorf("with the last key: %d %s", code, body)
	}
}

// toldToComeAgain asks until the answer is that the provider is away, and returns the last answer.
func toldToComeAgain(ctx context.Context, cfg *rest.Config, path string) (code int) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return 0
	}
	for code != http.StatusServiceUnavailable {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+path, nil)
		if err != nil {
			return code
		}
		resp, err := client.Do(req)
		if err != nil {
			return code
		}
		code = resp.StatusCode
		_ = resp.Body.Close() // it is the code that counts
	}
	return code
}

// testProviderInside: a provider is not looked for where a tenant has nothing.
func testProviderInside(t *testing.T, p *plane, of *openid.Provider) {
	t.Helper()
	machine, ann := everywhere(t), of.Login(t, "ann")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", planes.Address, "[::1]", "localhost"} {
		inside := providedBy(of)
		inside.Issuer.URL = fmt.Sprintf("https://%s:%d", host, machine.port)
		p.logsInAt(t, "c", inside)
		token := signed(t, key, map[string]any{"iss": inside.Issuer.URL, "aud": openid.Client, "sub": "ann",
			"exp": time.Now().Add(time.Hour).Unix()})
		// Tenants are known in the order of their changes, so the other one shows that this is.
		for _, known := range []struct {
			by   *tenantapi.TenantAuthentication
			code int
		}{{providedBy(of), http.StatusOK}, {nil, http.StatusForbidden}} {
			p.logsInAt(t, "b", known.by)
			eventually(t, "the provider to be known", func(context.Context) (bool, error) {
				code, _ := get(t, p.bearer(ann), "/tenants/b/api/v1/namespaces/default/configmaps")
				return code == known.code, nil
			})
		}
		code, body := get(t, p.bearer(token), "/tenants/c/api/v1/namespaces")
		if code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", inside.Issuer.URL, code, body)
		}
	}
	if n := machine.n.Load(); n != 0 {
		t.Errorf("the API server connected to its own machine %d times", n)
	}
	p.logsInAt(t, "c", nil)
}

// testReservedIssuers: what the cluster issues or has issued by others is no tenant's.
func testReservedIssuers(t *testing.T, p *plane, of *openid.Provider) {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := providedBy(of)
	own.Issuer.URL = "https://kubernetes.default.svc.cluster.local"
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"authentication": own}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Patch(t.Context(), "b", types.MergePatchType, body, metav1.PatchOptions{}); err == nil ||
		!strings.Contains(err.Error(), "the cluster's own configuration has this provider") {
		t.Errorf("the cluster's own: %v", err)
	}
	if _, err := tenants.Patch(t.Context(), "system", types.MergePatchType, body, metav1.PatchOptions{}); err == nil {
		t.Error("the system space has a provider")
	}
}
