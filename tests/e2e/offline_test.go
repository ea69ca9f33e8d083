package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// boxPod is a pod for the bootstrap API. It has the network of the node only if
// there is no other.
func boxPod(name string, hostNetwork bool) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {app: box}
spec:
  hostNetwork: %t
  terminationGracePeriodSeconds: 1
  containers:
  - name: box
    image: `+testboxImage+`
    imagePullPolicy: IfNotPresent
    args: [sleep]
`, name, hostNetwork)
}

// applyPod has the node of a host run a pod, as soon as it takes pods.
func (n *node) applyPod(t *testing.T, name, manifest string) {
	t.Helper()
	file := "/etc/a4s/" + name + ".yaml"
	if err := n.host.WriteFile(file, manifest); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, startTimeout, "the node takes pod "+name, func(ctx context.Context) error {
		result, err := n.host.Run(ctx, env.binary, "bootstrap", "apply", "-f", file)
		if err == nil && result.ExitCode != 0 {
			err = errors.New(result.Stderr)
		}
		return err
	})
}

// bootstrapPods asks the node of a host for its bootstrap pods.
func (n *node) bootstrapPods(ctx context.Context) ([]corev1.Pod, error) {
	result, err := n.host.Run(ctx, env.binary, "bootstrap", "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	if result.ExitCode != 0 {
		return nil, errors.New(result.Stderr)
	}
	var list corev1.PodList
	return list.Items, json.Unmarshal([]byte(result.Stdout), &list)
}

// bootstrapContainer waits until the only bootstrap pod of the host runs, and
// returns its UID and container.
func (n *node) bootstrapContainer(t *testing.T, what string, wantPersisted bool) (pod corev1.Pod, container string) {
	t.Helper()
	hosts.Until(t, startTimeout, what, func(ctx context.Context) error {
		if !n.proc.Running() {
			t.Fatalf("a4s on %s ended:\n%s", n.host.Name, hosts.LastLines(n.proc.Log, 100))
		}
		pods, err := n.bootstrapPods(ctx)
		if err != nil {
			return err
		}
		if len(pods) != 1 {
			return fmt.Errorf("%d bootstrap pods", len(pods))
		}
		pod = pods[0]
		if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Errorf("its status is %+v", pod.Status)
		}
		if bootstrapapi.IsPersisted(&pod) != wantPersisted {
			return fmt.Errorf("persisted is not %t: %s", wantPersisted,
				pod.Annotations[bootstrapapi.MessageAnnotation])
		}
		container = pod.Status.ContainerStatuses[0].ContainerID
		return nil
	})
	return pod, container
}

// hasPersistedPod waits until the node serves its API and knows that the server
// has the pod.
func (n *node) hasPersistedPod(t *testing.T) {
	t.Helper()
	hosts.Until(t, startTimeout, "the agent serves its API without the server", func(ctx context.Context) error {
		pods, err := n.bootstrapPods(ctx)
		if err == nil && (len(pods) != 1 || !bootstrapapi.IsPersisted(&pods[0])) {
			err = fmt.Errorf("bootstrap pods are %v", pods)
		}
		return err
	})
}

// TestBootstrapPodWithoutServer runs a pod on a node that never had a server,
// restarts the agent, and then gives it a server: one container from the
// beginning to the end.
func TestBootstrapPodWithoutServer(t *testing.T) {
	t.Parallel()
	serverHost := newHost(t, "late")
	agentHost := newHost(t, "early")
	const token = "a-token-that-both-know"
	n := &node{host: agentHost, args: []string{
		"agent", "--server", "https://" + net.JoinHostPort(serverHost.IP.String(), "6443"), "--token", token,
		"--bootstrap-pod-api",
	}}
	if err := errors.Join(n.importImages(), n.start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			n.printLogs(t)
		}
	})
	n.applyPod(t, "brief", boxPod("brief", true))
	_, brief := n.bootstrapContainer(t, "a pod runs that is not to stay", false)
	n.must(t, "bootstrap", "delete", "brief")
	hosts.Until(t, startTimeout, "it is gone", func(ctx context.Context) error {
		pods, err := n.bootstrapPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("its status is %+v", pods[0].Status)
		}
		return err
	})
	if running := n.must(t, "ctr", "--namespace", "k8s.io", "tasks", "list"); strings.Contains(running,
		strings.TrimPrefix(brief, "containerd://")) {
		t.Errorf("its container %s still runs: %s", brief, running)
	}

	n.applyPod(t, "box", boxPod("box", true))
	pod, container := n.bootstrapContainer(t, "the pod runs without a server", false)
	if want := "box-" + agentHost.Name; pod.Name != want ||
		pod.Annotations[bootstrapapi.SourceAnnotation] != bootstrapapi.Source {
		t.Errorf("pod %s with annotations %v, want %s from %s", pod.Name, pod.Annotations, want, bootstrapapi.Source)
	}

	for _, stop := range []struct {
		how string
		end func() error
	}{
		{"asked to", func() error { return n.proc.Stop(startTimeout) }},
		{"killed", func() error { n.proc.Kill(); return nil }},
	} {
		if err := stop.end(); err != nil {
			t.Fatal(err)
		}
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		again, c := n.bootstrapContainer(t, "the pod runs after the agent ended, "+stop.how, false)
		if again.UID != pod.UID || c != container {
			t.Fatalf("after the agent ended, %s: container %s of pod %s, was %s of %s", stop.how, c,
				again.UID, container, pod.UID)
		}
	}

	server := &cluster{node: node{host: serverHost, args: []string{"server", "--disable-agent", "--token", token}}}
	if err := server.start(); err != nil {
		t.Fatal(err)
	}
	server.reportOnFailure(t)
	server.waitReady(t)
	again, c := n.bootstrapContainer(t, "the server has the pod", true)
	if again.UID != pod.UID || c != container {
		t.Fatalf("with a server: container %s of pod %s, was %s of %s", c, again.UID, container, pod.UID)
	}
	hosts.Until(t, startTimeout, "the server shows the container that runs", func(ctx context.Context) error {
		p, err := server.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.UID != pod.UID || p.Annotations[bootstrapapi.SourceAnnotation] != bootstrapapi.Source {
			return fmt.Errorf("the server has it with the UID %s and the annotations %v", p.UID, p.Annotations)
		}
		if len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].ContainerID != container ||
			p.Status.ContainerStatuses[0].RestartCount != 0 {
			return fmt.Errorf("its status is %+v", p.Status.ContainerStatuses)
		}
		return nil
	})
	server.waitNodeReady(t, agentHost.Name, n.started)

	// The certificates that the kubelet began with were replaced.
	hosts.Until(t, soon, "the server runs a command in the container", func(ctx context.Context) error {
		result, err := serverHost.Run(ctx, env.binary, "kubectl", "exec", pod.Name, "--", "/testbox", "echo", "hello")
		if err == nil && strings.TrimSpace(result.Stdout) != "hello" {
			err = fmt.Errorf("%+v", result)
		}
		return err
	})

	// Without the server again: what it said last counts.
	server.proc.Kill()
	n.proc.Kill()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	n.hasPersistedPod(t)
	if err := server.start(); err != nil {
		t.Fatal(err)
	}
	server.waitReady(t)
	server.waitNodeReady(t, agentHost.Name, n.started)
	p, err := server.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.UID != pod.UID || len(p.Status.ContainerStatuses) != 1 ||
		p.Status.ContainerStatuses[0].ContainerID != container || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("after a start of the agent without its server: pod %s with %+v, want container %s of %s", p.UID,
			p.Status.ContainerStatuses, container, pod.UID)
	}

	// A machine that boots while the server is down runs the pod as well.
	server.proc.Kill()
	n.must(t, "killall")
	<-n.proc.Done()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	n.hasPersistedPod(t)
	hosts.Until(t, startTimeout, "the pod runs after a boot without a server", func(ctx context.Context) error {
		result, err := agentHost.Run(ctx, env.binary, "ctr", "--namespace", "k8s.io", "tasks", "list")
		if err == nil && strings.Count(result.Stdout, "RUNNING") != 2 { // with its sandbox
			err = fmt.Errorf("tasks: %s%s", result.Stdout, result.Stderr)
		}
		return err
	})
	if err := server.start(); err != nil {
		t.Fatal(err)
	}
	server.waitReady(t)
	hosts.Until(t, startTimeout, "the server shows the pod as it runs now", func(ctx context.Context) error {
		p, err := server.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.UID != pod.UID || len(p.Status.ContainerStatuses) != 1 ||
			p.Status.ContainerStatuses[0].ContainerID == container ||
			p.Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Errorf("pod %s with %+v", p.UID, p.Status.ContainerStatuses)
		}
		return nil
	})

	// It belongs to the server now.
	result, err := agentHost.Run(t.Context(), env.binary, "bootstrap", "delete", string(pod.UID))
	if err != nil || result.ExitCode == 0 {
		t.Errorf("deleting a persisted pod through the API: %v, %+v", err, result)
	}
	if err := server.client.CoreV1().Pods("default").
		Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, startTimeout, "the node forgets the pod", func(ctx context.Context) error {
		pods, err := n.bootstrapPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d bootstrap pods", len(pods))
		}
		return err
	})
	if files, _ := filepath.Glob(agentHost.Path(dataDir + "/agent/bootstrap/*.json")); len(files) > 0 {
		t.Errorf("left on disk: %v", files)
	}
}

// TestBootstrapPodOnAServer runs a pod through the API of a node that has its
// server in the same process.
func TestBootstrapPodOnAServer(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "both", "--bootstrap-pod-api")
	c.waitOwnNode(t)
	c.applyPod(t, "box", boxPod("box", false))
	pod, container := c.bootstrapContainer(t, "the pod runs and is the server's", true)
	p, err := c.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.UID != pod.UID || p.Status.PodIP == "" || p.Status.PodIP == c.host.IP.String() ||
		len(p.OwnerReferences) > 0 || p.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		t.Errorf("the server has %+v with %+v", p.ObjectMeta, p.Status)
	}
	if result := c.a4s(t, "bootstrap", "apply", "-f", "/etc/a4s/box.yaml"); result.ExitCode == 0 ||
		!strings.Contains(result.Stderr, "exists") {
		t.Errorf("the same name again: %+v", result)
	}
	if err := c.proc.Stop(startTimeout); err != nil {
		t.Fatal(err)
	}
	c.restart(t)
	again, same := c.bootstrapContainer(t, "the pod runs after a restart", true)
	if again.UID != pod.UID || same != container {
		t.Errorf("after a restart: container %s of pod %s, was %s of %s", same, again.UID, container, pod.UID)
	}
}
