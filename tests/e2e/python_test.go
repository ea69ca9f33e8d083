package e2e

import (
	"context"
	_ "embed"
	"testing"
)

//go:embed testdata/pods.py
var pythonPods string

// TestPythonClientInPods runs a command in a pod and forwards its port with the
// official client for Python, as Debian packages it: it asks with GET over
// WebSocket, in the oldest protocol that there is.
func TestPythonClientInPods(t *testing.T) {
	t.Parallel()
	system := sharedCluster(t)
	tenant := system.makeTenant(t, "python")
	const kubeconfig = "/run/python-client.yaml"
	system.must(t, "tenant", "kubeconfig", "python", "--output", kubeconfig, "--server", system.url())
	pod := tenant.runPod(t, "default", testboxPod("box"))
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	r, err := system.host.Run(ctx, "/usr/bin/python3", "-c", pythonPods, kubeconfig, "default", pod.Name)
	if err != nil || r.ExitCode != 0 {
		t.Errorf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
}
