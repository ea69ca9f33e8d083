package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/tests/hosts"
)

// TestRuntimesOfTheMachine: a runtime that is installed on a machine runs pods without a class
// after a restart that makes it the default, and pods that name its class; what ran goes on. A pod
// of a class that no node has waits, and a tenant has none of these classes if its Tenant does not
// list them. The runtime is runc by the name of crun: that of Debian 12 is too old for containerd.
func TestRuntimesOfTheMachine(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "machineruntimes")
	c.waitOwnNode(t)
	ns := c.namespace(t)
	of := func(name, class string) *corev1.Pod {
		p := testboxPod(name)
		if class != "" {
			p.Spec.RuntimeClassName = &class
		}
		return p
	}
	before := c.runPod(t, ns, of("before", ""))
	c.createPod(t, ns, of("waits", "crun"))
	c.waitsFor(t, ns, "waits", "1 node(s) didn't match Pod's node affinity/selector")

	found, err := filepath.Glob(c.host.Path(dataDir + "/data/*/bin/runc"))
	if err != nil || len(found) == 0 {
		t.Fatal(err, found)
	}
	carried, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	const program = "/opt/kwasm/bin/crun"
	if err := c.host.WriteFile(program, string(carried)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.host.Path(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	c.args = append(c.args, "--default-runtime", "crun")
	c.restart(t)
	hosts.Until(t, soon, "the node is labelled with its runtimes", func(ctx context.Context) error {
		n, err := c.client.CoreV1().Nodes().Get(ctx, c.host.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, handler := range []string{"crun", "runc", "containerd"} {
			if n.Labels[workload.HandlerLabel+handler] != workload.HandlerOffered {
				return fmt.Errorf("there is no label for %s", handler)
			}
		}
		return nil
	})
	pods := map[*corev1.Pod]string{c.waitPodReady(t, ns, "waits"): "crun",
		c.runPod(t, ns, of("plain", "")): "crun", c.runPod(t, ns, of("contained", "container")): "crun"}
	after := c.waitPodReady(t, ns, "before")
	if containerID(after) != containerID(before) {
		t.Errorf("the pod that ran was started anew: %+v", after.Status.ContainerStatuses)
	}
	pods[after] = "runc"
	for pod, runtime := range pods {
		dir := filepath.Join("/run/a4s/containerd", runtime, "k8s.io", containerID(pod))
		if _, err := os.Stat(c.host.Path(dir)); err != nil {
			t.Errorf("the pod %s does not run with %s: %v", pod.Name, runtime, err)
		}
	}
	c.createPod(t, ns, of("lost", "gvisor"))
	c.waitsFor(t, ns, "lost", "1 node(s) didn't match Pod's node affinity/selector")

	tenant := c.makeTenant(t, "guests")
	_, err = tenant.client.CoreV1().Pods("default").Create(t.Context(), of("theirs", "crun"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is for tenants whose list of RuntimeClasses") {
		t.Errorf("a tenant without a list makes a pod of the class crun: %v", err)
	}
}
