package containerd_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/embedded/payload"
)

func (n *node) writeCNI() {
	n.t.Helper()
	conf := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "a4stest", "plugins": [{"type": "bridge", "bridge": %q,
		"ipam": {"type": "host-local", "subnet": "10.199.199.0/24", "dataDir": %q}}]}`, bridge, filepath.Join(n.State,
		"ipam"))
	dir := containerd.CNIConfDir(n.Data)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "10-test.conflist"), []byte(conf), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", bridge).CombinedOutput(); err != nil {
			n.t.Errorf("removing the bridge: %v: %s", err, out)
		}
	})
}

// runPod starts a sandbox with an address and a container in it.
func (n *node) runPod() (sandbox, container string) {
	n.t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "default.t1", Uid: "1"},
		LogDirectory: filepath.Join(n.State, "logs"),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
	var resp *runtimeapi.RunPodSandboxResponse
	n.waitFor("CNI is loaded and the sandbox runs", func() bool {
		var err error
		resp, err = n.runtime.RunPodSandbox(n.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
		if err != nil && !strings.Contains(err.Error(), "cni plugin not initialized") {
			n.t.Fatal(err)
		}
		return err == nil
	})
	sandbox = resp.GetPodSandboxId()
	status, err := n.runtime.PodSandboxStatus(n.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		n.t.Fatal(err)
	}
	if ip := status.GetStatus().GetNetwork().GetIp(); !strings.HasPrefix(ip, "10.199.199.") {
		n.t.Errorf("the sandbox has the address %q", ip)
	}
	created, err := n.runtime.CreateContainer(n.ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
			Image:    &runtimeapi.ImageSpec{Image: pauseImage},
			LogPath:  "c.log",
			Linux: &runtimeapi.LinuxContainerConfig{
				// What the kubelet asks for a guaranteed pod.
				Resources: &runtimeapi.LinuxContainerResources{OomScoreAdj: -997, MemoryLimitInBytes: 64 << 20},
			},
		},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	container = created.GetContainerId()
	if _, err := n.runtime.StartContainer(n.ctx,
		&runtimeapi.StartContainerRequest{ContainerId: container}); err != nil {
		n.t.Fatal(err)
	}
	n.checkRunning(n.t, container)
	return sandbox, container
}

func (n *node) checkRunning(t *testing.T, container string) {
	t.Helper()
	status, err := n.runtime.ContainerStatus(n.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container})
	if err != nil {
		t.Fatal(err)
	}
	if state := status.GetStatus().GetState(); state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container is %s: %v", state, status.GetStatus())
	}
}

func (n *node) removePod(sandbox string) {
	n.t.Helper()
	if _, err := n.runtime.StopPodSandbox(n.ctx,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		n.t.Error(err)
	}
	if _, err := n.runtime.RemovePodSandbox(n.ctx,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		n.t.Error(err)
	}
}

// writeArchives fills the operator's directory: a good archive in Docker's
// format, made from the sandbox image, and broken ones.
func (n *node) writeArchives(dir string) {
	n.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	carried, err := payload.Extract(n.ctx, n.Data)
	if err != nil {
		n.t.Fatal(err)
	}
	docker := dockerArchive(n.t, carried.PauseImageTar, dockerImage)
	for name, content := range map[string][]byte{
		"docker.tgz":       docker,
		"truncated.tar.gz": docker[:len(docker)/2],
		"garbage.tar":      bytes.Repeat([]byte("garbage "), 1000),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
}

// dockerArchive turns an OCI archive of one image into what docker save
// writes, compressed.
func dockerArchive(t *testing.T, oci, name string) []byte {
	t.Helper()
	files := map[string][]byte{}
	f, err := os.Open(oci)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for reader := tar.NewReader(f); ; {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(d ocispec.Descriptor) []byte { return files["blobs/sha256/"+d.Digest.Encoded()] }
	var index ocispec.Index
	var manifest ocispec.Manifest
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	out := entry{Config: "config.json", RepoTags: []string{name}}
	// Another config makes it another image to CRI.
	config := bytes.Replace(blob(manifest.Config), []byte("{"), []byte(`{"author": "a4s",`), 1)
	content := map[string][]byte{"config.json": config}
	for i, layer := range manifest.Layers {
		file := fmt.Sprintf("%d/layer.tar", i)
		out.Layers = append(out.Layers, file)
		content[file] = blob(layer)
	}
	if content["manifest.json"], err = json.Marshal([]entry{out}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	writer := tar.NewWriter(zip)
	for file, data := range content {
		if err := writer.WriteHeader(&tar.Header{Name: file, Size: int64(len(data)), Mode: 0o644,
			Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, closer := range []io.Closer{writer, zip} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
