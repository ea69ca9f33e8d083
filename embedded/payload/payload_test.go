//go:build linux

package payload

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/payload/format"
	"github.com/a4s-io/a4s/internal/problem"
)

// version packs a payload whose shim is a program that can be run.
func version(t *testing.T, seed string) (manifest, archive []byte) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	archive, manifest, err = format.Pack([]format.File{
		{Path: "bin/containerd-shim-runc-v2", Data: program},
		{Path: "bin/runc", Data: []byte("runc " + seed)},
		{Path: "bin/cni/bridge", Data: []byte("bridge " + seed)},
		{Path: "images/pause.tar", Data: []byte("pause " + seed)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return manifest, archive
}

func mustExtract(t *testing.T, dataDir string, manifest, archive []byte) *Payload {
	t.Helper()
	p, err := extract(t.Context(), dataDir, manifest, archive)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantContent(t *testing.T, name, want string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s holds %q, want %q", name, got, want)
	}
	if fi, err := os.Lstat(name); err != nil || fi.Mode() != mode {
		t.Errorf("%s has mode %v (%v), want %v", name, fi.Mode(), err, mode)
	}
}

func TestExtract(t *testing.T) {
	dataDir := t.TempDir()
	// The umask of the caller must not make the programs unusable.
	defer syscall.Umask(syscall.Umask(0o077))
	manifest, archive := version(t, "1")
	p := mustExtract(t, dataDir, manifest, archive)
	wantContent(t, p.RuncPath, "runc 1", 0o755)
	wantContent(t, filepath.Join(p.CNIBinDir, "bridge"), "bridge 1", 0o755)
	wantContent(t, p.PauseImageTar, "pause 1", 0o644)
	if err := exec.Command(p.ShimPath, "0").Run(); err != nil {
		t.Errorf("the extracted shim does not run: %v", err)
	}
	before, err := os.Stat(p.RuncPath)
	if err != nil {
		t.Fatal(err)
	}
	again := mustExtract(t, dataDir, manifest, archive)
	after, err := os.Stat(again.RuncPath)
	if err != nil {
		t.Fatal(err)
	}
	if *again != *p || !os.SameFile(before, after) {
		t.Errorf("a second start extracted again: %v, then %v", p, again)
	}
}

func TestExtractRepairsDamage(t *testing.T) {
	for name, damage := range map[string]func(p *Payload) error{
		"content":   func(p *Payload) error { return os.WriteFile(p.RuncPath, []byte("runc X"), 0o755) },
		"cut":       func(p *Payload) error { return os.Truncate(p.RuncPath, 0) },
		"mode":      func(p *Payload) error { return os.Chmod(p.RuncPath, 0o644) },
		"missing":   func(p *Payload) error { return os.Remove(p.RuncPath) },
		"directory": func(p *Payload) error { return errors.Join(os.Remove(p.RuncPath), os.Mkdir(p.RuncPath, 0o755)) },
		"symlink": func(p *Payload) error {
			return errors.Join(os.Remove(p.RuncPath), os.Symlink("/bin/true", p.RuncPath))
		},
		"all": func(p *Payload) error { return os.RemoveAll(p.BinDir) },
		"not a dir": func(p *Payload) error {
			return errors.Join(os.RemoveAll(p.Dir), os.WriteFile(p.Dir, nil, 0o600))
		},
		"stale": func(p *Payload) error {
			return os.MkdirAll(filepath.Join(filepath.Dir(p.Dir), tmpPrefix+"1", "bin"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := t.TempDir()
			manifest, archive := version(t, "1")
			p := mustExtract(t, dataDir, manifest, archive)
			if err := damage(p); err != nil {
				t.Fatal(err)
			}
			mustExtract(t, dataDir, manifest, archive)
			wantContent(t, p.RuncPath, "runc 1", 0o755)
			left, err := filepath.Glob(filepath.Join(dataDir, "data", tmpPrefix+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

func TestPruneKeepsWhatRuns(t *testing.T) {
	// Behind a symbolic link, as an operator may have the data directory.
	dataDir := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), dataDir); err != nil {
		t.Fatal(err)
	}
	m1, a1 := version(t, "1")
	m2, a2 := version(t, "2")
	m3, a3 := version(t, "3")
	v1 := mustExtract(t, dataDir, m1, a1)
	shim := exec.Command(v1.ShimPath, "600")
	if err := shim.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { _ = shim.Process.Kill(); _ = shim.Wait() })
	defer stop()

	v2 := mustExtract(t, dataDir, m2, a2)
	wantContent(t, v1.RuncPath, "runc 1", 0o755)

	// A repair of the running version gives its shim a file of its own; the
	// version is still in use.
	if err := os.Truncate(v1.RuncPath, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(v1.ShimPath, v1.ShimPath+".old"); err != nil {
		t.Fatal(err)
	}
	mustExtract(t, dataDir, m1, a1)
	if err := os.Remove(v1.ShimPath + ".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(v2.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("version 2, from which nothing runs, is still there (%v)", err)
	}
	v3 := mustExtract(t, dataDir, m3, a3)
	wantContent(t, v1.RuncPath, "runc 1", 0o755)

	stop()
	mustExtract(t, dataDir, m3, a3)
	if _, err := os.Stat(v1.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("version 1 is still there after its shim ended (%v)", err)
	}
	wantContent(t, v3.RuncPath, "runc 3", 0o755)
}

// TestPathsInContainers: what runs in a container keeps no version, whatever its path there is.
func TestPathsInContainers(t *testing.T) {
	process, dir := t.TempDir(), t.TempDir()
	e := executable{process: process, path: filepath.Join(dir, "bin", "app")}
	for root, want := range map[string]bool{"/": true, t.TempDir(): false} {
		link := filepath.Join(process, "root")
		_ = os.Remove(link) // there is none at first
		if err := os.Symlink(root, link); err != nil {
			t.Fatal(err)
		}
		if got := e.below(dir, nil); got != want {
			t.Errorf("root directory %s: in use: %v, want %v", root, got, want)
		}
	}
}

func TestExtractConcurrently(t *testing.T) {
	dataDir := t.TempDir()
	manifest, archive := version(t, "1")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = extract(t.Context(), dataDir, manifest, archive) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	wantContent(t, mustExtract(t, dataDir, manifest, archive).RuncPath, "runc 1", 0o755)
}

func TestExtractGivesUpWaiting(t *testing.T) {
	dataDir := t.TempDir()
	manifest, archive := version(t, "1")
	p := mustExtract(t, dataDir, manifest, archive)
	unlock, err := lock(t.Context(), filepath.Join(filepath.Dir(p.Dir), ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := extract(ctx, dataDir, manifest, archive); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestExtractOnBadFileSystem(t *testing.T) {
	noise := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise)
	archive, manifest, err := format.Pack([]format.File{{Path: "bin/runc", Data: noise}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		flags   uintptr
		options string
		cause   error
		says    string
	}{
		"full":      {0, "size=256k", syscall.ENOSPC, "MiB is available"},
		"noexec":    {unix.MS_NOEXEC, "size=8m", nil, "noexec"},
		"read-only": {unix.MS_RDONLY, "size=8m", syscall.EROFS, "can write to"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", tc.flags, tc.options); errors.Is(err, unix.EPERM) {
				t.Skip("mounting a file system needs root")
			} else if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := unix.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			}()
			var p *problem.Precondition
			// What can be seen without writing is seen before anything is made.
			if err := Check(filepath.Join(dir, "not", "yet")); errors.As(err, &p) != (tc.flags == unix.MS_NOEXEC) {
				t.Errorf("Check = %v", err)
			}
			_, err := extract(t.Context(), dir, manifest, archive)
			if !errors.As(err, &p) {
				t.Fatalf("error is %v, want a failed precondition", err)
			}
			if tc.cause != nil && !errors.Is(err, tc.cause) {
				t.Errorf("error is %v, want the cause %v", err, tc.cause)
			}
			for _, want := range []string{dir, tc.says} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			left, err := filepath.Glob(filepath.Join(dir, "data", tmpPrefix+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

func TestExtractRefusesForeignArchive(t *testing.T) {
	manifest, _ := version(t, "1")
	_, archive := version(t, "2")
	if _, err := extract(t.Context(), t.TempDir(), manifest, archive); !errors.Is(err, format.ErrDamaged) {
		t.Errorf("error is %v, want %v", err, format.ErrDamaged)
	}
}

// TestCarriedPayload checks the payload that this test binary carries, when
// there is one.
func TestCarriedPayload(t *testing.T) {
	p, err := Extract(t.Context(), t.TempDir())
	if errors.Is(err, ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{p.RuncPath: "runc version 1.5", p.ShimPath: "Version:  2.4"} {
		arg := "--version"
		if program == p.ShimPath {
			arg = "-v"
		}
		out, err := exec.Command(program, arg).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s %s says %q (%v), want %q in it", program, arg, out, err, want)
		}
	}
	for _, plugin := range []string{"bridge", "host-local", "portmap"} {
		cmd := exec.Command(filepath.Join(p.CNIBinDir, plugin))
		cmd.Env = []string{"CNI_COMMAND=VERSION"}
		cmd.Stdin = strings.NewReader(`{"cniVersion":"1.0.0"}`)
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("supportedVersions")) {
			t.Errorf("CNI plugin %s says %q (%v)", plugin, out, err)
		}
	}
	if fi, err := os.Stat(p.PauseImageTar); err != nil || fi.Size() == 0 {
		t.Errorf("the sandbox image: %v", err)
	}
}

// TestTools: they are beside the programs of a node, which a start removes when it has others and the
// tools do not.
func TestTools(t *testing.T) {
	dataDir := t.TempDir()
	manifest, archive := version(t, "1")
	p := mustExtract(t, dataDir, manifest, archive)
	tools, toolsManifest, err := format.PackTools([]format.File{{Path: "bin/crictl", Data: []byte("crictl 1")}})
	if err != nil {
		t.Fatal(err)
	}
	path, err := extractTool(t.Context(), dataDir, "crictl", toolsManifest, tools)
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, "crictl 1", 0o755)
	wantContent(t, p.RuncPath, "runc 1", 0o755) // of a server that was not restarted yet
	if err := os.WriteFile(path, []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err = extractTool(t.Context(), dataDir, "crictl", toolsManifest, tools); err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, "crictl 1", 0o755)

	newer, newerArchive := version(t, "2")
	sum := filepath.Base(filepath.Dir(filepath.Dir(path)))
	if _, err := extract(t.Context(), dataDir, newer, newerArchive, sum); err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, "crictl 1", 0o755)
	if _, err := os.Stat(p.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the superseded version is still there: %v", err)
	}
	mustExtract(t, dataDir, newer, newerArchive)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tools of another version are still there: %v", err)
	}
}
