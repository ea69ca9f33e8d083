package clients

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// canary is in everything that the other tenant has.
const canary = "zanzibar"

// foreign finds what no output may hold: names in composite form, the label of
// the spaces, and anything of the other tenant.
var foreign = regexp.MustCompile(`[a-z0-9]\.acme\b|\.tenant\b|\ba4s\.io/tenant\b|globex|` + canary)

// kubectl is the program with one kubeconfig, as one user has it.
type kubectl struct {
	kubeconfig, home string
	// program is kubectl, or a4s with its command of that name.
	program []string
	// everything is set for who may see everything.
	everything bool
	// allow is a part of foreign that the next output may hold.
	allow string
}

// newKubectl takes a copy of the kubeconfig, with the namespace as its default.
func newKubectl(t *testing.T, kubeconfig, namespace string) *kubectl {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Contexts[cfg.CurrentContext].Namespace = namespace
	k := &kubectl{home: t.TempDir(), program: []string{kubectlBinary()}}
	k.kubeconfig = filepath.Join(k.home, "config.yaml")
	if err := clientcmd.WriteToFile(*cfg, k.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return k
}

// newA4sKubectl is the kubectl of a4s, for an administrator of the cluster.
func newA4sKubectl(t *testing.T, kubeconfig string) *kubectl {
	t.Helper()
	k := newKubectl(t, kubeconfig, "default")
	k.program, k.everything = []string{os.Getenv(envBinary), "kubectl"}, true
	return k
}

func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.program[0], append(slices.Clone(k.program[1:]), args...)...)
	cmd.Env = []string{"HOME=" + k.home, "KUBECONFIG=" + k.kubeconfig, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + k.home,
		"KUBE_EDITOR=sed -i s/replicas:\\ 4/replicas:\\ 5/"}
	return cmd
}

// run runs a command whose arguments have no spaces in them; those that have,
// follow as more.
func (k *kubectl) run(t *testing.T, stdin, args string, more ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := k.command(ctx, append(strings.Fields(args), more...)...)
	cmd.Stdin = strings.NewReader(stdin)
	started := time.Now()
	defer func() {
		if took := time.Since(started); took > 2*time.Second {
			t.Logf("kubectl %s took %s", args, took.Round(100*time.Millisecond))
		}
	}()
	out, err := cmd.CombinedOutput()
	output = string(out)
	if ctx.Err() != nil {
		t.Fatalf("kubectl %s: %v\n%s", args, ctx.Err(), output)
	}
	k.check(t, args, output)
	return output, err
}

func (k *kubectl) check(t *testing.T, args, output string) {
	t.Helper()
	if k.everything {
		return
	}
	for _, found := range foreign.FindAllString(output, -1) {
		if k.allow == "" || found != k.allow {
			t.Errorf("kubectl %s: the output holds %q:\n%s", args, found, output)
			return
		}
	}
}

// in runs a command that reads stdin and must succeed.
func (k *kubectl) in(t *testing.T, stdin, args string, more ...string) string {
	t.Helper()
	out, err := k.run(t, stdin, args, more...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", args, err, out)
	}
	return out
}

// ok runs a command that must succeed.
func (k *kubectl) ok(t *testing.T, args string, more ...string) string {
	t.Helper()
	return k.in(t, "", args, more...)
}

// shows runs a command that must succeed and print something that each of the
// patterns matches; in them ^ and $ are those of lines.
func (k *kubectl) shows(t *testing.T, args string, patterns ...string) {
	t.Helper()
	match(t, args, k.ok(t, args), patterns)
}

// eventuallyShows waits for that.
func (k *kubectl) eventuallyShows(t *testing.T, args string, patterns ...string) {
	t.Helper()
	until := time.Now().Add(deadline)
	for {
		out := k.ok(t, args)
		if misses(out, patterns) == "" {
			return
		}
		if time.Now().After(until) {
			match(t, args, out, patterns)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// fails runs a command that must fail and say so in these patterns.
func (k *kubectl) fails(t *testing.T, args string, patterns ...string) {
	t.Helper()
	out, err := k.run(t, "", args)
	if err == nil {
		t.Errorf("kubectl %s did not fail:\n%s", args, out)
		return
	}
	match(t, args, out, patterns)
}

// misses returns the first pattern that does not match.
func misses(out string, patterns []string) string {
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(out) {
			return p
		}
	}
	return ""
}

func match(t *testing.T, args, out string, patterns []string) {
	t.Helper()
	if p := misses(out, patterns); p != "" {
		t.Errorf("kubectl %s: nothing matches %q:\n%s", args, p, out)
	}
}

// watch is a kubectl that runs on.
type watch struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *watch) output() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

func (k *kubectl) watch(t *testing.T, args string) *watch {
	t.Helper()
	w := &watch{}
	w.cmd = k.command(context.Background(), strings.Fields(args)...)
	w.cmd.Stdout, w.cmd.Stderr = w, w
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.cmd.Process.Signal(syscall.SIGKILL)
		_ = w.cmd.Wait()
		k.check(t, args, w.output())
	})
	return w
}

func (w *watch) shows(t *testing.T, patterns ...string) {
	t.Helper()
	eventually(t, "the output of a watch", func(context.Context) error {
		if p := misses(w.output(), patterns); p != "" {
			return &missing{p, w.output()}
		}
		return nil
	})
}

type missing struct{ pattern, output string }

func (m *missing) Error() string { return "nothing matches " + m.pattern + ":\n" + m.output }
