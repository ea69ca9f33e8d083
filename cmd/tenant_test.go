package cmd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

func TestTenantCreate(t *testing.T) {
	f := newFakeTenants(t)
	file := filepath.Join(t.TempDir(), "t1.yaml")
	out, stderr, err := f.run("create", "t1", "--output", file)
	if err != nil || !strings.Contains(out, "tenant t1 created\n") || !strings.Contains(out, file) {
		t.Fatalf("create: %v\n%s", err, out)
	}
	if !strings.Contains(stderr, "this machine only") {
		t.Errorf("does not warn of a loopback address: %q", stderr)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	f.checkKubeconfig(data, "t1", "admin", f.url)
	if s := f.subjects[0]; s.CommonName != "admin" || !slices.Equal(s.Organization, []string{"tenant:t1"}) ||
		s.OrganizationalUnit != nil || s.SerialNumber != "uid-of-t1" {
		t.Errorf("subject %v", s)
	}
	if len(f.csrs) != 0 || len(f.bindings) != 0 {
		t.Errorf("left behind: %v, %v", f.csrs, f.bindings)
	}
	// Again, for another user and elsewhere.
	for range 2 {
		out, stderr, err = f.run("create", "t1", "--user", "alice@example.com", "--group", "dev",
			"--group=ops", "--role", "view", "--server", "https://a4s.example.com/", "--output=-")
		if err != nil || !strings.Contains(stderr, "tenant t1 exists\n") ||
			strings.Contains(stderr, "this machine only") {
			t.Fatalf("create again: %v\n%s", err, stderr)
		}
		f.checkKubeconfig([]byte(out), "t1", "alice@example.com", "https://a4s.example.com")
	}
	if s := f.subjects[1]; s.CommonName != "alice@example.com" ||
		!slices.Equal(s.OrganizationalUnit, []string{"dev", "ops"}) {
		t.Errorf("subject %v", s)
	}
	b := f.bindings["t1/a4s:view:alice@example.com"]
	if len(f.bindings) != 1 || b.RoleRef.Name != "view" || b.RoleRef.Kind != "ClusterRole" || len(b.Subjects) != 1 ||
		b.Subjects[0].Name != "alice@example.com" || b.Subjects[0].Kind != "User" {
		t.Errorf("bindings %+v", f.bindings)
	}
	// Without a kubeconfig nothing is signed.
	if out, _, err = f.run("create", "t2", "--user", "a/b", "--role=none"); err != nil ||
		!strings.Contains(out, "a4s tenant kubeconfig t2") || len(f.subjects) != 3 || len(f.bindings) != 1 {
		t.Errorf("create t2: %v\n%s", err, out)
	}
	if _, _, err = f.run("create", "t2", "--user", "a/b"); err != nil || len(f.bindings) != 2 {
		t.Errorf("create with an odd user: %v, %v", err, f.bindings)
	}
}

func TestTenantKubeconfig(t *testing.T) {
	f := newFakeTenants(t, "t1")
	f.maxLife = time.Hour
	dir := t.TempDir()
	file := filepath.Join(dir, "k")
	for range 2 { // the second replaces the file of the first
		_, stderr, err := f.run("kubeconfig", "t1", "--user=bob", "-o", file)
		if err != nil || !strings.Contains(stderr, "1h0m0s at most") {
			t.Fatalf("kubeconfig: %v\n%s", err, stderr)
		}
	}
	// A year is what the cluster signs for, from before the issue.
	f.maxLife = 8760*time.Hour - 5*time.Minute - 2*time.Second
	if _, stderr, err := f.run("kubeconfig", "t1", "--user=bob", "-o", file); err != nil ||
		strings.Contains(stderr, "at most") {
		t.Errorf("a year: %v\n%s", err, stderr)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f.checkKubeconfig(data, "t1", "bob", f.url)

	f.deny = true
	if _, _, err := f.run("kubeconfig", "t1"); err == nil ||
		!strings.Contains(err.Error(), "not like this") || len(f.csrs) != 0 {
		t.Errorf("a failed request: %v, left %v", err, f.csrs)
	}
}

// TestTenantKubeconfigsWorkElsewhere: the server says where other machines reach it.
func TestTenantKubeconfigsWorkElsewhere(t *testing.T) {
	f := newFakeTenants(t, "t1")
	for external, want := range map[string]string{"a4s.example.com:6443": "https://a4s.example.com:6443",
		"192.0.2.1:6443": "https://192.0.2.1:6443", "127.0.0.1:6443": f.url, "localhost:6443": f.url, "": f.url} {
		f.external = external
		for _, command := range []string{"kubeconfig", "create"} {
			out, stderr, err := f.run(command, "t1", "--output=-")
			if err != nil || strings.Contains(stderr, "this machine only") != (want == f.url) {
				t.Errorf("%s at %q: %v\n%s", command, external, err, stderr)
			}
			f.checkKubeconfig([]byte(out), "t1", "admin", want)
		}
		out, _, err := f.run("kubeconfig", "t1", "--oidc", "--oidc-issuer-url=https://login.example.com",
			"--oidc-client-id=a4s", "--output=-")
		if err != nil || !strings.Contains(out, want+"/tenants/t1") {
			t.Errorf("with a login at %q: %v\n%s", external, err, out)
		}
	}
}

func TestTenantFilesThatAreKept(t *testing.T) {
	f := newFakeTenants(t)
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes.yaml")
	if err := os.WriteFile(notes, []byte("a: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "config")
	writeKubeconfig(t, other, "https://prod.example.com", nil)
	for _, file := range []string{notes, other, f.kubeconfig, dir, filepath.Join(dir, "no", "k")} {
		before, _ := os.ReadFile(file)
		_, _, err := f.run("create", "t1", "--output", file)
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != "--output" || in.Value != file {
			t.Errorf("%s: %v", file, err)
		}
		if after, _ := os.ReadFile(file); string(after) != string(before) {
			t.Errorf("%s was changed", file)
		}
	}
	if len(f.tenants) != 0 {
		t.Error("a tenant was made all the same")
	}
}

func TestTenantList(t *testing.T) {
	f := newFakeTenants(t, "beta", "alpha")
	f.terminate("beta")
	for format, want := range map[string]string{
		"table": "NAME    STATUS        AGE\nalpha   Active        3h\nbeta    Terminating   3h\n",
		"name":  "tenant/alpha\ntenant/beta\n",
	} {
		if out, _, err := f.run("list", "-o", format); err != nil || out != want {
			t.Errorf("%s: %v\n%s", format, err, out)
		}
	}
	f.tenants["alpha"].Spec.DeletionProtection, f.tenants["alpha"].Spec.Cordoned = new(true), true
	f.tenants["beta"].Spec.Cordoned = true
	out, _, err := f.run("list", "-o", "wide")
	if err != nil || !strings.Contains(out,
		"alpha   Active,Cordoned   3h    True    true        LocalCRDFirst   all there\n") ||
		!strings.Contains(out, "beta    Terminating       3h    True    false ") ||
		!strings.Contains(out, "waiting for the end of 3 pods\n") {
		t.Errorf("wide: %v\n%s", err, out)
	}
	for _, format := range []string{"json", "yaml"} {
		out, _, err := f.run("list", "-o", format)
		if err != nil {
			t.Fatal(err)
		}
		obj, _, err := f.decoder.Decode([]byte(out), nil, nil)
		if list, ok := obj.(*tenantapi.TenantList); err != nil || !ok || len(list.Items) != 2 ||
			list.Items[1].Kind != "Tenant" {
			t.Errorf("%s: %T, %v", format, obj, err)
		}
	}
}

func TestTenantDelete(t *testing.T) {
	f := newFakeTenants(t, "t1", "t2")
	out, stderr, err := f.run("delete", "t1")
	if err != nil || out != "tenant t1 deleted\n" || f.tenants["t1"] != nil ||
		!strings.Contains(stderr, "waiting for its space to be emptied (waiting for the end of 3 pods)") {
		t.Errorf("delete: %q, %v\n%s", out, err, stderr)
	}
	f.stuck = true
	if out, _, err = f.run("delete", "t2", "--wait=false"); err != nil || out != "tenant t2 is being deleted\n" {
		t.Errorf("delete --wait=false: %q, %v", out, err)
	}
	_, _, err = f.run("delete", "t2", "--timeout", "50ms")
	if err == nil || !strings.Contains(err.Error(), "tenant t2 is not gone") ||
		!strings.Contains(err.Error(), "3 pods") {
		t.Errorf("deadline: %v", err)
	}
	f.stuck = false
	if out, _, err = f.run("delete", "t2"); err != nil || out != "tenant t2 deleted\n" {
		t.Errorf("delete again: %q, %v", out, err)
	}
	if n := strings.Count(strings.Join(f.requested, "\n"), "DELETE /api/v1/tenants/t2"); n != 1 {
		t.Errorf("%d deletions of t2", n)
	}
	// Its partition has lost it, and has its name.
	f.lost = "t3"
	if _, _, err = f.run("create", "t3"); err == nil || !strings.Contains(err.Error(), "AlreadyExists") {
		t.Errorf("a lost one is made: %v", err)
	}
	if out, _, err = f.run("delete", "t3"); err != nil || out != "tenant t3 deleted\n" || f.lost != "" {
		t.Errorf("delete a lost one: %q, %v", out, err)
	}
}

// A tenant is deleted when the cluster has forgotten where it was, and no earlier.
func TestTenantDeleteWaitsForThePlacement(t *testing.T) {
	f := newFakeTenants(t, "t1")
	f.placed = "t1"
	out, stderr, err := f.run("delete", "t1")
	if err != nil || out != "tenant t1 deleted\n" || f.placed != "" {
		t.Errorf("delete: %q, %v\n%s", out, err, stderr)
	}
	if _, _, err := f.run("delete", "t1", "--force", "--wait=false"); err == nil ||
		!strings.Contains(err.Error(), "--force") {
		t.Errorf("forced without waiting: %v", err)
	}
}

func TestTenantMistakes(t *testing.T) {
	f := newFakeTenants(t, "team-a", "old")
	f.terminate("old")
	f.stuck = true
	ofTenant := filepath.Join(t.TempDir(), "k")
	writeKubeconfig(t, ofTenant, f.url+"/tenants/team-a", nil)
	for _, tc := range []struct {
		args string
		is   error
		want string
	}{
		{"create", config.ErrNoValue, "one tenant"},
		{"create a b", nil, "one tenant"},
		{"create system", space.ErrReserved, "system"},
		{"delete system", space.ErrReserved, "system"},
		{"create Team", space.ErrInvalid, "lower case"},
		{"create " + strings.Repeat("a", 25), space.ErrTooLong, "24"},
		{"create old", tenantadmin.ErrTerminating, "a4s tenant delete old"},
		{"kubeconfig old", tenantadmin.ErrTerminating, "a4s tenant delete old"},
		{"kubeconfig taem-a", errUnknownTenant, `"team-a"`},
		{"delete nothing-like-it", errUnknownTenant, "a4s tenant list"},
		{"create team-a --user system:admin", nil, "--user"},
		{"create team-a --user tenant:x", nil, "--user"},
		{"kubeconfig team-a --group tenant:x", nil, "--group"},
		{"create team-a --output=- --expires 1s", nil, "--expires"},
		{"create team-a --group g", nil, "--output as well"},
		{"create team-a --output=- --server http://x", nil, "--server"},
		{"create team-a --user u --role nobody", tenantadmin.ErrNoRole, "--role"},
		{"list -o csv", nil, "wide"},
		{"delete team-a --timeout=-1s", nil, "--timeout"},
	} {
		_, _, err := f.run(strings.Fields(tc.args)...)
		var in *problem.Input
		if !errors.As(err, &in) || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("tenant %s: %v, want %v and %q in it", tc.args, err, tc.is, tc.want)
		}
	}
	for _, tc := range []struct{ file, env, want string }{
		{ofTenant, "", "for the tenant team-a"},
		{"", ofTenant, "for the tenant team-a"},
		{"", filepath.Join(t.TempDir(), "no"), "KUBECONFIG"},
		{filepath.Join(t.TempDir(), "no"), "", "no such file"},
	} {
		t.Setenv("KUBECONFIG", tc.env)
		args := []string{"tenant", "list"}
		if tc.file != "" {
			args = append(args, "--kubeconfig", tc.file)
		}
		_, _, _, err := run(t, args...)
		var in *problem.Input
		if !errors.As(err, &in) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("kubeconfig %q, KUBECONFIG %q: %v", tc.file, tc.env, err)
		}
	}
	_, _, err := f.run("create", "new", "--timeout", "50ms", "--output", filepath.Join(t.TempDir(), "new"))
	if err == nil || !strings.Contains(err.Error(), "tenant new is not ready") ||
		!strings.Contains(err.Error(), "making kube-system") {
		t.Errorf("a space that is never made: %v", err)
	}
	f.forbidden = true
	if _, _, err := f.run("create", "x"); err == nil || !strings.Contains(err.Error(), "administrator") {
		t.Errorf("forbidden: %v", err)
	}
	f.forbidden = false
	t.Setenv("KUBECONFIG", f.kubeconfig)
	if _, out, _, err := run(t, "tenant", "list", "-o=name"); err != nil || !strings.Contains(out, "tenant/team-a\n") {
		t.Errorf("with KUBECONFIG: %q, %v", out, err)
	}
}

// TestFormerFlagsOfTenants: what was typed before --output and --kubeconfig had one meaning
// each goes on doing the same, and is not shown.
func TestFormerFlagsOfTenants(t *testing.T) {
	f := newFakeTenants(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	empty := file("empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"both":    {"--kubeconfig", file("both"), "--admin-kubeconfig", f.kubeconfig},
		"written": {"--kubeconfig", file("written")}, // with KUBECONFIG
		"empty":   {"--kubeconfig", empty},
		"again":   {"--kubeconfig", file("written")},
		"new":     {"--kubeconfig", f.kubeconfig, "--output", file("new")},
		"half":    {"--admin-kubeconfig", f.kubeconfig, "--output", file("half")},
	} {
		if slices.Contains(args, f.kubeconfig) {
			t.Setenv("KUBECONFIG", "")
		} else {
			t.Setenv("KUBECONFIG", f.kubeconfig)
		}
		_, _, stderr, err := run(t, append([]string{"tenant", "create", name}, args...)...)
		written := args[len(args)-1]
		if written == f.kubeconfig {
			written = args[1]
		}
		data, readErr := os.ReadFile(written)
		if err := errors.Join(err, readErr); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.checkKubeconfig(data, name, "admin", f.url)
		if former := !slices.Contains(args, "--output"); former != strings.Contains(stderr, "say so with --output") {
			t.Errorf("%s: says %q", name, stderr)
		}
	}
	// A kubeconfig of an administrator is read, and nothing is written.
	before, _ := os.ReadFile(f.kubeconfig)
	out, _, _, err := run(t, "tenant", "create", "reads", "--kubeconfig", f.kubeconfig)
	after, _ := os.ReadFile(f.kubeconfig)
	if err != nil || f.tenants["reads"] == nil || string(before) != string(after) || out.what != "" {
		t.Errorf("a kubeconfig to read: %v", err)
	}
}

// TestTenantListOfAMember: who is no administrator sees the names of the tenants of which they are a
// member, whichever of them their kubeconfig is for.
func TestTenantListOfAMember(t *testing.T) {
	f := newFakeTenants(t, "alpha", "beta", "gamma")
	f.members = []string{"alpha", "beta"}
	data, err := os.ReadFile(f.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"", "/tenants/beta", "/tenants/gamma/"} {
		file := bytes.ReplaceAll(data, []byte(f.url), []byte(f.url+at))
		if err := os.WriteFile(f.kubeconfig, file, 0o600); err != nil {
			t.Fatal(err)
		}
		for format, want := range map[string]string{"table": "NAME\nalpha\nbeta\n", "wide": "NAME\nalpha\nbeta\n",
			"name": "tenant/alpha\ntenant/beta\n"} {
			out, hint, err := f.run("list", "-o", format)
			if err != nil || out != want || (format != "name") != strings.Contains(hint, "--tenant NAME") {
				t.Errorf("%s at %q: %v\n%s%s", format, at, err, out, hint)
			}
		}
		if out, _, err := f.run("list", "-o", "json"); err != nil || !strings.Contains(out, `"name": "beta"`) {
			t.Errorf("json at %q: %v\n%s", at, err, out)
		}
	}
	// The user of one tenant is told what their kubeconfig is.
	f.members, f.forbidden = nil, true
	if _, _, err := f.run("list"); err == nil || !strings.Contains(err.Error(), "it is for the tenant gamma") {
		t.Errorf("a user of a tenant: %v", err)
	}
}
