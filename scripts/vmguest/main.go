//go:build linux

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/a4s-io/a4s/embedded/guest/initrd"
	"github.com/a4s-io/a4s/internal/atomicfile"
)

// wanted are the modules that a guest needs. Those that the kernel has built in
// are not missed, see modules.builtin in the package.
var wanted = []string{
	"virtio_pci", "virtio_console", "virtio_blk", "virtio_net", "virtio_rng", "virtiofs", "ext4",
	"overlay", "af_packet",
}

// helpful are those that a kernel may lack. The first is what ext4 asks the
// kernel for by another name, the second is for networks that a privileged
// container makes.
var helpful = []string{"crc32c_generic", "bridge"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "vmguest: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	arch := flag.String("arch", runtime.GOARCH, "the `architecture` of the guest, amd64 or arm64")
	name := flag.String("package", "",
		"Debian package of the kernel, or one that depends on it (default linux-image-cloud-ARCH)")
	deb := flag.String("deb", "", "the file of such a package, instead of one that apt-get gets")
	out := flag.String("out", "bin/guest", "directory to write vmlinuz and initrd.img to")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *name == "" {
		*name = "linux-image-cloud-" + *arch
	}
	tmp, err := os.MkdirTemp("", "a4s-vmguest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if *deb == "" {
		if *deb, err = download(ctx, tmp, *name, *arch); err != nil {
			return err
		}
	}
	root := filepath.Join(tmp, "root")
	if _, err := command(ctx, tmp, "dpkg-deb", "-x", *deb, root); err != nil {
		return err
	}
	kernel, err := one(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return err
	}
	release := strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-")
	// Newer releases have it below /usr.
	dir, err := one(filepath.Join(root, "lib/modules", release), filepath.Join(root, "usr/lib/modules", release))
	if err != nil {
		return err
	}
	modules, err := openModules(dir)
	if err != nil {
		return err
	}
	files, err := modules.files(ctx, wanted, helpful)
	if err != nil {
		return err
	}
	var image bytes.Buffer
	if err := initrd.Write(&image, files); err != nil {
		return err
	}
	data, err := os.ReadFile(kernel)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"vmlinuz": data, "initrd.img": image.Bytes()} {
		if err := atomicfile.Update(filepath.Join(*out, name), content, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("kernel %s (%d bytes) and %d modules (%d bytes) in %s\n", release, len(data),
		len(files)-1, image.Len(), *out)
	return nil
}

// packageName is Debian's rule for the name of a package.
var packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)

// download gets the package and returns its file. One for another architecture needs that apt knows of it
// (scripts/install-deps.sh cross).
func download(ctx context.Context, dir, name, arch string) (string, error) {
	if !packageName.MatchString(name) {
		return "", fmt.Errorf("--package %q: want the name of a Debian package", name)
	}
	deps, err := command(ctx, dir, "apt-cache", "depends", "--important", name+":"+arch)
	if err != nil {
		return "", fmt.Errorf("%w (are the package lists there? apt-get update)", err)
	}
	// A package of a kernel has its release in the name; that of the newest
	// one depends on it.
	for line := range strings.Lines(deps) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok &&
			strings.HasPrefix(d, "linux-image-") {
			name, _, _ = strings.Cut(d, ":") // of the architecture, if it is not that of apt
		}
	}
	// apt's own user may not write here; that it says so is no failure.
	if _, err := command(ctx, dir, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download",
		name+":"+arch); err != nil {
		return "", err
	}
	return one(filepath.Join(dir, name+"_*.deb"))
}

// command runs a program in dir. Its errors carry what the program said.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// one returns the one file that the patterns match.
func one(patterns ...string) (string, error) {
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	if len(all) != 1 {
		return "", fmt.Errorf("%d files are %s, want one", len(all), strings.Join(patterns, " or "))
	}
	return all[0], nil
}
