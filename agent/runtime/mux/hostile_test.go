package mux

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/types"
)

// TestHostsFileOfAHostilePod: a container that runs already has the hosts file of the pod mounted. Whatever it
// makes of it, the node reads no more of it than it would of a real one.
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
		}, codes.OK},
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
// thousand sandboxes or containers, and what runtimes and the kubelet look at stays.
func TestSandboxesFitIntoAList(t *testing.T) {
	long := strings.Repeat("\x01", 255<<10)
	for name, say := range map[string]func(config *runtimeapi.PodSandboxConfig){
		"long ones": func(config *runtimeapi.PodSandboxConfig) {
			config.Annotations["example.com/long"] = long
			config.Annotations["a4s.io/native-annotations"] = strings.Repeat(`\x01`, 255<<10)
			for i := range 700 {
				config.Labels[fmt.Sprintf("example.com/%0240d", i)] = strings.Repeat("v", 63)
			}
		},
		"names like the kubelet's": func(config *runtimeapi.PodSandboxConfig) {
			config.Annotations["io.kubernetes.long"] = long
			for i := range 9000 {
				config.Labels[fmt.Sprintf("io.kubernetes.%d", i)] = "v"
			}
		},
		"many short ones": func(config *runtimeapi.PodSandboxConfig) {
			for i := range 4000 {
				config.Labels[strconv.FormatInt(int64(i), 36)] = ""
				config.Annotations[strconv.FormatInt(int64(i), 36)] = ""
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := sandboxConfig("default.t1", "web")
			uid := types.KubernetesPodUIDLabel
			config.Labels = map[string]string{uid: strings.Repeat("u", 253)}
			config.Annotations = map[string]string{}
			say(config)
			if len(shorten(config)) == 0 {
				t.Error("nothing is left out")
			}
			if config.Labels[uid] == "" {
				t.Error("the kubelet's own label is left out")
			}
			if size := 1000 * proto.Size(&runtimeapi.PodSandbox{Labels: config.Labels,
				Annotations: config.Annotations}); size >= 16<<20 {
				t.Errorf("a thousand have %d bytes in a list", size)
			}
			if len(shorten(config)) > 0 {
				t.Error("what is short enough is changed")
			}
		})
	}
	if len(shorten(nil)) > 0 || len(shorten(sandboxConfig("default.t1", "web"))) > 0 {
		t.Error("what is short is changed")
	}
	p := newPeer(t, "containerd")
	k := serve(t, Options{Runtimes: registered(p)})
	request := &runtimeapi.CreateContainerRequest{PodSandboxId: "s1",
		SandboxConfig: sandboxConfig("default.t1", "web"),
		Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
			Annotations: map[string]string{"io.kubernetes.container.hash": "1",
				"io.kubernetes.container.preStopHandler": strings.Repeat("<", 1<<20)}}}
	if _, err := k.CreateContainer(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	short, err := shortenContainer(data)
	if err != nil || len(short) > 2*maxMetadata {
		t.Fatalf("%d bytes, %v", len(short), err)
	}
	var got runtimeapi.CreateContainerRequest
	if err := proto.Unmarshal(short, &got); err != nil {
		t.Fatal(err)
	}
	if got.Config.Annotations["io.kubernetes.container.hash"] != "1" || got.PodSandboxId != "s1" ||
		got.Config.Metadata.Name != "c" {
		t.Errorf("%v", &got)
	}
}
