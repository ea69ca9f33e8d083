package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	images "k8s.io/kubernetes/test/utils/image"
)

// nodeImage is an image that tests name, and how mkimage is to make it.
type nodeImage struct {
	id   images.ImageID
	args []string
}

// imagePrograms are upstream's programs in the images.
var imagePrograms = []string{
	"go.etcd.io/etcd/server/v3",
	"k8s.io/kubernetes/test/images/agnhost",
	"k8s.io/kubernetes/test/images/nonewprivs",
	"k8s.io/kubernetes/test/images/regression-issue-74839",
	"k8s.io/kubernetes/test/images/resource-consumer",
	"k8s.io/kubernetes/test/images/resource-consumer/consume-cpu",
	"k8s.io/sample-apiserver",
}

// nodeImages are what the conformance tests start. kubernetes is the directory of
// upstream's sources, ours that of files of this command, programs that of programs.
func nodeImages(kubernetes, ours, programs string) []nodeImage {
	program := func(name, target string) []string {
		return []string{"--file", filepath.Join(programs, name) + "=" + target}
	}
	file := func(source, target string) []string {
		return []string{"--file", filepath.Join(kubernetes, "test/images", source) + "=" + target}
	}
	users := []string{"--file", filepath.Join(ours, "passwd") + "=/etc/passwd",
		"--file", filepath.Join(ours, "group") + "=/etc/group"}
	// The shell of busybox prefers its own commands to those of the packages.
	tools := slices.Concat(userland("ip", "nc", "nslookup", "which", "run-parts", "wget",
		"dmesg", "getopt", "ionice", "last", "more", "rev", "setpriv", "setsid", "taskset", "unshare"),
		[]string{"--link", "bash=/bin/sh", "--deb", "bind9-dnsutils", "--deb", "curl", "--deb", "ca-certificates",
			"--deb", "iproute2", "--deb", "libc-bin", "--deb", "netcat-openbsd", "--deb", "util-linux",
			"--link", "nc.openbsd=/bin/nc", "--file", filepath.Join(ours, "printenv") + "=/bin/printenv",
			"--file", filepath.Join(ours, "wget") + "=/bin/wget"}, users)
	agnhost := slices.Concat(tools, program("agnhost", "/agnhost"),
		[]string{"--link", "agnhost=/agnhost-2", "--dir", "/uploads", "--entrypoint", "/agnhost",
			"--go", "./tests/conformance/coredns=/coredns"},
		file("agnhost/porter/localhost.crt", "/localhost.crt"), file("agnhost/porter/localhost.key", "/localhost.key"))
	pause := []string{"--cmd", "pause"}
	web := slices.Concat(busybox(), users,
		[]string{"--deb", "nginx-light", "--file", filepath.Join(ours, "nginx.conf") + "=/etc/nginx/nginx.conf",
			"--file", filepath.Join(ours, "index.html") + "=/usr/share/nginx/html/index.html",
			"--dir", "/var/log/nginx",
			"--link", "/dev/stdout=/var/log/nginx/access.log", "--link", "/dev/stderr=/var/log/nginx/error.log",
			"--cmd", "nginx", "--cmd", "-g", "--cmd", "daemon off;"})
	return []nodeImage{
		{images.Agnhost, slices.Concat(agnhost, pause)},
		{images.AgnhostPrev, slices.Concat(agnhost, pause)},
		{images.BusyBox, slices.Concat(busybox(), []string{"--cmd", "sh"})},
		{images.DistrolessIptables, slices.Concat(busybox(), []string{"--deb", "conntrack", "--cmd", "sh"})},
		{images.GlibcDnsTesting, slices.Concat(tools, []string{"--cmd", "sh"})},
		{images.Nginx, web},
		{images.NginxNew, slices.Concat(web, []string{"--label", "version=new"})},
		{images.Pause, append(program("agnhost", "/agnhost"), "--entrypoint", "/agnhost", "--cmd", "pause",
			"--user", "65535:65535")},
		{hostPathPlugin(), append(busybox(), "--go", "./tests/conformance/hostpathplugin=/hostpathplugin")},
		{images.Kitten, slices.Concat(agnhost, file("kitten/html", "/"),
			[]string{"--file", filepath.Join(ours, "os-release") + "=/etc/os-release", "--cmd", "test-webserver"})},
		{images.Nautilus, slices.Concat(agnhost, file("nautilus/html", "/"), []string{"--cmd", "test-webserver"})},
		{images.NonRoot, slices.Concat(busybox(), []string{"--cmd", "sh", "--user", "1234"})},
		{images.Nonewprivs,
			slices.Concat(busybox(), program("nonewprivs", "/usr/local/bin/nnp"), []string{"--cmd", "nnp"})},
		{images.RegressionIssue74839, append(program("regression-issue-74839", "/regression-issue-74839"),
			"--entrypoint", "/regression-issue-74839")},
		{images.ResourceConsumer, slices.Concat(busybox(), program("resource-consumer", "/consumer"),
			program("consume-cpu", "/consume-cpu"), []string{"--entrypoint", "/consumer"})},
		{images.APIServer, slices.Concat(busybox(), program("sample-apiserver", "/sample-apiserver"),
			[]string{"--entrypoint", "/sample-apiserver"})},
		{images.Etcd, append(program("server", "/usr/local/bin/etcd"), "--dir", "/tmp=1777")},
	}
}

// hostPathPlugin is the image that the tests of devices take, the newest of those that
// tests of storage name.
func hostPathPlugin() (newest images.ImageID) {
	last := ""
	for id := range images.GetImageConfigs() {
		ref := images.GetE2EImage(id)
		if strings.Contains(ref, "/hostpathplugin:") && ref > last {
			newest, last = id, ref
		}
	}
	return newest
}

// applets are the commands of busybox that the tests' scripts may use.
const applets = `[ ar arch awk base64 basename bunzip2 bzcat cat chgrp chmod chown chroot cmp cp cpio cut date dd df diff
dirname dmesg du echo egrep env expr false fgrep find fold free getopt grep groups gunzip gzip head hexdump hostid hostname
httpd id ifconfig ionice ip kill killall last less link ln logname ls md5sum mkdir mkfifo mknod mktemp more mount mv nc netstat
nice nl nohup nologin nproc nslookup od paste patch pgrep pidof ping ping6 pkill printf ps pwd readlink realpath renice rev rm rmdir
route run-parts sed seq setpriv setsid sha1sum sha256sum sha512sum shuf sleep sort stat strings stty sync sysctl tac tail tar
taskset tee telnet test time timeout top touch tr traceroute true truncate tty umount uname uniq unlink unshare unxz unzip
uptime usleep vi watch wc wget which who whoami xargs xz xzcat yes zcat`

// busybox is a userland with the shell of busybox.
func busybox() []string {
	return append(userland(), "--go", "./tests/conformance/shell=/bin/sh")
}

// userland is one but for a shell and the commands that something else brings.
func userland(without ...string) []string {
	args := []string{"--deb", "busybox-static", "--deb", "bash", "--dir", "/tmp=1777", "--dir", "/root=0700"}
	for a := range strings.FieldsSeq(applets) {
		if !slices.Contains(without, a) {
			args = append(args, "--link", "busybox=/bin/"+a)
		}
	}
	return args
}

// buildImages makes the archives below dir, unless they are there, and returns
// their names.
func (r *runner) buildImages(ctx context.Context) ([]string, error) {
	kubernetes, err := r.output(ctx, r.suite, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	kubernetes = strings.TrimSpace(kubernetes)
	dir, programs, mkimage := filepath.Join(r.out, "images"), filepath.Join(r.out, "programs"),
		filepath.Join(r.out, "mkimage")
	build := append([]string{"CGO_ENABLED=0", "go", "build", "-ldflags", "-s -w", "-o", programs + "/"},
		imagePrograms...)
	err = errors.Join(
		os.MkdirAll(dir, 0o755), os.MkdirAll(programs, 0o755),
		r.command(ctx, r.root, "go", "build", "-o", mkimage, "./scripts/mkimage"),
		r.command(ctx, r.suite, "env", build...),
		// It shows whether a program may run as another user than the one who starts it.
		os.Chmod(filepath.Join(programs, "nonewprivs"), fs.ModeSetuid|0o755))
	if err != nil {
		return nil, err
	}
	var archives []string
	for _, image := range nodeImages(kubernetes, filepath.Join(r.root, "tests/conformance/files"), programs) {
		ref := images.GetE2EImage(image.id)
		archive := filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(ref)+".tar")
		archives = append(archives, archive)
		// Another name, recipe or version of what is in it is another image.
		recipe := strings.Join(append([]string{ref, kubernetes}, image.args...), "\n")
		if made, err := os.ReadFile(archive + ".recipe"); err == nil && string(made) == recipe {
			continue
		}
		fmt.Printf("building %s\n", ref)
		if err := r.command(ctx, r.root, mkimage,
			append([]string{"--name", ref, "--out", archive}, image.args...)...); err != nil {
			return nil, err
		}
		if err := os.WriteFile(archive+".recipe", []byte(recipe), 0o644); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

// command runs a program to its end; what it says is shown when it fails.
func (r *runner) command(ctx context.Context, dir, name string, args ...string) error {
	_, err := r.output(ctx, dir, name, args...)
	return err
}

func (r *runner) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args[:min(len(args), 6)], " "),
			err, out, said.String())
	}
	return string(out), nil
}
