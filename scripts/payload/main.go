//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/a4s-io/a4s/embedded/payload/format"
	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/scripts/ociarchive"
)

// runc is built as the main module that it is: it pins other versions of what
// it shares with containerd and Kubernetes.
const (
	runcModule  = "github.com/opencontainers/runc"
	runcVersion = "v1.5.2"
	// runcSum is the module's hash as go.sum would hold it.
	runcSum = "h1:eUUowc2WJCnFYzI87C1WqRcu356Dk/wsoi90y+2wEfE="
	// Without the libpathrs tag, which would need a library of its own.
	runcTags = "seccomp,urfave_cli_no_docs,netgo,osusergo"

	// outDir has a directory for each architecture.
	outDir = "embedded/payload/archive"
)

// crictl is of the minor version of Kubernetes in go.mod, and built as the main module that it is, because
// its commands cannot be imported.
const (
	crictlModule  = "sigs.k8s.io/cri-tools"
	crictlVersion = "v1.37.0"
	// crictlSum is the module's hash as go.sum would hold it.
	crictlSum = "h1:BmTImEoTX3KPXCLwmIU9mfCC8umUqF4R8WibY9eVU9Y="
)

// seccompHeader is what a machine without libseccomp-dev lacks.
const seccompHeader = "/usr/include/seccomp.h"

// triplets are what Debian calls architectures that programs are built for: their directories of libraries, and, on
// machines of another one, their compilers.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "payload: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if _, err := os.Stat("embedded/shim/main.go"); err != nil {
		return fmt.Errorf("run this from the root of the repository: %w", err)
	}
	arch := flag.String("arch", runtime.GOARCH, "the `architecture` to build for, amd64 or arm64")
	flag.Parse()
	if _, ok := triplets[*arch]; !ok || flag.NArg() > 0 {
		return fmt.Errorf("--arch %q and %q: want amd64 or arm64, and nothing else", *arch, flag.Args())
	}
	tmp, err := os.MkdirTemp("", "a4s-payload-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := builder{ctx: ctx, dir: tmp, arch: *arch}

	steps := []func() error{b.shim, b.runc, b.cni, b.pause, b.guest, b.crictl}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	// Fixed lists, so that a step that made too little fails here.
	for _, part := range []struct {
		what, archive, manifest string
		pack                    func([]format.File) (archive, manifest []byte, err error)
		files                   []string
	}{
		{"payload", format.ArchiveName, format.ManifestName, format.Pack, []string{
			"bin/containerd-shim-runc-v2", "bin/runc", "bin/cni/bridge", "bin/cni/host-local", "bin/cni/portmap",
			"images/pause.tar", "guest/init",
		}},
		{"tools", format.ToolsArchiveName, format.ToolsManifestName, format.PackTools, []string{"bin/crictl"}},
	} {
		files, err := b.files(part.files)
		if err != nil {
			return err
		}
		archive, manifest, err := part.pack(files)
		if err != nil {
			return err
		}
		// The manifest last: with an archive of another build it is refused at
		// run time, never mistaken for a match.
		if err := atomicfile.Update(filepath.Join(outDir, b.arch, part.archive), archive, 0o644); err != nil {
			return err
		}
		if err := atomicfile.Update(filepath.Join(outDir, b.arch, part.manifest), manifest, 0o644); err != nil {
			return err
		}
		report(part.what, files, archive)
	}
	return nil
}

// builder runs the Go tool with its output below dir.
type builder struct {
	ctx context.Context
	dir string
	// arch is what it builds for.
	arch string
}

// foreign reports whether this machine has another architecture.
func (b builder) foreign() bool { return b.arch != runtime.GOARCH }

func (b builder) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

// goTool runs the Go tool. Its errors carry what the tool said.
func (b builder) goTool(env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(b.ctx, "go", args...)
	cmd.Env = append(append(os.Environ(), "GOARCH="+b.arch), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		// With -json the Go tool reports on its standard output.
		said := strings.TrimSpace(stderr.String() + "\n" + stdout.String())
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return stdout.Bytes(), nil
}

// static builds packages of this module without cgo, so that they need nothing
// of the machine.
func (b builder) static(out, ldflags string, packages ...string) error {
	args := append([]string{"build", "-o", out, "-ldflags", "-s -w " + ldflags}, packages...)
	_, err := b.goTool([]string{"CGO_ENABLED=0"}, args...)
	return err
}

// version returns the version of a module in go.mod.
func (b builder) version(module string) (string, error) {
	out, err := b.goTool(nil, "list", "-m", "-f", "{{.Version}}", module)
	return strings.TrimSpace(string(out)), err
}

func (b builder) shim() error {
	const module = "github.com/containerd/containerd/v2"
	v, err := b.version(module)
	if err != nil {
		return err
	}
	return b.static(b.path("bin/containerd-shim-runc-v2"),
		"-X "+module+"/version.Version="+strings.TrimPrefix(v, "v"), "./embedded/shim")
}

func (b builder) cni() error {
	const module = "github.com/containernetworking/plugins"
	v, err := b.version(module)
	if err != nil {
		return err
	}
	return b.static(b.path("bin/cni")+"/", "-X "+module+"/pkg/utils/buildversion.BuildVersion="+v,
		module+"/plugins/main/bridge", module+"/plugins/ipam/host-local", module+"/plugins/meta/portmap")
}

func (b builder) runc() error {
	triplet := triplets[b.arch]
	if b.foreign() {
		if _, err := os.Stat(filepath.Join("/usr/lib", triplet, "libseccomp.a")); err != nil {
			return fmt.Errorf("runc needs libseccomp of %s (run scripts/install-deps.sh cross): %w", b.arch, err)
		}
	} else if _, err := os.Stat(seccompHeader); err != nil {
		return fmt.Errorf("runc needs the headers of libseccomp (run 'make deps', or install libseccomp-dev): %w", err)
	}
	if err := b.reviewed(runcModule, runcVersion, runcSum); err != nil {
		return err
	}
	env := []string{"CGO_ENABLED=1"}
	if b.foreign() {
		env = append(env, "CC="+triplet+"-gcc",
			"PKG_CONFIG_LIBDIR=/usr/lib/"+triplet+"/pkgconfig:/usr/share/pkgconfig")
	}
	return b.install(env, "runc", "-tags", runcTags, "-ldflags", "-s -w -extldflags -static",
		runcModule+"@"+runcVersion)
}

// install builds a program of another main module.
func (b builder) install(env []string, name string, args ...string) error {
	args = append([]string{"install"}, args...)
	if !b.foreign() {
		_, err := b.goTool(append(env, "GOBIN="+b.path("bin")), args...)
		return err
	}
	// The Go tool puts one for another architecture below GOPATH, and nowhere else. What it has
	// downloaded and verified stays where it is.
	settings, err := b.goTool(nil, "env", "GOPATH", "GOENV")
	if err != nil {
		return err
	}
	gopath, file, _ := strings.Cut(strings.TrimSpace(string(settings)), "\n")
	gopath, _, _ = strings.Cut(gopath, string(os.PathListSeparator))
	if err := os.MkdirAll(b.path("go"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(gopath, "pkg"), b.path("go/pkg")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// A directory that the user has chosen for programs would be refused.
	user, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	kept := slices.DeleteFunc(strings.SplitAfter(string(user), "\n"),
		func(line string) bool { return strings.HasPrefix(line, "GOBIN=") || strings.HasPrefix(line, "GOPATH=") })
	if err := os.WriteFile(b.path("goenv"), []byte(strings.Join(kept, "")), 0o600); err != nil {
		return err
	}
	env = append(env, "GOBIN=", "GOENV="+b.path("goenv"), "GOPATH="+b.path("go"))
	if _, err := b.goTool(env, args...); err != nil {
		return err
	}
	return os.Rename(b.path("go/bin/linux_"+b.arch+"/"+name), b.path("bin/"+name))
}

// reviewed downloads a module and refuses it if it has another hash.
func (b builder) reviewed(module, version, sum string) error {
	out, err := b.goTool(nil, "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return err
	}
	var got struct{ Sum string }
	if err := json.Unmarshal(out, &got); err != nil {
		return fmt.Errorf("reading what the Go tool says of %s: %w", module, err)
	}
	if got.Sum != sum {
		return fmt.Errorf("%s@%s has the hash %s, want %s: this is not the source that was reviewed", module, version,
			got.Sum, sum)
	}
	return nil
}

// crictl is refused if Kubernetes has another minor version: they are released together.
func (b builder) crictl() error {
	kubernetes, err := b.version("k8s.io/kubernetes")
	if err != nil {
		return err
	}
	if minor(kubernetes) != minor(crictlVersion) {
		return fmt.Errorf("crictl %s is not that of Kubernetes %s: raise crictlVersion and crictlSum", crictlVersion,
			kubernetes)
	}
	if err := b.reviewed(crictlModule, crictlVersion, crictlSum); err != nil {
		return err
	}
	return b.install([]string{"CGO_ENABLED=0"}, "crictl", "-tags", "netgo,osusergo",
		"-ldflags", "-s -w -X "+crictlModule+"/pkg/version.Version="+crictlVersion,
		crictlModule+"/cmd/crictl@"+crictlVersion)
}

// minor is v1.37 of v1.37.2.
func minor(version string) string { return version[:max(0, strings.LastIndex(version, "."))] }

func (b builder) pause() error {
	if err := b.static(b.path("pause"), "", "./embedded/pause"); err != nil {
		return err
	}
	data, err := os.ReadFile(b.path("pause"))
	if err != nil {
		return err
	}
	var image bytes.Buffer
	err = ociarchive.Write(&image, ociarchive.Image{
		Ref: format.PauseImage, Architecture: b.arch,
		Entrypoint: []string{"/pause"}, User: "65535:65535",
		Files: []ociarchive.File{{Path: "/pause", Mode: 0o755, Data: data}},
		// The payload is compressed as a whole, and better than by gzip.
		Plain: true,
	})
	if err != nil {
		return err
	}
	if err := os.Mkdir(b.path("images"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.path("images/pause.tar"), image.Bytes(), 0o644)
}

// guest builds the init program of virtual machines.
func (b builder) guest() error { return b.static(b.path("guest/init"), "", "./embedded/guest") }

// files reads the files of an archive.
func (b builder) files(names []string) ([]format.File, error) {
	var files []format.File
	for _, name := range names {
		data, err := os.ReadFile(b.path(name))
		if err != nil {
			return nil, err
		}
		files = append(files, format.File{Path: name, Data: data})
	}
	return files, nil
}

func report(what string, files []format.File, archive []byte) {
	total := 0
	for _, f := range files {
		fmt.Printf("  %-32s %6.1f MB\n", f.Path, float64(len(f.Data))/1e6)
		total += len(f.Data)
	}
	fmt.Printf("  %-32s %6.1f MB, %.1f MB compressed\n", what, float64(total)/1e6, float64(len(archive))/1e6)
}
