package cmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// calls records what the command line asked for.
type calls struct {
	what   string
	args   []string
	tenant string
	server *config.Server
	agent  *config.Agent
}

// run runs a command line with recording modes.
func run(t *testing.T, args ...string) (c calls, stdout, stderr string, err error) {
	t.Helper()
	return runWith(t, strings.NewReader(""), args...)
}

// runWith is run with a standard input.
func runWith(t *testing.T, in io.Reader, args ...string) (c calls, stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	app := NewApp(Modes{
		Server:  func(_ context.Context, cfg *config.Server) error { c.what, c.server = "server", cfg; return nil },
		Agent:   func(_ context.Context, cfg *config.Agent) error { c.what, c.agent = "agent", cfg; return nil },
		Killall: func(_ context.Context, dir string) error { c.what, c.args = "killall", []string{dir}; return nil },
		Kubectl: func(_ context.Context, r *KubectlRun) error {
			c.what, c.args, c.tenant = "kubectl", r.Args, r.Tenant
			return nil
		},
		Ctr: func(_ context.Context, args []string) error { c.what, c.args = "ctr", args; return nil },
		Crictl: func(_ context.Context, dataDir string, args []string) error {
			c.what, c.args = "crictl "+dataDir, args
			return nil
		},
	})
	app.Stdin, app.Stdout, app.Stderr = in, &out, &errOut
	err = app.RunContext(t.Context(), append([]string{"a4s"}, args...))
	return c, out.String(), errOut.String(), err
}

// noConfig keeps a test from the configuration of the machine.
func noConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("A4S_CONFIG_FILE", path)
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"KUBECONFIG", "A4S_TENANT", "A4S_KUBECONFIG_OUTPUT", "A4S_DATA_DIR",
		"A4S_TOKEN", "A4S_URL"} {
		t.Setenv(name, "")
	}
	return path
}

func TestHelpAndVersion(t *testing.T) {
	noConfig(t)
	for _, tc := range []struct{ args, want string }{
		{"", "check-config"},
		{"-h", "check-config"},
		{"--help", "check-config"},
		{"help", "check-config"},
		{"-v", "Kubernetes "},
		{"--version", "Kubernetes "},
		{"version", "Kubernetes "},
		{"version -o json", `"name": "containerd"`},
		{"server -h", "--cluster-cidr CIDR"},
		{"server --help", "--cluster-cidr CIDR"},
		{"help server", "--cluster-cidr CIDR"},
		{"agent --debug --help", "--server URL"},
		{"token", "rotate"},
		{"token help create", "--ttl DURATION"},
		{"token create abc --help", "--ttl DURATION"},
		{"help kubectl", "Usage: a4s kubectl"},
		{"killall -h", "--data-dir PATH"},
	} {
		c, stdout, _, err := run(t, strings.Fields(tc.args)...)
		if err != nil || !strings.Contains(stdout, tc.want) || c.what != "" {
			t.Errorf("a4s %s: ran %q, err %v, output lacks %q:\n%s", tc.args, c.what, err, tc.want, stdout)
		}
	}
}

// TestVersionIsAFlagOfA4sAlone: the help of no command has it.
func TestVersionIsAFlagOfA4sAlone(t *testing.T) {
	noConfig(t)
	for _, path := range commandPaths() {
		if _, stdout, _, err := run(t, strings.Fields("help "+path)...); err != nil ||
			strings.Contains(stdout, "--version") {
			t.Errorf("a4s %s --help: %v\n%s", path, err, stdout)
		}
	}
	for _, args := range []string{"tenant create x --version", "tenant create x --version=raw", "status --version",
		"server --version", "tenant --version"} {
		if _, _, _, err := run(t, strings.Fields(args)...); !errors.Is(err, config.ErrUnknownFlag) {
			t.Errorf("a4s %s: %v", args, err)
		}
	}
}

func TestMistakesAreTyped(t *testing.T) {
	noConfig(t)
	for _, tc := range []struct {
		args string
		is   error
		want string // in the error
	}{
		{"servr", config.ErrUnknownCommand, `"server"`},
		{"help servr", config.ErrUnknownCommand, `"server"`},
		{"token creat", config.ErrUnknownCommand, `"create"`},
		{"--bogus", config.ErrUnknownFlag, "a4s --help"},
		{"server --tokn x", config.ErrUnknownFlag, "--token"},
		{"version -o yaml", nil, "table or json"},
		{"status --outptu json", config.ErrUnknownFlag, "--output"},
		{"token create --tll 1h", config.ErrUnknownFlag, "--ttl"},
		{"token create --ttl", config.ErrNoValue, "--ttl"},
		{"token create --ttl 1", nil, "a duration"},
		{"token create --ttl=-1h", nil, "--ttl"},
		{"token create x", nil, "6 lower-case"},
		{"token create a b", nil, "arguments of a4s token create"},
		{"token create --usages root", nil, "--usages"},
		{"token delete", config.ErrNoValue, "token list"},
		{"token delete X", nil, "token id"},
		{"token rotate --which node", nil, "--which"},
		{"token rotate --new-token abcdef.0123456789abcdef", nil, "--new-token"},
		{"etcd-member remove", config.ErrNoValue, "etcd-member list"},
		{"status now", nil, `"now"`},
		{"status -o yaml", nil, "table, wide or json"},
		{"status --kubeconfig /nonexistent", os.ErrNotExist, "--kubeconfig"},
		{"killall --data-dir relative", nil, "--data-dir"},
		{"version now", nil, "arguments of a4s version"},
		{"completion", config.ErrNoValue, "bash"},
		{"completion tcsh", nil, "bash"},
	} {
		c, _, _, err := run(t, strings.Fields(tc.args)...)
		var in *problem.Input
		if !errors.As(err, &in) || c.what != "" {
			t.Errorf("a4s %s: %v, want a problem.Input", tc.args, err)
			continue
		}
		if tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("a4s %s: %v, want %v and %q in it", tc.args, err, tc.is, tc.want)
		}
	}
}

// exits is an error that urfave/cli would end the process for, as that of a program that
// was run.
type exits struct{}

func (exits) Error() string { return "a program failed" }
func (exits) ExitCode() int { return 9 }

// TestErrorsOfProgramsReachMain: it ends the process, and with its own exit codes.
func TestErrorsOfProgramsReachMain(t *testing.T) {
	noConfig(t)
	app := NewApp(Modes{Killall: func(context.Context, string) error { return exits{} }})
	var out bytes.Buffer
	app.Stdout, app.Stderr = &out, &out
	if err := app.RunContext(t.Context(), []string{"a4s", "killall"}); !errors.Is(err, exits{}) || out.Len() > 0 {
		t.Errorf("%v, prints %q", err, out.String())
	}
}

func TestServerAndAgentGetTheirConfiguration(t *testing.T) {
	file := noConfig(t)
	if err := os.WriteFile(file, []byte("cluster-domain: a.b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, _, err := run(t, "server", "--debug", "--kubelet-arg", "feature-gates=A=true,B=true")
	if err != nil || c.what != "server" || c.server.ClusterDomain != "a.b" || !c.server.Agent.Debug ||
		len(c.server.Agent.KubeletArgs) != 1 {
		t.Errorf("server: %+v, %v", c, err)
	}
	c, _, stderr, err := run(t, "agent", "-s", "https://192.0.2.1:6443", "-t", "x")
	if err != nil || c.what != "agent" || !slices.Equal(c.agent.ServerURLs, []string{"https://192.0.2.1:6443"}) {
		t.Errorf("agent: %+v, %v", c, err)
	}
	if !strings.Contains(stderr, `"cluster-domain"`) {
		t.Errorf("no warning about the key of the server: %q", stderr)
	}
}

func TestKillallUsesTheDataDirOfTheFile(t *testing.T) {
	file := noConfig(t)
	if err := os.WriteFile(file, []byte("data-dir: /srv/a4s\nnode-name: n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, _, _, err := run(t, "killall"); err != nil || len(c.args) != 1 || c.args[0] != "/srv/a4s" {
		t.Errorf("killall: %+v, %v", c, err)
	}
	if c, _, _, err := run(t, "killall", "-d", "/x"); err != nil || len(c.args) != 1 || c.args[0] != "/x" {
		t.Errorf("killall -d: %+v, %v", c, err)
	}
}

func TestKubectlFindsTheAdminKubeconfig(t *testing.T) {
	dir := t.TempDir()
	admin := filepath.Join(dir, "a4s.yaml")
	if err := os.WriteFile(admin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const own = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: https://192.0.2.1}}]\n"
	for _, tc := range []struct {
		name, output, env string
		home              *string // what ~/.kube/config has
		args              []string
		want              string
	}{
		{name: "the user's own", output: admin, home: ptr(own), args: []string{"get", "pods"}, want: ""},
		{name: "the user's own and the environment", output: admin, home: ptr(own), env: "/other", want: "/other"},
		{name: "the user's own is empty", output: admin, home: ptr(""), want: admin},
		{name: "the user's own cannot be read", output: admin, home: ptr("{"), want: ""},
		{name: "unreadable", output: filepath.Join(admin, "below"), args: []string{"version", "--client"}, want: ""},
		{name: "default", output: admin, args: []string{"get", "pods", "-v"}, want: admin},
		{name: "environment", output: admin, env: "/other", want: "/other"},
		{name: "flag", output: admin, args: []string{"--kubeconfig", "/other"}, want: ""},
		{name: "flag with =", output: admin, args: []string{"get", "--kubeconfig=/other"}, want: ""},
		{name: "flag of another program", output: admin,
			args: []string{"exec", "p", "--", "x", "--kubeconfig=/other"}, want: admin},
		{name: "missing", output: filepath.Join(dir, "none"), want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noConfig(t)
			t.Setenv("A4S_KUBECONFIG_OUTPUT", tc.output)
			t.Setenv("KUBECONFIG", tc.env)
			if tc.home != nil {
				dir := filepath.Join(os.Getenv("HOME"), ".kube")
				if err := errors.Join(os.Mkdir(dir, 0o700),
					os.WriteFile(filepath.Join(dir, "config"), []byte(*tc.home), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			c, _, _, err := run(t, append([]string{"kubectl"}, tc.args...)...)
			if err != nil || c.what != "kubectl" || strings.Join(c.args, " ") != strings.Join(tc.args, " ") {
				t.Fatalf("ran %+v, %v", c, err)
			}
			if got := os.Getenv("KUBECONFIG"); got != tc.want {
				t.Errorf("KUBECONFIG = %q, want %q", got, tc.want)
			}
		})
	}
}

func ptr(s string) *string { return &s }

func TestCtrDefaults(t *testing.T) {
	noConfig(t)
	t.Setenv("CONTAINERD_ADDRESS", "")
	t.Setenv("CONTAINERD_NAMESPACE", "mine")
	c, _, _, err := run(t, "ctr", "images", "ls", "-q")
	if err != nil || strings.Join(c.args, " ") != "images ls -q" {
		t.Fatalf("%+v, %v", c, err)
	}
	if a, n := os.Getenv("CONTAINERD_ADDRESS"), os.Getenv("CONTAINERD_NAMESPACE"); a != containerdAddress ||
		n != "mine" {
		t.Errorf("address %q, namespace %q", a, n)
	}
}

func TestCrictlArguments(t *testing.T) {
	noConfig(t)
	c, _, _, err := run(t, "crictl", "--timeout", "5s", "ps", "--help")
	if err != nil || c.what != "crictl /var/lib/a4s" || strings.Join(c.args, " ") != "--timeout 5s ps --help" {
		t.Fatalf("%+v, %v", c, err)
	}
}
