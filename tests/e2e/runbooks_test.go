package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/runbooks"
)

// runbookTimeout is for one command of a runbook, and for what it waits for.
const runbookTimeout = 3 * time.Minute

// runbook is one section of docs/operate/runbooks.md. A test makes the fault, runs the commands as
// they are written there, and sees what is said to be printed. At its end it must have done all
// that runbooks.Decisions says of it.
type runbook struct {
	t       *testing.T
	page    runbooks.Runbook
	decided map[string]runbooks.Decision
	done    map[string]bool
	// names are of the page, each before what the test has instead.
	names []string
}

// openRunbook skips the test unless somebody asked for it.
func openRunbook(t *testing.T, title string) *runbook {
	t.Helper()
	if os.Getenv("A4S_RUNBOOKS") == "" {
		t.Skip("A4S_RUNBOOKS is not set: make test-runbooks runs this")
	}
	books, err := runbooks.Read(runbooks.Page)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(books, func(r runbooks.Runbook) bool { return r.Title == title })
	if i < 0 {
		t.Fatalf("the page has no runbook %q", title)
	}
	b := &runbook{t: t, page: books[i], decided: runbooks.Decisions()[title], done: map[string]bool{}}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		for text, d := range b.decided {
			if d.How != runbooks.NotDone && !b.done[text] {
				t.Errorf("the test has not done %q", text)
			}
		}
	})
	return b
}

// take notes that something of the page is done, in the way that is decided.
func (b *runbook) take(text string, how runbooks.How) {
	b.t.Helper()
	if !slices.Contains(b.page.Commands, text) && !slices.Contains(b.page.Shows, text) {
		b.t.Fatalf("the page does not have %q", text)
	}
	if d := b.decided[text]; d.How != how {
		b.t.Fatalf("about %q something else is decided: %+v", text, d)
	}
	b.done[text] = true
}

// instead says that the test does in its own way what a command is for.
func (b *runbook) instead(command string) {
	b.t.Helper()
	b.take(command, runbooks.Otherwise)
}

// sets notes that the test has a setting of the page.
func (b *runbook) sets(setting string) {
	b.t.Helper()
	b.take(setting, runbooks.AsWritten)
}

// line is a command for a shell, with the names of the test. Those of the call come first.
func (b *runbook) line(command string, names []string) string {
	return fmt.Sprintf("export no_proxy='*'; a4s() { %s \"$@\"; }; %s", env.binary,
		strings.NewReplacer(slices.Concat(names, b.names)...).Replace(command))
}

// run runs a command as it is written.
func (b *runbook) run(h *hosts.Host, command string, names ...string) hosts.Result {
	b.t.Helper()
	b.take(command, runbooks.AsWritten)
	ctx, cancel := context.WithTimeout(b.t.Context(), runbookTimeout)
	defer cancel()
	r, err := h.Run(ctx, "sh", "-c", b.line(command, names))
	if err != nil {
		b.t.Fatalf("%s: %v", command, err)
	}
	noTrace(b.t, r.Stdout+r.Stderr)
	return r
}

// must is run for what has to succeed. It returns all that was printed.
func (b *runbook) must(h *hosts.Host, command string, names ...string) string {
	b.t.Helper()
	r := b.run(h, command, names...)
	if r.ExitCode != 0 {
		b.t.Fatalf("%s: exit code %d\n%s%s", command, r.ExitCode, r.Stdout, r.Stderr)
	}
	b.t.Logf("%s\n%s%s", command, r.Stdout, r.Stderr)
	return r.Stdout + r.Stderr
}

// start begins a command that waits for something.
func (b *runbook) start(h *hosts.Host, command string, names ...string) *hosts.Process {
	b.t.Helper()
	b.take(command, runbooks.AsWritten)
	p, err := h.Start("sh", "-c", b.line(command, names))
	if err != nil {
		b.t.Fatalf("%s: %v", command, err)
	}
	return p
}

// shown is an error while the page says that something is printed that is not.
func (b *runbook) shown(text, out string) error {
	b.t.Helper()
	pattern := runbooks.Pattern(text, b.names...)
	found := pattern.FindString(out)
	if found == "" {
		return fmt.Errorf("%q is not in\n%s", pattern, out)
	}
	if !b.done[text] {
		b.t.Logf("the page says %q, and it is %q", text, found)
	}
	b.take(text, runbooks.AsWritten)
	return nil
}

// sees is shown for what is printed already.
func (b *runbook) sees(text, out string) {
	b.t.Helper()
	if err := b.shown(text, out); err != nil {
		b.t.Error(err)
	}
}

// until runs a command until it prints what the page says.
func (b *runbook) until(h *hosts.Host, command string, texts ...string) string {
	b.t.Helper()
	var out string
	hosts.Until(b.t, runbookTimeout, fmt.Sprintf("%q on %s prints what the page says", command, h.Name),
		func(context.Context) error {
			r := b.run(h, command)
			out = r.Stdout + r.Stderr
			for _, text := range texts {
				if err := b.shown(text, out); err != nil {
					return err
				}
			}
			return nil
		})
	return out
}

// gone runs a command until it does not print any more what the page says.
func (b *runbook) gone(h *hosts.Host, command string, texts ...string) {
	b.t.Helper()
	hosts.Until(b.t, runbookTimeout, fmt.Sprintf("%q on %s is well again", command, h.Name),
		func(context.Context) error {
			r := b.run(h, command)
			for _, text := range texts {
				if found := runbooks.Pattern(text, b.names...).FindString(r.Stdout + r.Stderr); found != "" {
					return fmt.Errorf("it prints %q", found)
				}
			}
			return nil
		})
}

// logs waits until a process has said something.
func (b *runbook) logs(p *hosts.Process, text string) {
	b.t.Helper()
	hosts.Until(b.t, runbookTimeout, fmt.Sprintf("the log says %q", text), func(context.Context) error {
		err := b.shown(text, p.Output())
		if err != nil {
			return errors.New(hosts.LastLines(p.Log, 10))
		}
		return nil
	})
}

// joins starts an agent that is not expected to join at once.
func joins(t *testing.T, name string, c *cluster, token string) *node {
	t.Helper()
	n := &node{host: newHost(t, name), args: []string{"agent", "--server", c.url(), "--token", token}}
	t.Cleanup(func() {
		if t.Failed() {
			n.printLogs(t)
		}
	})
	return n
}

func TestRunbookNodeDoesNotJoin(t *testing.T) {
	b := openRunbook(t, "A node does not join")
	c := ownCluster(t, "rb-join", "--disable-agent")
	worker := joins(t, "rb-joins", c, c.nodeToken(t))
	b.names = []string{"SERVER", c.host.IP.String(), "Ready", worker.host.Name + " Ready"}
	const curl, nodes = "curl -k https://SERVER:6443/cacerts", "a4s kubectl get nodes"

	// A server that does not run.
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if err := worker.start(); err != nil {
		t.Fatal(err)
	}
	b.logs(worker.proc, "waiting for the server to let this node join: ...")
	if r := b.run(worker.host, curl); r.ExitCode == 0 {
		t.Errorf("a server that does not run answers %s", r.Stdout)
	}
	c.restart(t)
	if out := b.must(worker.host, curl); !strings.Contains(out, "BEGIN CERTIFICATE") {
		t.Errorf("the answer is %s", out)
	}
	b.logs(worker.proc, "joined the cluster")
	b.until(c.host, nodes, "Ready")

	// A token that was cut.
	password, _, _ := strings.Cut(c.nodeToken(t), "::")
	second := joins(t, "rb-cut", c, password)
	r := second.a4s(t, second.args...)
	wantProblem(t, r, 1)
	b.sees("--token:", r.Stderr)
	second.args[len(second.args)-1] = strings.TrimSpace(b.run(c.host, "a4s token create").Stdout)
	if err := second.start(); err != nil {
		t.Fatal(err)
	}
	b.logs(second.proc, "joined the cluster")
	b.names = []string{"Ready", second.host.Name + " Ready"}
	b.until(c.host, nodes, "Ready")
	if out := b.run(second.host, "a4s doctor").Stdout; !strings.Contains(out, "runs as node "+second.host.Name) {
		t.Errorf("the doctor says %s", out)
	}
}

func TestRunbookTenantTerminating(t *testing.T) {
	b := openRunbook(t, "A tenant stays in Terminating")
	b.names = []string{"KIND", "configmap", "NAMESPACE", "default", "NAME", "held",
		"FINALIZER", "example.com/hold", "MANAGER", "..."}
	const gone = "tenant team-a deleted"
	c := ownCluster(t, "rb-tenant")
	c.waitOwnNode(t)
	// What its own operator would have to take off, and never does.
	hold := func() *cluster {
		t.Helper()
		own := c.makeTenant(t, "team-a")
		held := configMap("held", "x")
		held.Finalizers = []string{"example.com/hold"}
		if _, err := own.client.CoreV1().ConfigMaps("default").
			Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return own
	}
	hold().runPod(t, "default", testboxPod("operator"))
	c.must(t, "tenant", "delete", "team-a", "--wait=false")
	waits := b.start(c.host, "a4s tenant delete team-a")
	b.logs(waits, "tenant team-a is being deleted already waiting for ...")
	b.until(c.host,
		`a4s kubectl get tenant team-a -o jsonpath='{.status.conditions[?(@.type=="SpaceEmpty")].message}'`,
		"waiting for the end of ... is held by FINALIZER (set by MANAGER) ...; the workloads of the tenant run "+
			"until ..., because its operators may be what takes finalizers off")
	b.must(c.host, "a4s kubectl describe pv")
	b.must(c.host, "a4s kubectl --tenant team-a patch KIND NAME -n NAMESPACE --type merge "+
		`-p '{"metadata":{"finalizers":null}}'`)
	if code, err := waits.ExitCode(runbookTimeout); err != nil || code != 0 {
		t.Fatalf("the deletion: exit code %d, %v\n%s", code, err, waits.Output())
	}
	b.sees(gone, waits.Output())

	hold()
	c.must(t, "tenant", "delete", "team-a", "--wait=false")
	out := b.must(c.host, "a4s tenant delete team-a --force")
	b.sees(gone, out)
	if !strings.Contains(out, "dropped finalizers of") || !strings.Contains(out, "example.com/hold") {
		t.Errorf("it does not print what it drops: %s", out)
	}
	c.must(t, "tenant", "create", "team-a", "--output", "/run/again.yaml")
}

// lastWord is the last line of a log that says why a4s ended, "" if none does.
func lastWord(p *hosts.Process, lines int) (last string) {
	for line := range strings.Lines(hosts.LastLines(p.Log, lines)) {
		if strings.HasPrefix(line, "a4s:") {
			last = strings.TrimSpace(line)
		}
	}
	return last
}
