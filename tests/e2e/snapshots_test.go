package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// A cluster goes back to what a snapshot has, with its pods, its nodes and
// their tokens, and those who watch it notice.
func TestRestoreOfASnapshot(t *testing.T) {
	c := ownCluster(t, "restored", "--secrets-encryption")
	c.waitOwnNode(t)
	worker := newAgent(t, "restored-worker", c)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	ns := c.namespace(t)
	api := c.client.CoreV1().ConfigMaps(ns)
	c.runPod(t, ns, on(worker.host.Name, testboxPod("lasting")))
	instance, err := c.ask(t.Context(), ns, "lasting", "/instance")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Create(t.Context(), configMap("kept", "old"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.must(t, "kubectl", "-n", ns, "create", "secret", "generic", "hidden", "--from-literal=k=secret")

	path := strings.TrimSpace(c.must(t, "etcd-snapshot", "save"))
	name := filepath.Base(path)
	if !strings.HasPrefix(name, "on-demand-restored-") || !strings.Contains(c.must(t, "etcd-snapshot", "list"), name) {
		t.Errorf("saved %s, listed\n%s", path, c.must(t, "etcd-snapshot", "list"))
	}
	if info, err := os.Stat(c.host.Path(path)); err != nil || info.Mode() != 0o600 {
		t.Errorf("the snapshot has mode %v, %v", info, err)
	}

	// Everything changes, and so do the watches that kubelets have.
	if err := api.Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Create(t.Context(), configMap("later", "gone"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.must(t, "kubectl", "-n", ns, "delete", "secret", "hidden")
	c.runPod(t, ns, on(worker.host.Name, testboxPod("later")))

	if r := c.a4s(t, "etcd-snapshot", "restore", name); r.ExitCode != 2 || !strings.Contains(r.Stderr, "already running") {
		t.Errorf("restoring while the server runs: exit code %d, %s", r.ExitCode, r.Stderr)
	}
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if err := c.host.WriteFile("/tmp/foreign.tar", "no snapshot"); err != nil {
		t.Fatal(err)
	}
	if r := c.a4s(t, "etcd-snapshot", "restore", "/tmp/foreign.tar"); r.ExitCode != 1 || !strings.Contains(r.Stderr, "not a snapshot") {
		t.Errorf("restoring a foreign file: exit code %d, %s", r.ExitCode, r.Stderr)
	}
	if out := c.must(t, "etcd-snapshot", "restore", name); !strings.Contains(out, "is kept in "+dataDir+"/server-before-restore-") {
		t.Errorf("restore says %q", out)
	}

	c.restart(t)
	c.waitOwnNode(t)
	if m, err := api.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || m.Data["value"] != "old" {
		t.Errorf("the deleted object: %v, %v", m.Data, err)
	}
	if _, err := api.Get(t.Context(), "later", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object that was made afterwards: %v, want that it is not found", err)
	}
	if out := c.must(t, "kubectl", "-n", ns, "get", "secret", "hidden", "-o", "jsonpath={.data.k}"); out != "c2VjcmV0" {
		t.Errorf("the encrypted Secret has %q", out)
	}
	// The agent runs on, finds the cluster again and ends what it lacks now.
	hosts.Until(t, podTimeout, "the worker has found the restored server", func(ctx context.Context) error {
		lease, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(ctx, worker.host.Name, metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Time.Before(c.started) {
			err = fmt.Errorf("its last sign of life is of %s", lease.Spec.RenewTime)
		}
		return err
	})
	c.waitAnswer(t, ns, "lasting", instance, "/instance")
	hosts.Until(t, podTimeout, "the pod that no longer exists has ended", func(ctx context.Context) error {
		out := run(t, worker.host, env.binary, "ctr", "-n", "k8s.io", "containers", "ls")
		if n := strings.Count(out, testboxImage); n != 1 {
			return fmt.Errorf("%d containers of the image:\n%s", n, out)
		}
		return nil
	})
	c.runPod(t, ns, on(worker.host.Name, testboxPod("fresh")))
	c.waitAnswer(t, ns, "fresh", "lasting", "/get", "url", "http://"+c.podIP(t, ns, "lasting")+":8080/hostname")
}
