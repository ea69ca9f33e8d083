package mux

import (
	"os"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func sandboxConfig(namespace, hostname string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: namespace, Uid: "u1"}, Hostname: hostname,
		Labels: map[string]string{"a": "b"},
	}
}

func TestHostNames(t *testing.T) {
	p := newPeer(t, "containerd")
	k := serve(t, Options{Runtimes: registered(p)})
	for _, c := range []struct{ domain, namespace, hostname, want string }{
		// not joined yet
		{"", "default.t1", "web.sub.default.t1.svc.cluster.local", "web.sub.default.t1.svc.cluster.local"},
		{"cluster.local", "default.t1", "web", "web"},
		{"cluster.local", "default.t1", "web.sub.default.t1.svc.cluster.local", "web.sub.default.svc.cluster.local"},
		{"cluster.local", "default.t1", "web.sub.default.t2.svc.cluster.local",
			"web.sub.default.t2.svc.cluster.local"},
		{"cluster.local", "default", "web.sub.default.svc.cluster.local", "web.sub.default.svc.cluster.local"},
	} {
		if c.domain != "" {
			k.mux.SetClusterDomain(c.domain)
		}
		r, err := k.RunPodSandbox(t.Context(),
			&runtimeapi.RunPodSandboxRequest{Config: sandboxConfig(c.namespace, c.hostname)})
		if err != nil || p.hostname != c.want || p.sandboxes[r.PodSandboxId].Labels["a"] != "b" {
			t.Errorf("%s in %s: %v, %v, hostname %q, want %q", c.hostname, c.namespace, r, err, p.hostname, c.want)
		}
	}
}

func TestHostsFile(t *testing.T) {
	const line = "10.42.0.5\tweb.sub.default.t1.svc.cluster.local\tweb\n"
	for name, c := range map[string]struct {
		namespace, file string // below the kubelet's directory
		want            string
	}{
		"tenant": {"default.t1", "pods/u1/etc-hosts",
			"10.42.0.5\tweb.sub.default.svc.cluster.local\tweb\n"},
		"system":            {"default", "pods/u1/etc-hosts", line},
		"another pod's":     {"default.t1", "pods/u2/etc-hosts", line},
		"a file of the pod": {"default.t1", "pods/u1/volumes/hosts", line},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, c.file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(line), 0o644); err != nil {
				t.Fatal(err)
			}
			p := newPeer(t, "containerd")
			k := serve(t, Options{Runtimes: registered(p), KubeletDir: dir})
			k.mux.SetClusterDomain("cluster.local")
			if _, err := k.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
				PodSandboxId:  "s1",
				SandboxConfig: sandboxConfig(c.namespace, "web"),
				Config: &runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{{ContainerPath: "/x", HostPath: "/y"},
					{ContainerPath: "/etc/hosts", HostPath: file}}},
			}); err != nil || len(p.containers) != 1 {
				t.Fatalf("%v, containers %v", err, p.containers)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}
