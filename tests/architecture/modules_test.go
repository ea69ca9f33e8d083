package architecture

import (
	"os/exec"
	"strings"
	"testing"
)

// TestClientsShareWhatIsBuilt: the module of the clients, which CI builds beside a4s, takes what both need in the
// same versions, and so does that of the Gateway API's suite. Otherwise the clients of Kubernetes are compiled twice,
// for minutes where the cache is empty.
func TestClientsShareWhatIsBuilt(t *testing.T) {
	ours := linked(t, "../..", ".")
	for dir, packages := range map[string][]string{
		"../clients":      {"-test", ".", "./operator"},
		"../gatewaysuite": {"-test", "."},
	} {
		shared := 0
		for module, version := range linked(t, dir, packages...) {
			want, both := ours[module]
			if both {
				shared++
			}
			if both && version != want {
				t.Errorf("%s has %s in %s, a4s has %s", dir, module, version, want)
			}
		}
		if shared < 50 {
			t.Errorf("%s shares %d modules", dir, shared)
		}
	}
}

// linked are the modules of the packages that are linked, with their versions.
func linked(t *testing.T, dir string, args ...string) map[string]string {
	t.Helper()
	const form = `{{with .Module}}{{.Path}} {{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", form}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		module, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if version != "" {
			modules[module] = version
		}
	}
	return modules
}
