package clients

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"testing"
)

//go:embed testdata/python/client.py
var pythonClient string

// debianPython is the interpreter that Debian's packages are for.
const debianPython = "/usr/bin/python3"

// TestPythonClient lists and watches with the official client for Python, as
// Debian packages it, in both tenants. It spells the parameters of a watch in
// its own way. That it reaches into pods is tested where there are pods, in
// tests/e2e.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	for _, s := range []*space{acme, globex} {
		for kind, kubeconfig := range map[string]string{"prefix": s.prefixed, "identity": s.byIdentity} {
			t.Run(s.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				cmd := exec.CommandContext(ctx, debianPython, "-c", pythonClient, kubeconfig, "python-"+kind)
				cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
