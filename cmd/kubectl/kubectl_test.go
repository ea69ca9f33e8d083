package kubectl

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/cmd"
)

// execute runs a command that needs no server.
func execute(t *testing.T, run *cmd.KubectlRun) (string, error) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	root, err := newRoot(run, streams, func(err error) { t.Errorf("told to fail: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(out)
	err = root.Execute()
	return out.String(), err
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func manifest(name, tenant string) string {
	m := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
	if tenant != "" {
		m += "  tenant: " + tenant + "\n"
	}
	return m
}

// TestManifestsNameSpaces reads from everything that -f and -k take, and
// leaves to kubectl what can be read only once.
func TestManifestsNameSpaces(t *testing.T) {
	dir := t.TempDir()
	plain := write(t, filepath.Join(dir, "d", "a.yaml"), manifest("a", "t1")+"---\n"+manifest("b", ""))
	write(t, filepath.Join(dir, "d", "more", "c.yml"), manifest("c", "t3"))
	write(t, filepath.Join(dir, "d", "notes.txt"), "no manifest")
	list := write(t, filepath.Join(dir, "list.json"), `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1",`+
		`"kind":"Secret","metadata":{"name":"e","tenant":"t5"}}]}`)
	broken := write(t, filepath.Join(dir, "broken.yaml"), "metadata: {name: x, tenant: t6}\n---\n"+manifest("f", "t7"))
	write(t, filepath.Join(dir, "k", "kustomization.yaml"), "resources: [g.yaml]\nnamePrefix: my-\n")
	write(t, filepath.Join(dir, "k", "g.yaml"), manifest("g", "t8"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/h.yaml" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, manifest("h", "t9"))
	}))
	defer srv.Close()
	pipe := func(content string) string {
		path := filepath.Join(t.TempDir(), "pipe")
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() { _ = os.WriteFile(path, []byte(content), 0) }() // the test fails without
		return path
	}
	for name, tc := range map[string]struct {
		args string
		want []string // name=tenant
		err  string
	}{
		"file":                {args: "-f " + plain, want: []string{"a=t1", "b="}},
		"files":               {args: "-f " + plain + "," + list, want: []string{"a=t1", "b=", "e=t5"}},
		"directory":           {args: "-f " + filepath.Join(dir, "d"), want: []string{"a=t1", "b="}},
		"directories":         {args: "-R -f " + filepath.Join(dir, "d"), want: []string{"a=t1", "b=", "c=t3"}},
		"pattern":             {args: "-f " + filepath.Join(dir, "lis?.json"), want: []string{"e=t5"}},
		"what cannot be read": {args: "-f " + broken, want: []string{"f=t7"}},
		"nothing there":       {args: "-f " + filepath.Join(dir, "none.yaml")},
		"kustomization":       {args: "-k " + filepath.Join(dir, "k"), want: []string{"my-g=t8"}},
		"no kustomization":    {args: "-k " + filepath.Join(dir, "d"), err: "kustomization"},
		"URL":                 {args: "-f " + srv.URL + "/h.yaml", want: []string{"h=t9"}},
		"nothing at the URL":  {args: "-f " + srv.URL + "/i.yaml", err: "404"},
		"standard input":      {args: "-f -", want: []string{"s=t2"}},
		"pipe":                {args: "-f " + pipe(manifest("p", "t4")), want: []string{"p=t4"}},
		"a number": {args: "-f " + write(t, filepath.Join(dir, "number.yaml"), manifest("number", "7")),
			err: "as a string"},
		"no manifests":           {args: ""},
		"the body of a raw path": {args: "--raw /x -f " + plain},
	} {
		t.Run(name, func(t *testing.T) {
			old := os.Stdin
			t.Cleanup(func() { os.Stdin = old })
			in, err := os.Open(pipe(manifest("s", "t2")))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close() //nolint:errcheck // of a test
			os.Stdin = in
			streams, _, _, _ := genericiooptions.NewTestIOStreams()
			root, err := newRoot(&cmd.KubectlRun{}, streams, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			c, err := find(root, "create")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.ParseFlags(strings.Fields(tc.args)); err != nil {
				t.Fatal(err)
			}
			for _, again := range []bool{false, true} { // as kubectl does after us
				var m manifests
				var got []string
				named, err := func() ([]cmd.Named, error) {
					if err := m.find(c.Flags()); err != nil {
						return nil, err
					}
					return m.named()
				}()
				if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("again %v: %v, want %q", again, err, tc.err)
				}
				for _, n := range named {
					words := strings.Fields(strings.TrimSuffix(n.Source, ": metadata.tenant"))
					got = append(got, words[len(words)-1]+"="+n.Tenant)
				}
				if tc.err == "" && !slices.Equal(got, tc.want) {
					t.Errorf("again %v: %q, want %q", again, got, tc.want)
				}
			}
		})
	}
}

// TestRecordSaysTheTenant: kubectl reads the arguments of the process for it.
func TestRecordSaysTheTenant(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.yaml"),
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: d}]}\n")
	args := []string{"set", "image", "--local", "-f", path, "c=e", "--record", "-o", "yaml"}
	old := os.Args
	t.Cleanup(func() { os.Args = old })
	os.Args = append([]string{"/bin/a4s", "kubectl", "--tenant", "t1"}, args...)
	out, err := execute(t, &cmd.KubectlRun{Args: args, Tenant: "t1", Source: "--tenant"})
	if err != nil || !strings.Contains(out, "change-cause: a4s kubectl set image c=e --tenant=t1 --local=true") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCreateTenant(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	out, err := execute(t,
		&cmd.KubectlRun{Args: strings.Fields("create tenant team-a --dry-run=client -o yaml --namespace x")})
	if want := "apiVersion: v1\nkind: Tenant\nmetadata:\n  name: team-a\n"; err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
	for args, want := range map[string]string{
		"create --help":                       "Create a tenant with the specified name",
		"create tenant --help":                "--dry-run",
		"__complete create ten":               "tenant\tCreate a tenant",
		"__complete get pods --ten":           "--tenant\t",
		"config set-context --help":           "[--tenant=tenant]",
		"cp --help":                           "<some-tenant>/<some-namespace>/<some-pod>:/tmp/foo",
		"create tenant t --dry-run=client":    "tenant/t created (dry run)",
		"create te t --dry-run=client -oname": "tenant/t\n",
	} {
		if out, err := execute(t, &cmd.KubectlRun{Args: strings.Fields(args)}); err != nil ||
			!strings.Contains(out, want) {
			t.Errorf("%s: %v, lacks %q:\n%s", args, err, want, out)
		}
	}
}

func TestPluginsDoNotReplaceCreateTenant(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kubectl-create-tenant", "kubectl-create-tenants"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	h := pluginHandler{PluginHandler: upstreamPlugins()}
	for name, want := range map[string]bool{"create-tenant": false, "create-tenant-x": false, "create-tenants": true} {
		if _, found := h.Lookup(name); found != want {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

func TestFilesOfCopies(t *testing.T) {
	for arg, want := range map[string][2]string{
		"t1/n/p:/x":    {"t1", "n/p:/x"},
		"t1/n/p:a/b:c": {"t1", "n/p:a/b:c"},
		"n/p:/x":       {"", "n/p:/x"},
		"p:/x/y/z":     {"", "p:/x/y/z"},
		"/a/b/c":       {"", "/a/b/c"},
		"/a/b:c":       {"", "/a/b:c"},
		"a/b/c/d:e":    {"", "a/b/c/d:e"},
	} {
		if tenant, rest := splitFileSpec(arg); tenant != want[0] || rest != want[1] {
			t.Errorf("%s: %q, %q", arg, tenant, rest)
		}
	}
}

func TestDescriptionsSayTheTenant(t *testing.T) {
	for _, tc := range []struct{ namespace, name, text, want string }{
		{"d.t1", "x", "Name:         x\nNamespace:    d.t1\nLabels:       a=b\n",
			"Name:         x\nNamespace:    d.t1\nTenant:       t1\nLabels:       a=b\n"},
		{"", "x.t1.tenant", "Name:   x.t1.tenant\nLabels: a=b\n", "Name:   x.t1.tenant\nTenant: t1\nLabels: a=b\n"},
		{"", "x.t1.tenant", "Name: x.t1.tenant", "Name: x.t1.tenant\nTenant: t1\n"},
		{"d.t1", "x", "Something: else\n", "Tenant: t1\nSomething: else\n"},
		{"d", "x.t1.tenant", "Name:  x.t1.tenant\n", "Name:  x.t1.tenant\n"},
		{"d", "x", "Name:  x\n", "Name:  x\n"},
		{"", "x", "Name:  x\n", "Name:  x\n"},
	} {
		if got := withTenant(tc.text, tenantOf(tc.namespace, tc.name)); got != tc.want {
			t.Errorf("%q, %q:\n%s", tc.namespace, tc.name, got)
		}
	}
}

func TestContextsOfSpaces(t *testing.T) {
	const server = "https://h:6443"
	path := filepath.Join(t.TempDir(), "config")
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["main"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte("ca")}
	cfg.Clusters["main-t9"] = &clientcmdapi.Cluster{Server: "https://elsewhere"}
	cfg.Contexts["main"] = &clientcmdapi.Context{Cluster: "main", AuthInfo: "me", Namespace: "n"}
	cfg.Contexts["bare"] = &clientcmdapi.Context{}
	cfg.CurrentContext = "main"
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args, tenant, env string
		context, cluster  string // that it then has
		says              string
	}{
		{args: "set-context t --cluster=main --user=me", tenant: "t1", context: "t", cluster: "main-t1"},
		{args: "set-context t", tenant: "t1", context: "t", cluster: "main-t1"},
		{args: "set-context t --namespace=x", tenant: "t2", context: "t", cluster: "main-t2"},
		{args: "use-context t", context: "t", cluster: "main-t2"},
		{args: "set-context --current", tenant: "system", context: "t", cluster: "main-system"},
		{args: "set-context --current --cluster=main", context: "t", cluster: "main"},
		{args: "set-context t", env: "t3", context: "t", cluster: "main"},
		{args: "use-context main", env: "t3", context: "main", cluster: "main"},
		{args: "set-context t", tenant: "t9", says: "another server"},
		{args: "set-context new", tenant: "t1", says: "--cluster as well"},
		{args: "set-context bare", tenant: "t1", says: "--cluster as well"},
		{args: "set-context t --cluster=none", tenant: "t1", says: "no such cluster"},
		{args: "use-context t", tenant: "t1", says: `config set-context NAME --cluster=CLUSTER --tenant=t1`},
		{args: "set-cluster t --server=" + server, tenant: "t1", says: "URL/tenants/t1"},
		{args: "set-credentials t", tenant: "t1", says: "a4s tenant kubeconfig t1"},
		{args: "set current-context t", tenant: "t1", says: "config set writes no tenant"},
	} {
		run := &cmd.KubectlRun{Args: append([]string{"--kubeconfig=" + path, "config"}, strings.Fields(tc.args)...),
			Tenant: tc.tenant, Source: "--tenant"}
		if tc.env != "" {
			run.Tenant, run.Source = tc.env, "A4S_TENANT"
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = execute(t, run)
		if (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.says)
		}
		after, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if tc.says != "" {
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
				t.Errorf("%s: %v, the kubeconfig became\n%s", tc.args, err, now)
			}
			continue
		}
		context := after.Contexts[tc.context]
		if context == nil || context.Cluster != tc.cluster {
			t.Errorf("%s: %+v", tc.args, context)
			continue
		}
		want := server
		if _, tenant, found := strings.Cut(tc.cluster, "-"); found {
			want += "/tenants/" + tenant
		}
		if made := after.Clusters[tc.cluster]; made == nil || made.Server != want ||
			string(made.CertificateAuthorityData) != "ca" {
			t.Errorf("%s: %+v, want %s", tc.args, made, want)
		}
	}
}

// TestFlagsOfLibrariesAreNobodys: upstream's programs have flags that cobra would give to
// every command of kubectl.
func TestFlagsOfLibrariesAreNobodys(t *testing.T) {
	all := pflag.CommandLine
	t.Cleanup(func() { pflag.CommandLine = all })
	pflag.CommandLine = pflag.NewFlagSet("other", pflag.ContinueOnError)
	pflag.CommandLine.Bool("of-another-program", false, "of a program of upstream")
	out, err := execute(t, &cmd.KubectlRun{Args: []string{"options"}})
	if err != nil || !strings.Contains(out, "--tenant") || strings.Contains(out, "of-another-program") {
		t.Errorf("%v, the flags of all commands are\n%s", err, out)
	}
}
