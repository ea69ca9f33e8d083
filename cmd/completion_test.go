package cmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/internal/problem"
)

func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	_, script, _, err := run(t, "completion", "bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	fake := "#!/bin/sh\n[ \"$*\" = 'tenant list --output name' ] && printf 'tenant/team-a\ntenant/b\n'\n" +
		"[ \"$*\" = 'kubectl __complete get po' ] && printf 'pods\\tthe pods\\npodtemplates\\n:4\\n'\n" +
		"[ \"$*\" = 'kubectl __complete get --ten' ] && printf -- '--tenant\tthe space\\n:4\\n'\n" +
		"[ \"$*\" = 'kubectl __complete --tenant t' ] && printf 'team-a\\n:4\\n'\n"
	if err := os.WriteFile(filepath.Join(dir, "a4s"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{[]string{"a4s", "se"}, "server secrets-encrypt"},
		{[]string{"a4s", "secrets-encrypt", "ro"}, "rotate"},
		{[]string{"a4s", "token", "de"}, "delete"},
		{[]string{"a4s", "token", "create", "--tt"}, "--ttl"},
		{[]string{"a4s", "etcd-m"}, "etcd-member"},
		{[]string{"a4s", "etcd-member", "r"}, "remove"},
		{[]string{"a4s", "server", "--cluster-i"}, "--cluster-init"},
		{[]string{"a4s", "server", "--cluster-c"}, "--cluster-cidr"},
		{[]string{"a4s", "server", "--flannel-backend", ""}, "vxlan host-gw none"},
		{[]string{"a4s", "server", "--debug", "-c", "x"}, "x.yaml"},
		{[]string{"a4s", "completion", ""}, "bash zsh fish --help"},
		{[]string{"a4s", "kubectl", "get", "po"}, "pods podtemplates"},
		{[]string{"a4s", "kubectl", "get", "--ten"}, "--tenant"},
		{[]string{"a4s", "kubectl", "--tenant", "t"}, "team-a"},
		{[]string{"a4s", "tenant", "delete", "t"}, "team-a"},
		{[]string{"a4s", "tenant", "delete", "--adm"}, "--admin-kubeconfig"},
		{[]string{"a4s", "tenant", "list", "--output", ""}, "table wide json yaml name"},
		{[]string{"a4s", "tenant", "kubeconfig", "b", "--output", "x"}, "x.yaml"},
		{[]string{"a4s", "status", "--output", ""}, "table json"},
		{[]string{"a4s", "doctor", "--output", ""}, "table json"},
	} {
		quoted := make([]string, len(tc.words))
		for i, w := range tc.words {
			quoted[i] = fmt.Sprintf("%q", w)
		}
		c := exec.Command(bash, "--norc", "-c", fmt.Sprintf(`PATH=%s:$PATH; source ./s && COMP_WORDS=(%s) `+
			`COMP_CWORD=%d && _a4s && echo "${COMPREPLY[@]}"`, dir, strings.Join(quoted, " "), len(tc.words)-1))
		c.Dir = dir
		out, err := c.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != tc.want {
			t.Errorf("%q completes to %q, %v; want %q", tc.words, got, err, tc.want)
		}
	}
}

func TestOtherShells(t *testing.T) {
	for shell, want := range map[string]string{
		"zsh":  "bashcompinit\n_a4s()",
		"fish": "complete -c a4s -n '__fish_seen_subcommand_from server' -l data-dir -s d -r -F -d ",
	} {
		if _, out, _, err := run(t, "completion", shell); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, lacks %q:\n%s", shell, err, want, out)
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
