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
	"github.com/a4s-io/a4s/tests/objectstore"
)

// A cluster goes back to what a snapshot has, with its pods, its nodes and
// their tokens, and those who watch it notice.
func TestRestoreOfASnapshot(t *testing.T) {
	t.Parallel()
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

	if r := c.a4s(t, "etcd-snapshot", "restore", name); r.ExitCode != 2 ||
		!strings.Contains(r.Stderr, "already running") {
		t.Errorf("restoring while the server runs: exit code %d, %s", r.ExitCode, r.Stderr)
	}
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if err := c.host.WriteFile(dataDir+"/foreign.tar", "no snapshot"); err != nil {
		t.Fatal(err)
	}
	if r := c.a4s(t, "etcd-snapshot", "restore", dataDir+"/foreign.tar"); r.ExitCode != 1 ||
		!strings.Contains(r.Stderr, "not a snapshot") {
		t.Errorf("restoring a foreign file: exit code %d, %s", r.ExitCode, r.Stderr)
	}
	if out := c.must(t, "etcd-snapshot", "restore", name); !strings.Contains(out,
		"is kept in "+dataDir+"/server-before-restore-") {
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
	if out := c.must(t, "kubectl", "-n", ns, "get", "secret", "hidden",
		"-o", "jsonpath={.data.k}"); out != "c2VjcmV0" {
		t.Errorf("the encrypted Secret has %q", out)
	}
	// The agent runs on, finds the cluster again and ends what it lacks now.
	hosts.Until(t, podTimeout, "the worker has found the restored server", func(ctx context.Context) error {
		lease, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(ctx, worker.host.Name,
			metav1.GetOptions{})
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

// A machine whose disk is lost comes back from the bucket, with the settings of
// the bucket only.
func TestRestoreFromS3(t *testing.T) {
	t.Parallel()
	program, err := objectstore.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	storage := newHost(t, "storage")
	s3, args, err := objectstore.Prepare(t.TempDir(), storage.IP.String()+":9000")
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := storage.Start(program, args...)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "backed-up")
	ca, err := os.ReadFile(s3.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"/etc/a4s/s3-ca.crt": string(ca), "/etc/a4s/config.yaml": fmt.Sprintf(
		"disable-agent: true\netcd-s3: true\netcd-s3-endpoint: %s\netcd-s3-endpoint-ca: /etc/a4s/s3-ca.crt\n"+
			"etcd-s3-bucket: %s\netcd-s3-folder: one\n"+
			"etcd-s3-access-key: %s\netcd-s3-secret-key: %s\netcd-s3-bucket-lookup-type: path\n"+
			"etcd-snapshot-schedule-cron: \"@every 3s\"\n",
		s3.Endpoint, objectstore.Bucket, objectstore.AccessKey, objectstore.SecretKey)} {
		if err := h.WriteFile(name, text); err != nil {
			t.Fatal(err)
		}
	}
	c, err := newServer(h)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	if _, err := c.client.CoreV1().ConfigMaps("default").
		Create(t.Context(), configMap("kept", "old"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(c.must(t, "etcd-snapshot", "save"))
	if len(lines) != 2 || !strings.HasPrefix(lines[1], "s3://"+objectstore.Bucket+"/one/on-demand-backed-up-") {
		t.Fatalf("saved %q", lines)
	}
	hosts.Until(t, podTimeout, "the schedule has copied a snapshot", func(context.Context) error {
		if out := c.must(t, "etcd-snapshot", "list"); strings.Count(out, "etcd-snapshot-backed-up-") < 2 {
			return fmt.Errorf("listed\n%s", out)
		}
		return nil
	})
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{"server", "snapshots"} {
		if err := os.RemoveAll(c.host.Path(filepath.Join(dataDir, lost))); err != nil {
			t.Fatal(err)
		}
	}
	if out := c.must(t, "etcd-snapshot", "restore", filepath.Base(lines[1])); !strings.Contains(out,
		"start the server now") {
		t.Errorf("restore says %q", out)
	}
	c.restart(t)
	if m, err := c.client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil ||
		m.Data["value"] != "old" {
		t.Errorf("the object: %v, %v", m.Data, err)
	}

	// Without the storage a snapshot is on this machine only, and that is said.
	if err := gateway.Stop(stopTimeout); err != nil {
		t.Error(err)
	}
	r := c.a4s(t, "etcd-snapshot", "save", "--etcd-s3-timeout", "20s")
	if r.ExitCode != 1 || !strings.Contains(r.Stderr, "is kept as "+strings.TrimSpace(r.Stdout)) ||
		!strings.Contains(r.Stderr, "--etcd-s3-") || strings.Contains(r.Stderr, objectstore.SecretKey) {
		t.Errorf("save without the storage: exit code %d\n%s\n%s", r.ExitCode, r.Stdout, r.Stderr)
	}
	log, err := os.ReadFile(c.proc.Log)
	if err != nil || strings.Contains(string(log), objectstore.SecretKey) {
		t.Errorf("the log has the secret in it, or %v", err)
	}
}
