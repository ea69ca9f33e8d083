package mux

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestHostsFileOfAHostilePod: a container that runs already has the hosts file of the pod mounted. Whatever it
// makes of it, the next one is refused, and the node reads no more of it than it would of a real one.
func TestHostsFileOfAHostilePod(t *testing.T) {
	for name, c := range map[string]struct {
		make func(file string) error
		want codes.Code
	}{
		"a hole of a terabyte": {func(file string) error {
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(file, 1<<40)
		}, codes.Internal},
		"a fifo": {func(file string) error { return unix.Mkfifo(file, 0o644) }, codes.Internal},
		"a link": {func(file string) error { return os.Symlink("/etc/hosts", file) }, codes.Internal},
		"many aliases": {func(file string) error {
			return os.WriteFile(file, []byte(strings.Repeat("192.0.2.1\thost\n", 10_000)), 0o644)
		}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "pods/u1/etc-hosts")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := c.make(file); err != nil {
				t.Fatal(err)
			}
			p := newPeer(t, "containerd")
			k := serve(t, Options{Runtimes: registered(p), KubeletDir: dir})
			k.mux.SetClusterDomain("cluster.local")
			_, err := k.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
				PodSandboxId: "s1", SandboxConfig: sandboxConfig("default.t1", "web"),
				Config: &runtimeapi.ContainerConfig{
					Mounts: []*runtimeapi.Mount{{ContainerPath: "/etc/hosts", HostPath: file}}},
			})
			if status.Code(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestCarriedImageIsNotPulled: no pod can have what runs in the sandboxes of all pods made what a registry serves
// under its name.
func TestCarriedImageIsNotPulled(t *testing.T) {
	p := newPeer(t, "containerd")
	k := serve(t, Options{Runtimes: registered(p), Carried: "docker.io/a4s/pause:1"})
	for image, want := range map[string]codes.Code{
		"docker.io/a4s/pause:1": codes.PermissionDenied, "a4s/pause:1": codes.PermissionDenied,
		"index.docker.io/a4s/pause:1": codes.PermissionDenied,
		"docker.io/a4s/pause:2":       codes.OK, "registry.example.com/a4s/pause:1": codes.OK, "pause:1": codes.OK,
	} {
		_, err := k.images.PullImage(t.Context(), &runtimeapi.PullImageRequest{
			Image: &runtimeapi.ImageSpec{Image: image}, SandboxConfig: sandboxConfig("default.t1", "web")})
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %s", image, err, want)
		}
		if _, err := k.images.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{
			Image: &runtimeapi.ImageSpec{Image: image}}); err != nil {
			t.Errorf("whether %s is there: %v", image, err)
		}
	}
}

// TestSandboxesFitIntoAList: what pods say of themselves does not keep the kubelet from reading the list of a
// thousand sandboxes, and what runtimes and the kubelet look at stays.
func TestSandboxesFitIntoAList(t *testing.T) {
	long := strings.Repeat("\x01", 255<<10)
	config := sandboxConfig("default.t1", "web")
	config.Labels = map[string]string{"io.kubernetes.pod.uid": "u1", "app": "web"}
	config.Annotations = map[string]string{"example.com/long": long, "a4s.io/workload-type": "vm",
		"a4s.io/native-annotations": strings.Repeat(`\x01`, 255<<10)}
	for i := range 700 {
		config.Labels[fmt.Sprintf("example.com/%0240d", i)] = strings.Repeat("v", 63)
	}
	if !shorten(config) {
		t.Error("nothing is left out")
	}
	for of, key := range map[string]map[string]string{"u1": config.Labels, "web": config.Labels,
		"vm": config.Annotations} {
		found := false
		for _, value := range key {
			found = found || value == of
		}
		if !found {
			t.Errorf("%s is left out", of)
		}
	}
	if size := 1000 * proto.Size(&runtimeapi.PodSandbox{Labels: config.Labels,
		Annotations: config.Annotations}); size >= 16<<20 {
		t.Errorf("a thousand have %d bytes in a list", size)
	}
	if shorten(config) || shorten(nil) || shorten(sandboxConfig("default.t1", "web")) {
		t.Error("what is short enough is changed")
	}
}
