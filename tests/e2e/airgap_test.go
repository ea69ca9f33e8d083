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
	c.laterArchives(t, ns)
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Error(err)
	}
}

// laterArchives puts archives into agent/images while a4s runs, a broken one among them. Pods run what is
// in the others, and the kubelet has it on record that every pod may.
func (c *cluster) laterArchives(t *testing.T, ns string) {
	t.Helper()
	if err := errors.Join(c.host.WriteFile(dataDir+"/agent/images/broken.tar", "no archive"),
		c.importImages()); err != nil {
		t.Fatal(err)
	}
	logged := func(text, archive string) (n int) {
		log, err := os.ReadFile(c.proc.Log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, text) && strings.Contains(line, "/agent/images/"+archive) {
				n++
			}
		}
		return n
	}
	for _, image := range env.images {
		name := filepath.Base(image)
		hosts.Until(t, soon, name+" is imported while a4s runs", func(context.Context) error {
			if logged("imported 1 image(s)", name) == 0 {
				return errors.New("the log does not say so")
			}
			return nil
		})
	}
	c.runPod(t, ns, testboxPod("later"))
	if n := logged("cannot import this image archive", "broken.tar"); n != 1 {
		t.Errorf("the log has %d lines about the broken archive, want 1", n)
	}
	hosts.Until(t, soon, "everybody may use an image that came later", func(context.Context) error {
		records, err := filepath.Glob(c.host.Path(dataDir + "/agent/kubelet/image_manager/pulled/*"))
		for _, path := range records {
			record, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.Contains(string(record), `"docker.io/a4s/testbox":{"nodePodsAccessible":true}`) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("none of %v says so", records))
	})
}
