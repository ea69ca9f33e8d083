package cmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		{[]string{"tenant", "delete", "--kub"}, "--kubeconfig"},
		{[]string{"tenant", "list", "--output", ""}, "table wide json yaml name"},
		{[]string{"tenant", "kubeconfig", "b", "--output", "x"}, ":"},
		{[]string{"status", "--output", ""}, "table wide json"},
		{[]string{"doctor", "--output", ""}, "table json"},
		{[]string{"top", "te"}, "tenants"},
		{[]string{"support-bundle", "--output", ""}, ":"},
		{[]string{"top", "tenants", "--output", ""}, "table json"},
	} {
		_, out, _, err := run(t, append([]string{plainRequest}, tc.words...)...)
		lines := strings.Fields(out)
		if err != nil || len(lines) == 0 {
			t.Fatalf("%q: %v\n%s", tc.words, err, out)
		}
		got := strings.Join(lines[:len(lines)-1], " ")
		if lines[len(lines)-1] == fmt.Sprintf(":%d", offerFiles) {
			got += ":"
		}
		if got != tc.want {
			t.Errorf("%q completes to %q, want %q", tc.words, got, tc.want)
		}
	}
}

func TestKubectlCompletesItself(t *testing.T) {
	noConfig(t)
	c, _, _, err := run(t, completionRequest, "kubectl", "get", "--ten")
	if err != nil || c.what != "kubectl" || strings.Join(c.args, " ") != "__complete get --ten" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTenantsAreCompleted(t *testing.T) {
	f := newFakeTenants(t, "team-a", "b")
	t.Setenv("KUBECONFIG", f.kubeconfig)
	_, out, _, err := run(t, plainRequest, "tenant", "delete", "t")
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

// TestMain lets the test be a4s for a shell that it starts.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		m.Run()
		return
	}
	app := NewApp(Modes{Kubectl: func(_ context.Context, k *KubectlRun) error {
		_, err := fmt.Println("pods/\tfor " + strings.Join(k.Args, ",") + "\n:6")
		return err
	}})
	if err := app.RunContext(context.Background(), append([]string{"a4s"}, os.Args[1:]...)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

const asProgram = "A4S_TEST_AS_PROGRAM"

// TestShellsComplete has shells that are there run their scripts. zsh completes at a
// terminal only, so what it would be told is printed instead.
func TestShellsComplete(t *testing.T) {
	f := newFakeTenants(t, "team-a", "team-b", "c")
	t.Setenv("KUBECONFIG", f.kubeconfig)
	t.Setenv("COLUMNS", "80")
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("a4s", fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", asProgram, program))
	write("x.yaml", "")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	shells := map[string]func(words []string) string{
		"bash": func(words []string) string {
			return fmt.Sprintf("source ./script; f=$(complete -p a4s); f=${f#* -F }; COMP_WORDS=(%s); COMP_CWORD=%d; "+
				"COMP_TYPE=9; ${f%% *}; printf '%%s\\n' \"${COMPREPLY[@]}\"", strings.Join(words, " "), len(words)-1)
		},
		"zsh": func(words []string) string {
			return fmt.Sprintf("compdef() { :; }; _describe() { print -l -- ${(P)3} }; "+
				"_files() { print -l -- $PREFIX* }; compset() { :; }; source ./script; words=(%s); "+
				"CURRENT=%d; PREFIX=${words[CURRENT]}; _a4s",
				strings.Join(words, " "), len(words))
		},
		"fish": func(words []string) string {
			line := strings.ReplaceAll(strings.Join(words, " "), "''", "")
			return fmt.Sprintf("source ./script; complete -C '%s'", line)
		},
	}
	for shell, command := range shells {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		_, script, _, err := run(t, "completion", shell)
		if err != nil {
			t.Fatal(err)
		}
		write("script", script)
		for _, tc := range []struct{ line, want string }{
			{"a4s se", "secrets-encrypt server"},
			{"a4s token cr", "create"},
			{"a4s tenant delete te", "team-a team-b"},
			{"a4s tenant delete team-a ''", ""},
			{"a4s node drain ''", "n1 n2"},
			{"a4s node drain n1 ''", "n2"},
			{"a4s tenant list --output ''", "table wide json yaml name"},
			{"a4s tenant list --outp", "--output"},
			{"a4s server --cluster-i", "--cluster-init"},
			{"a4s server --debug -c x", "x.yaml"},
			{"a4s kubectl get -- po", "pods/"},
		} {
			c := exec.Command(path, "-c", command(strings.Fields(tc.line)))
			c.Dir = dir
			out, err := c.CombinedOutput()
			var got []string
			for line := range strings.Lines(string(out)) {
				// What follows is the meaning.
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				word, _, _ = strings.Cut(word, "  ")
				if word, _, _ = strings.Cut(word, ":"); word != "" {
					got = append(got, word)
				}
			}
			slices.Sort(got)
			want := strings.Fields(tc.want)
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s completes %q to %q, %v; want %q\n%s", shell, tc.line, got, err, want, out)
			}
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
