package vmpods

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/images"
	"github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/agent/vm/supervisor"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/scripts/ociarchive"
)

// Names of images of these tests.
const (
	registry     = "tests.invalid"
	busyboxImage = registry + "/e2e-test-images/busybox:1.29-2"
	pauseImage   = "docker.io/a4s/pause:1"
	podNetwork   = "10.199.0.0/16"
)

// node is a containerd and a VM runtime.
type node struct {
	t       testing.TB
	group   *component.Group
	vm      supervisor.Options
	logs    string
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
}

func startNode(t testing.TB, all ...ociarchive.Image) *node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	binary, guest := setting(t, envBinary, "a4s"), setting(t, envGuest, "guest")
	data := t.TempDir()
	carried, err := payload.Extract(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	info, err := host.Probe()
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.NewEntry(logrus.StandardLogger())
	n := &node{t: t, group: component.NewGroup(log), logs: filepath.Join(data, "logs")}
	t.Cleanup(func() {
		if err := n.group.Stop(); err != nil {
			t.Error(err)
		}
	})
	stateDir := filepath.Join(runDir, "a4s", "containerd")
	ctrd := containerd.Options{
		DataDir: data, StateDir: stateDir, Executable: binary, ShimPath: carried.ShimPath, RuncPath: carried.RuncPath,
		CNIBinDir: carried.CNIBinDir, PauseImage: pauseImage, Host: info,
	}
	writeCNI(t, containerd.CNIConfDir(data), filepath.Join(data, "ipam"))
	if err := n.group.StartAndWait(ctx, containerd.New(ctrd)); err != nil {
		t.Fatal(err)
	}
	archives := images.Dir(data)
	if err := os.MkdirAll(archives, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, image := range append(all, busyboxOf(t, busyboxImage)) {
		var b bytes.Buffer
		if err := ociarchive.Write(&b, image); err != nil {
			t.Fatal(err)
		}
		name := string(rune('a'+i)) + ".tar"
		if err := os.WriteFile(filepath.Join(archives, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := images.Import(ctx, images.Options{
		Socket: containerd.Socket(stateDir), Snapshotter: "overlayfs", Dir: archives,
		StateFile: images.StateFile(data), Required: []string{carried.PauseImageTar}, Log: log,
	}); err != nil {
		t.Fatal(err)
	}
	n.vm = supervisor.Options{Executable: binary, Debug: true, Service: settings.Service{
		Socket: settings.Socket(filepath.Join(runDir, "a4s")), Root: settings.RootDir(data),
		State:      settings.StateDir(filepath.Join(runDir, "a4s")),
		Containerd: containerd.Socket(stateDir), CNIConfDir: containerd.CNIConfDir(data),
		CNIBinDirs: []string{carried.CNIBinDir},
		Kernel:     filepath.Join(guest, "vmlinuz"), Initrd: filepath.Join(guest, "initrd.img"),
		Init:        carried.GuestInit,
		Accelerator: "tcg", Log: log,
	}}
	t.Cleanup(func() {
		if data, err := os.ReadFile(supervisor.LogFile(n.vm.Root)); err == nil && t.Failed() {
			t.Logf("log of the VM runtime:\n%s", data)
		}
	})
	if err := n.group.StartAndWait(ctx, supervisor.New(n.vm)); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+n.vm.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n.runtime, n.images = runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
	return n
}

func writeCNI(t testing.TB, dir, ipam string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := `{"cniVersion": "1.0.0", "name": "a4stest", "plugins": [
		{"type": "bridge", "bridge": "vmtest0", "isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
			"ipam": {"type": "host-local", "dataDir": "` + ipam + `", "ranges": [[{"subnet": "` + podNetwork + `"}]]}},
		{"type": "portmap", "capabilities": {"portMappings": true}, "backend": "iptables"}]}`
	if err := os.WriteFile(filepath.Join(dir, "10-test.conflist"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
}

// busyboxOf is an image of busybox and the usual files.
func busyboxOf(t testing.TB, ref string) ociarchive.Image {
	t.Helper()
	file := func(path, data string) ociarchive.File {
		return ociarchive.File{Path: path, Mode: 0o644, Data: []byte(data)}
	}
	image := ociarchive.Image{
		Ref: ref, Cmd: []string{"sh"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Files: []ociarchive.File{
			{Path: "bin/busybox", Mode: 0o755, Data: busybox(t)},
			file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33:www-data:/var/www:/bin/false\n"+
				"default-user:x:1000:1000::/home/default-user:/bin/sh\n"+
				"nobody:x:65534:65534:nobody:/home:/bin/false\n"),
			file("etc/group", "root:x:0:\nwww-data:x:33:\ndefault-user:x:1000:\n"+
				"group-defined-in-image:x:50000:default-user\nnobody:x:65534:\n"),
			file("www/index.html", "hello from busybox\n"),
			// What Debian's busybox lacks, as far as critest needs it.
			{Path: "bin/ipcs", Mode: 0o755, Data: []byte("#!/bin/sh\nexec cat /proc/sysvipc/shm\n")},
			{Path: "bin/pgrep", Mode: 0o755, Data: []byte(pgrep)},
			{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
			{Path: "root", Mode: fs.ModeDir | 0o700},
			{Path: "var/www", Mode: fs.ModeDir | 0o755},
		},
	}
	for _, name := range strings.Fields(applets) {
		// As in busybox' own image: critest masks one program, not all.
		image.Files = append(image.Files,
			ociarchive.File{Path: "bin/" + name, Mode: 0o755, Link: "bin/busybox", HardLink: true})
	}
	return image
}

// pgrep prints the processes whose command line holds its last argument.
const pgrep = `#!/bin/sh
for word; do pattern=$word; done
found=1
for dir in /proc/[0-9]*; do
	pid=${dir#/proc/}
	[ $pid = $$ ] && continue
	case "$(tr '\0' ' ' <$dir/cmdline 2>/dev/null)" in
	*pgrep*) ;;
	*"$pattern"*) echo $pid; found=0 ;;
	esac
done
exit $found
`

const applets = `sh ash cat echo ls sleep top touch id env printf grep sed awk wc head tail mkdir rm rmdir mv cp chmod chown
	mount umount ip ifconfig nc wget httpd hostname ps kill date dd df du stat readlink true false test sync tr cut sort
	sysctl nslookup ping find mknod seq od md5sum tee whoami su stty tty uname free pidof ln brctl unshare chroot getopt`
