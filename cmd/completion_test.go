package cmd

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/internal/problem"
)

// TestCompletion asks as the scripts of the shells do.
func TestCompletion(t *testing.T) {
	noConfig(t)
	for _, tc := range []struct {
		words []string
		want  string // and a colon if the shell completes files
	}{
		{[]string{"se"}, "secrets-encrypt server"},
		{[]string{"secrets-encrypt", "ro"}, "rotate"},
		{[]string{"token", "de"}, "delete"},
		{[]string{"token", "create", "--tt"}, "--ttl"},
		{[]string{"etcd-m"}, "etcd-member"},
		{[]string{"etcd-member", "r"}, "remove"},
		{[]string{"server", "--cluster-i"}, "--cluster-init"},
		{[]string{"server", "--cluster-c"}, "--cluster-cidr"},
		{[]string{"server", "--flannel-backend", ""}, "vxlan host-gw none"},
		{[]string{"server", "--debug", "-c", "x"}, ":"},
		{[]string{"completion", ""}, "bash zsh fish"},
		{[]string{"tenant", "delete", "--adm"}, "--admin-kubeconfig"},
		{[]string{"tenant", "list", "--output", ""}, "table wide json yaml name"},
		{[]string{"tenant", "kubeconfig", "b", "--output", "x"}, ":"},
		{[]string{"status", "--output", ""}, "table json"},
		{[]string{"doctor", "--output", ""}, "table json"},
	} {
		_, out, _, err := run(t, append([]string{cobra.ShellCompNoDescRequestCmd}, tc.words...)...)
		lines := strings.Fields(out)
		if err != nil || len(lines) == 0 {
			t.Fatalf("%q: %v\n%s", tc.words, err, out)
		}
		got := strings.Join(lines[:len(lines)-1], " ")
		if lines[len(lines)-1] == fmt.Sprintf(":%d", cobra.ShellCompDirectiveDefault) {
			got += ":"
		}
		if got != tc.want {
			t.Errorf("%q completes to %q, want %q", tc.words, got, tc.want)
		}
	}
}

func TestKubectlCompletesItself(t *testing.T) {
	noConfig(t)
	c, _, _, err := run(t, cobra.ShellCompRequestCmd, "kubectl", "get", "--ten")
	if err != nil || c.what != "kubectl" || strings.Join(c.args, " ") != "__complete get --ten" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTenantsAreCompleted(t *testing.T) {
	f := newFakeTenants(t, "team-a", "b")
	t.Setenv("KUBECONFIG", f.kubeconfig)
	_, out, _, err := run(t, cobra.ShellCompNoDescRequestCmd, "tenant", "delete", "t")
	if err != nil || !strings.HasPrefix(out, "team-a\n:") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestScriptsOfShells(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_a4s", "zsh": "#compdef a4s",
		"fish": "complete -c a4s"} {
		_, script, _, err := run(t, "completion", shell)
		if err != nil || !strings.Contains(script, want) {
			t.Errorf("%s: %v, lacks %q:\n%.300s", shell, err, want, script)
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		check := exec.Command(program, "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s does not read its script: %v\n%s", shell, err, out)
		}
	}
}

func TestReportFailsOnlyOnFailures(t *testing.T) {
	results := []checkconfig.Result{{Level: checkconfig.Pass, Name: "a", Found: "x"},
		{Level: checkconfig.Warn, Name: "b", Found: "y", Fix: "z"}}
	var b strings.Builder
	if err := report(&b, results); err != nil || !strings.Contains(b.String(), "fix: z") {
		t.Errorf("warnings only: %v\n%s", err, b.String())
	}
	err := report(&b, append(results, checkconfig.Result{Level: checkconfig.Fail, Name: "c"}))
	if problem.ExitCode(err) != problem.ExitPrecondition {
		t.Errorf("a failure: %v", err)
	}
}
