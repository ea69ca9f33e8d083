package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// It is not parallel, so that nothing else starts or stops while it looks at
// what is left.
func TestDeletedPodLeavesNothing(t *testing.T) {
	c := sharedCluster(t)
	ns := c.namespace(t)
	pod := c.runPod(t, ns, testboxPod("gone"))
	uid := string(pod.UID)

	groups := c.find(t, "/sys/fs/cgroup", uid)
	if len(groups) == 0 {
		t.Fatalf("no cgroup is named after pod %s", uid)
	}
	var netns string
	for _, dir := range groups {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "cgroup.procs" || netns != "" {
				return err
			}
			procs, err := os.ReadFile(path)
			if pids := strings.Fields(string(procs)); err == nil && len(pids) > 0 {
				netns, err = os.Readlink("/proc/" + pids[0] + "/ns/net")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if netns == "" || !strings.Contains(c.mounts(t), netns) {
		t.Fatalf("the pod's network namespace %q is mounted nowhere", netns)
	}

	if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, podTimeout, "nothing of the pod is left", func(ctx context.Context) error {
		if _, err := c.client.CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{}); err == nil {
			return errors.New("the object")
		}
		if left := c.find(t, "/sys/fs/cgroup", uid); len(left) > 0 {
			return fmt.Errorf("cgroups %v", left)
		}
		mounts := c.mounts(t)
		if strings.Contains(mounts, netns) || strings.Contains(mounts, uid) {
			return fmt.Errorf("mounts of %s or %s in\n%s", netns, uid, mounts)
		}
		if list := c.must(t, "ctr", "--namespace", "k8s.io", "containers", "list",
			"-q"); strings.Contains(list, containerID(pod)) {
			return fmt.Errorf("container %s", containerID(pod))
		}
		return nil
	})
}

// find returns the directories of the host below top whose names contain part.
func (n *node) find(t *testing.T, top, part string) []string {
	t.Helper()
	var found []string
	// A cgroup may go while the walk is in it.
	_ = filepath.WalkDir(n.host.Path(top), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), part) {
			found = append(found, path)
			return filepath.SkipDir
		}
		return nil
	})
	return found
}

func (n *node) mounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(n.host.Path("/proc/1/mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func containerID(p *corev1.Pod) string {
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

func TestDeploymentRunsAndScales(t *testing.T) { inEverySpace(t, testDeploymentRunsAndScales) }

func testDeploymentRunsAndScales(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	pods := c.runDeployment(t, ns, deployment("web", 2))
	for _, p := range pods {
		name, err := c.ask(t.Context(), ns, p.Name, "/hostname")
		if err != nil || name != p.Name {
			t.Errorf("pod %s says that it is %q (%v)", p.Name, name, err)
		}
	}
	scale, err := c.client.AppsV1().Deployments(ns).GetScale(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 1
	if _, err := c.client.AppsV1().Deployments(ns).
		UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitDeployment(t, ns, "web", 1)
}

func TestImageFromDebianPackageRuns(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace(t)
	pod := testboxPod("busybox", "x")
	pod.Spec.Containers[0].Image = busyboxImage
	pod.Spec.Containers[0].Command = []string{"/bin/busybox", "sh", "-c"}
	pod.Spec.Containers[0].Args = []string{"echo from a $(/bin/busybox echo package)"}
	if out := c.finishPod(t, ns, pod); strings.TrimSpace(out) != "from a package" {
		t.Errorf("it printed %q", out)
	}
}

func TestLogsExecAndPortForward(t *testing.T) { inEverySpace(t, testLogsExecAndPortForward) }

func testLogsExecAndPortForward(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	pod := c.runPod(t, ns, testboxPod("box"))
	instance, err := c.ask(t.Context(), ns, pod.Name, "/instance")
	if err != nil {
		t.Fatal(err)
	}

	t.Run("logs", func(t *testing.T) {
		if got := c.logs(t, ns, pod.Name); !strings.Contains(got, instance) {
			t.Errorf("logs are %q, want %q in them", got, instance)
		}
	})
	t.Run("exec", func(t *testing.T) {
		got, err := c.exec(t.Context(), ns, pod.Name, "through a pipe", "/testbox", "copy")
		if err != nil || got != "through a pipe" {
			t.Errorf("standard input came back as %q (%v)", got, err)
		}
		_, err = c.exec(t.Context(), ns, pod.Name, "", "/testbox", "crash", "on purpose")
		if err == nil || !strings.Contains(err.Error(), "exit code 1") ||
			!strings.Contains(err.Error(), "on purpose") {
			t.Errorf("a failed command gives %v", err)
		}
	})
	t.Run("port-forward", func(t *testing.T) {
		got, err := c.through(t, ns, pod.Name, "8080", "/instance")
		if err != nil || got != instance {
			t.Errorf("the forwarded port answers %q (%v), want %q", got, err, instance)
		}
	})
}

// fetch gets a URL from outside of all hosts.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return strings.TrimSpace(string(b)), err
}

func TestProbes(t *testing.T) { inEverySpace(t, testProbes) }

func testProbes(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	box := testboxPod("probed")
	box.Spec.Containers[0].LivenessProbe = httpProbe("/healthz")
	pod := c.runPod(t, ns, box)
	c.createService(t, ns, service("probed", "probed"))
	endpoints := func(want int) {
		t.Helper()
		hosts.Until(t, soon, fmt.Sprintf("the service has %d ready endpoints", want), func(ctx context.Context) error {
			slices, err := c.client.DiscoveryV1().EndpointSlices(ns).List(ctx,
				metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=probed"})
			if err != nil {
				return err
			}
			got := 0
			for _, s := range slices.Items {
				for _, e := range s.Endpoints {
					if e.Conditions.Ready != nil && *e.Conditions.Ready {
						got++
					}
				}
			}
			if got != want {
				return fmt.Errorf("it has %d", got)
			}
			return nil
		})
	}
	toggle := func(path, ok string) {
		t.Helper()
		req := c.client.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(pod.Name+":8080").
			SubResource("proxy").Suffix(path).Param("ok", ok)
		if b, err := req.DoRaw(t.Context()); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	endpoints(1)
	toggle("readyz", "false")
	endpoints(0)
	toggle("readyz", "true")
	endpoints(1)
	if p := c.waitPodReady(t, ns, pod.Name); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("readiness restarted the container")
	}
	toggle("healthz", "false")
	c.waitPod(t, ns, pod.Name, "was restarted by its liveness probe and is ready again", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 1 && podIsReady(p)
	})
}

func TestVolumesAndDownwardAPI(t *testing.T) { inEverySpace(t, testVolumesAndDownwardAPI) }

func testVolumesAndDownwardAPI(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"},
		Data: map[string]string{"color": "green"}}
	if _, err := c.client.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"},
		StringData: map[string]string{"word": "hush"}}
	if _, err := c.client.CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	box := testboxPod("mounted")
	box.Annotations = map[string]string{"note": "read me"}
	box.Spec.Volumes = []corev1.Volume{
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
		}}},
		{Name: "password",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}},
		{Name: "self", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}},
			}},
		}},
	}
	box.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "settings", MountPath: "/settings"}, {Name: "password", MountPath: "/password"},
		{Name: "self", MountPath: "/self"},
	}
	box.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "POD_NAMESPACE", ValueFrom: field("metadata.namespace")},
		{Name: "POD_IP", ValueFrom: field("status.podIP")},
		{Name: "NODE", ValueFrom: field("spec.nodeName")},
		{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
			Key:                  "color",
		}}},
		{Name: "WORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "password"},
			Key:                  "word",
		}}},
	}
	pod := c.runPod(t, ns, box)
	for _, tc := range []struct{ path, param, of, want string }{
		{"/file", "path", "/settings/color", "green"},
		{"/file", "path", "/password/word", "hush"},
		{"/file", "path", "/self/note", "read me"},
		{"/env", "name", "POD_NAMESPACE", ns},
		{"/env", "name", "POD_IP", pod.Status.PodIP},
		{"/env", "name", "NODE", c.host.Name},
		{"/env", "name", "COLOR", "green"},
		{"/env", "name", "WORD", "hush"},
		{"/env", "name", "KUBERNETES_SERVICE_HOST", "10.43.0.1"},
	} {
		if got, err := c.ask(t.Context(), ns, pod.Name, tc.path, tc.param, tc.of); err != nil || got != tc.want {
			t.Errorf("%s is %q in the pod (%v), want %q", tc.of, got, err, tc.want)
		}
	}
}

func TestServiceAccountTokenReachesTheAPI(t *testing.T) {
	inEverySpace(t, testServiceAccountTokenReachesTheAPI)
}

func testServiceAccountTokenReachesTheAPI(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	c.createPod(t, ns, func() *corev1.Pod {
		pod := testboxPod("denied", "api")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		return pod
	}())
	c.waitPod(t, ns, "denied", "was refused", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if out := c.logs(t, ns, "denied"); !strings.Contains(out, "user system:serviceaccount:"+ns+":default") ||
		!strings.Contains(out, "403") {
		t.Errorf("without a binding the pod printed %q, want its user and a 403", out)
	}

	c.must(t, "kubectl", "create", "rolebinding", "viewer", "--namespace", ns, "--clusterrole", "view",
		"--serviceaccount", ns+":default")
	hosts.Until(t, soon, "the binding takes effect", func(context.Context) error {
		if out := c.a4s(t, "kubectl", "auth", "can-i", "list", "pods", "-n", ns,
			"--as", "system:serviceaccount:"+ns+":default"); out.ExitCode != 0 {
			return errors.New(out.Stdout + out.Stderr)
		}
		return nil
	})
	if out := c.finishPod(t, ns, testboxPod("allowed", "api")); !strings.Contains(out, "pod allowed") ||
		!strings.Contains(out, "pod denied") {
		t.Errorf("with a binding the pod printed %q, want the pods of its namespace", out)
	}
}

func TestMemoryLimitKills(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace(t)
	box := testboxPod("hungry", "eat", "200")
	box.Spec.RestartPolicy = corev1.RestartPolicyNever
	box.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("32Mi"), corev1.ResourceCPU: resource.MustParse("500m"),
	}
	c.createPod(t, ns, box)
	pod := c.waitPod(t, ns, "hungry", "has ended", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed
	})
	if s := pod.Status.ContainerStatuses[0].State.Terminated; s == nil ||
		s.Reason != "OOMKilled" || s.ExitCode != 137 {
		t.Errorf("the container ended as %+v, want OOMKilled with exit code 137", s)
	}
}

func TestCommandsOfARunningServer(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	if out := c.must(t, "kubectl", "get", "nodes", "-o", "wide"); !strings.Contains(out, c.host.Name) ||
		!strings.Contains(out, c.host.IP.String()) {
		t.Errorf("kubectl get nodes printed\n%s", out)
	}
	if out := c.must(t, "ctr", "--namespace", "k8s.io", "images", "list"); !strings.Contains(out, testboxImage) ||
		!strings.Contains(out, busyboxImage) {
		t.Errorf("ctr images list lacks the imported images:\n%s", out)
	}
	c.testCrictl(t)
	status := c.must(t, "status", "-o", "wide")
	for _, part := range []string{"etcd", "apiserver", "scheduler", "kubelet", "containerd"} {
		if !strings.Contains(status, part) {
			t.Errorf("status does not tell about %s:\n%s", part, status)
		}
	}
	version := c.must(t, "--version")
	kubernetes := regexp.MustCompile(`(?m)^Kubernetes (v1\.\d+\.\d+)$`).FindStringSubmatch(version)
	if kubernetes == nil {
		t.Fatalf("--version does not tell the version of Kubernetes: %s", version)
	}
	if out := c.must(t, "check-config"); !strings.Contains(out, " 0 failed") {
		t.Errorf("check-config on a machine that runs a4s printed\n%s", out)
	}
	if out := c.must(t, "completion", "bash"); !strings.Contains(out, "complete ") {
		t.Errorf("completion printed\n%s", out)
	}
	if info, err := os.Stat(c.host.Path(kubeconfig)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has mode %v (%v), want 0600", info.Mode(), err)
	}
	nodeVersion, err := c.client.Discovery().ServerVersion()
	if err != nil || nodeVersion.GitVersion != kubernetes[1] {
		t.Errorf("the API server says that it is %v (%v), the binary %s", nodeVersion, err, kubernetes[1])
	}
}

// testCrictl: it sees what the kubelet runs and gets into it, without a word about where that is.
func (c *cluster) testCrictl(t *testing.T) {
	t.Helper()
	ns := c.namespace(t)
	id := containerID(c.runPod(t, ns, testboxPod("seen")))
	if out := c.must(t, "crictl", "pods", "--namespace", ns); !strings.Contains(out, "seen") {
		t.Errorf("crictl pods lacks the pod:\n%s", out)
	}
	if out := c.must(t, "crictl", "ps", "--no-trunc", "-q"); !strings.Contains(out, id) {
		t.Errorf("crictl ps lacks container %s:\n%s", id, out)
	}
	for _, sync := range []string{"--sync=true", "--sync=false"} {
		if out := c.must(t, "crictl", "exec", sync, id, "/testbox", "echo", "hello"); !strings.Contains(out, "hello") {
			t.Errorf("crictl exec %s printed %q", sync, out)
		}
	}
	if r := c.a4s(t, "crictl", "--runtime-endpoint", "unix:///nobody", "--max-retries=0", "ps"); r.ExitCode != 1 {
		t.Errorf("crictl of another runtime ended with %d:\n%s", r.ExitCode, r.Stderr)
	}
}
