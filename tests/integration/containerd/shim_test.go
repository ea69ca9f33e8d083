package containerd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/embedded/payload"
)

// What a killed shim leaves goes, also where runc is slow or fails: upstream's
// containerd waits 5 seconds, once, and forgets the container then.
func TestContainersOfKilledShims(t *testing.T) {
	for _, tc := range []struct{ name, deletes string }{
		{"runc fails twice", `
	for id; do :; done
	failed=$(cat "$0.$id" 2>/dev/null || echo 0)
	if [ "$failed" -lt 2 ]; then
		echo $((failed + 1)) >"$0.$id"
		exit 1
	fi`},
		{"runc takes 7 seconds", `
	sleep 7`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t)
			carried, err := payload.Extract(n.ctx, n.Data)
			if err != nil {
				t.Fatal(err)
			}
			n.Runc = filepath.Join(n.Data, "runc")
			script := fmt.Sprintf("#!/bin/sh\ncase $* in *' delete --force '*)%s\nesac\nexec %s \"$@\"\n",
				tc.deletes, carried.RuncPath)
			if err := os.WriteFile(n.Runc, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			n.writeCNI()
			n.start()
			defer func() { n.stop() }()
			if err := n.importImages(n.ctx, logrus.WithField("test", t.Name())); err != nil {
				t.Fatal(err)
			}
			sandbox, container := n.runPod()
			// As the kubelet, which asks again: CRI learns of the end of the containers only after some time.
			defer n.waitFor("the pod is removed", func() bool {
				if _, err := n.runtime.StopPodSandbox(n.ctx,
					&runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
					return false
				}
				_, err := n.runtime.RemovePodSandbox(n.ctx,
					&runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
				return err == nil
			})
			was := n.kept(sandbox, container)
			if len(was) < 6 {
				t.Fatalf("of a pod that runs there are %q", was)
			}
			shim := pidOfCommand(n.Data, "\x00-id\x00"+sandbox+"\x00")
			if shim == 0 {
				t.Fatalf("no shim of %s runs", sandbox)
			}
			if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			n.waitFor("nothing is left of the containers", func() bool { return len(n.kept(sandbox, container)) == 0 })
		})
	}
}

// kept are the directories of runc, of the bundles and of the cgroups of containers.
func (n *node) kept(ids ...string) (all []string) {
	n.t.Helper()
	for _, id := range ids {
		for _, pattern := range []string{
			filepath.Join(n.State, "runc", "k8s.io", id),
			filepath.Join(n.State, "io.containerd.runtime.v2.task", "k8s.io", id),
			"/sys/fs/cgroup/*/k8s.io/" + id, "/sys/fs/cgroup/k8s.io/" + id,
		} {
			found, err := filepath.Glob(pattern)
			if err != nil {
				n.t.Fatal(err)
			}
			all = append(all, found...)
		}
	}
	return all
}
