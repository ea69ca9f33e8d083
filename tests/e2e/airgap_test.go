package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestAirGap installs a4s from its archive for machines without a network, on a
// host with no route anywhere, and runs a pod of an image in that archive.
func TestAirGap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive := filepath.Join(dir, "a4s-airgap.tar.zst")
	pack := exec.CommandContext(t.Context(), "scripts/airgap.sh", env.binary, archive)
	pack.Dir = filepath.Join("..", "..")
	pack.Env = append(os.Environ(), "ZSTD_LEVEL=1")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("packing: %v: %s", err, out)
	}

	h := newHost(t, "island")
	shell := func(script string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), podTimeout)
		defer cancel()
		r, err := h.Run(ctx, "/bin/sh", "-ec", script)
		if err != nil || r.ExitCode != 0 {
			t.Fatalf("%s: %v, exit code %d\n%s%s", script, err, r.ExitCode, r.Stdout, r.Stderr)
		}
		return r.Stdout
	}
	shell("ip route del default")
	shell(fmt.Sprintf("cd %s && tar --zstd -xf a4s-airgap.tar.zst && cd a4s-airgap && sha256sum -c --quiet *.sha256",
		dir))
	unpacked := filepath.Join(dir, "a4s-airgap")
	install := fmt.Sprintf("INSTALL_A4S_ARTIFACT_PATH=%s INSTALL_A4S_BIN_DIR=%s/bin "+
		"INSTALL_A4S_SYSTEMD_DIR=%s/systemd INSTALL_A4S_SKIP_ENABLE=true INSTALL_A4S_SYMLINK=skip sh %s/install.sh",
		unpacked, dir, dir, unpacked)

	// An archive that was damaged on its way installs nothing.
	program := filepath.Join(unpacked, "a4s-linux-"+runtime.GOARCH)
	shell(fmt.Sprintf("mkdir -p %[1]s/bin %[1]s/systemd; cp %[2]s %[1]s/good; echo x >>%[2]s", dir, program))
	shell(install + " 2>&1 | tee /dev/stderr | grep -q checksum; test ! -e " + dir + "/bin/a4s")
	shell(fmt.Sprintf("mv %s/good %s", dir, program))
	shell(install)

	c := &cluster{node: node{host: h, args: []string{"server"}, binary: filepath.Join(dir, "bin", "a4s")}}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	c.waitOwnNode(t)

	version := strings.Fields(shell(dir + "/bin/a4s --version"))[1]
	ns := c.namespace(t)
	pod, err := c.client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "version"},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "a4s", Image: "docker.io/a4s/a4s:" + version, ImagePullPolicy: corev1.PullIfNotPresent,
			Args: []string{"--version"},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, podTimeout, "a pod of the archive's image has ended well", func(ctx context.Context) error {
		got, err := c.client.CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.Status.Phase != corev1.PodSucceeded {
			return errors.New(string(got.Status.Phase) + " " + fmt.Sprint(got.Status.ContainerStatuses))
		}
		return nil
	})
	if said := c.logs(t, ns, pod.Name); !strings.Contains(said, version) {
		t.Errorf("the pod said %q, want %s in it", said, version)
	}
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Error(err)
	}
}
