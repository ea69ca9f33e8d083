package cmd

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestKubectlCompletesTheFlag(t *testing.T) {
	noConfig(t)
	args := []string{"__complete", "get", "pods", "--tenant", ""}
	if c, _, _, err := run(t, append([]string{"kubectl"}, args...)...); err != nil || !slices.Equal(c.args, args) {
		t.Errorf("%q, %v", c.args, err)
	}
}

// TestKubectlOneSpace has what names the space of a command, in all places.
func TestKubectlOneSpace(t *testing.T) {
	object := func(source, tenant string) Named { return Named{Source: source + ": metadata.tenant", Tenant: tenant} }
	typed := func(tenant string) Named { return Named{Source: "file: tenant", Tenant: tenant, Typed: true} }
	for name, tc := range map[string]struct {
		tenant, of string
		objects    []Named
		want       string // the tenant in the address
		says       []string
		warns      string
	}{
		"nothing":                      {},
		"flag":                         {tenant: "a", want: "a"},
		"kubeconfig":                   {of: "a", want: "a"},
		"flag and kubeconfig":          {tenant: "a", of: "a", want: "a"},
		"flag against kubeconfig":      {tenant: "a", of: "b", says: []string{"--tenant", `"a"`, "b only"}},
		"objects without":              {objects: []Named{object("f", ""), object("g", "")}},
		"object":                       {objects: []Named{object("f", "a")}, want: "a"},
		"object of the system":         {objects: []Named{object("f", "system")}, want: "system"},
		"objects":                      {objects: []Named{object("f", "a"), object("g", "a")}, want: "a"},
		"object and flag":              {tenant: "a", objects: []Named{object("f", "a")}, want: "a"},
		"object and kubeconfig":        {of: "a", objects: []Named{object("f", "a")}, want: "a"},
		"with and without, flag":       {tenant: "a", objects: []Named{object("f", "a"), object("g", "")}, want: "a"},
		"with and without, kubeconfig": {of: "a", objects: []Named{object("f", ""), object("g", "a")}, want: "a"},
		"object against flag": {tenant: "a", objects: []Named{object("f", "b")}, want: "a",
			warns: `f: metadata.tenant: "b" is ignored, the space of the command is a`},
		"second object against flag": {tenant: "a", objects: []Named{object("f", "a"), object("g", "b")}, want: "a",
			warns: `g: metadata.tenant: "b" is ignored, the space of the command is a`},
		"object against kubeconfig": {of: "a", objects: []Named{object("f", "b")}, want: "a",
			warns: `f: metadata.tenant: "b" is ignored, the space of the command is a`},
		"objects against kubeconfig": {of: "a", objects: []Named{object("f", "b"), object("g", "c")}, want: "a",
			warns: `f: metadata.tenant: "b" is ignored, the space of the command is a`},
		"typed":          {objects: []Named{typed("a")}, want: "a"},
		"typed and flag": {tenant: "a", objects: []Named{typed("a")}, want: "a"},
		"typed against flag": {tenant: "a", objects: []Named{typed("b")},
			says: []string{"file: tenant", `"b"`, "--tenant is a"}},
		"typed against kubeconfig": {of: "a", objects: []Named{typed("b")},
			says: []string{"file: tenant", `"b"`, "the tenant a only"}},
		"objects against each other": {objects: []Named{object("f", "a"), object("h", ""), object("g", "b")},
			says: []string{"f: metadata.tenant", `"a"`, "g: metadata.tenant is b"}},
		"of the system and of a tenant": {objects: []Named{object("f", "system"), object("g", "b")},
			says: []string{`"system"`, "is b"}},
		"with and without": {objects: []Named{object("f", ""), object("g", "b")},
			says: []string{"g: metadata.tenant", `"b"`, "f: metadata.tenant is not set", "--tenant b"}},
		"no name of a tenant": {objects: []Named{object("f", "A/b")},
			says: []string{"f: metadata.tenant", "A/b", "the name of a tenant"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeTenants(t, "a", "b")
			kubeconfig := f.kubeconfig
			if tc.of != "" {
				kubeconfig += ".t"
				writeKubeconfig(t, kubeconfig, f.url+"/tenants/"+tc.of, caOf(t, f.kubeconfig))
			}
			var warnings []string
			k := &KubectlRun{Tenant: tc.tenant, Source: "--tenant",
				Warn: func(text string) { warnings = append(warnings, text) }}
			for _, o := range tc.objects { // from several files
				k.Name(o)
			}
			failed, err := kubectlGet(t, k, loaderOf(kubeconfig), "")
			if tc.says != nil {
				var in *problem.Input
				if err == nil || !errors.As(failed, &in) {
					t.Fatalf("%v, %v", failed, err)
				}
				for _, part := range tc.says {
					if !strings.Contains(failed.Error(), part) {
						t.Errorf("%q lacks %q", failed, part)
					}
				}
				if len(f.requested) > 0 {
					t.Errorf("requested %q", f.requested)
				}
				return
			}
			if failed != nil || err != nil {
				t.Fatalf("%v, %v", failed, err)
			}
			if strings.Join(warnings, "\n") != tc.warns {
				t.Errorf("warned %q, want %q", warnings, tc.warns)
			}
			if tc.want == "" { // a short path, which this API has not
				if len(f.requested) > 0 {
					t.Errorf("requested %q", f.requested)
				}
				return
			}
			if want := "GET /tenants/" + tc.want + "/api/v1/namespaces/default"; !slices.Contains(f.requested, want) {
				t.Errorf("requested %q, want %q", f.requested, want)
			}
		})
	}
}

func TestKubectlObjectOfUnknownTenant(t *testing.T) {
	f := newFakeTenants(t, "team-a")
	k := &KubectlRun{}
	k.Name(Named{Source: "f", Tenant: "taem-a"})
	failed, err := kubectlGet(t, k, loaderOf(f.kubeconfig), "")
	if !errors.Is(failed, errUnknownTenant) || err == nil || !strings.HasPrefix(failed.Error(), "f: ") ||
		!strings.Contains(failed.Error(), `"team-a"`) {
		t.Errorf("%v, %v", failed, err)
	}
}

type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// TestKubectlSaysWhyASpaceIsRefused: the sentence of the server, which
// client-go drops when it asks for discovery.
func TestKubectlSaysWhyASpaceIsRefused(t *testing.T) {
	noConfig(t)
	for _, tc := range []struct {
		host, tenant, path string
		code               int
		told               bool
	}{
		{"https://h", "t1", "/api", http.StatusForbidden, true},
		{"https://h/tenants/t1", "", "/api", http.StatusForbidden, true},
		{"https://h/behind/tenants/t1", "", "/api", http.StatusForbidden, true},
		{"https://h", "", "/api", http.StatusForbidden, false},
		{"https://h", "t1", "/api", http.StatusUnauthorized, false},
		{"https://h", "t1", "/api/v1/pods", http.StatusForbidden, false},
		{"https://h/tenants/t1", "", "/api/v1/tenants/api", http.StatusForbidden, false},
	} {
		body, err := json.Marshal(failure(int32(tc.code), metav1.StatusReasonForbidden, "space", "t1"))
		if err != nil {
			t.Fatal(err)
		}
		cfg := &rest.Config{Host: tc.host, Transport: answers(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: tc.code, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(string(body)))}
		})}
		var told []error
		out := (&KubectlRun{Tenant: tc.tenant}).Wrap(cfg, loaderOf("/nonexistent"), "", func(err error) {
			told = append(told, err)
		})
		client, err := rest.HTTPClientFor(out)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(out.Host + tc.path)
		if err != nil {
			t.Fatal(err)
		}
		left, err := io.ReadAll(resp.Body)
		if err != nil || string(left) != string(body) {
			t.Errorf("%+v: the answer became %q, %v", tc, left, err)
		}
		if tc.told != (len(told) > 0) ||
			tc.told && (!apierrors.IsForbidden(told[0]) || !strings.Contains(told[0].Error(), `space "t1"`)) {
			t.Errorf("%+v: told %v", tc, told)
		}
	}
}
