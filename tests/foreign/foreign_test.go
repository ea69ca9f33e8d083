package foreign_test

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// architecture is how others call what Go calls by the key.
type architecture struct {
	emulator string
	machine  elf.Machine
}

var architectures = map[string]architecture{
	"amd64": {"qemu-x86_64-static", elf.EM_X86_64},
	"arm64": {"qemu-aarch64-static", elf.EM_AARCH64},
}

// program is what is tested, with what runs it.
type program struct {
	architecture
	name, path string
}

func foreign(t *testing.T) program {
	t.Helper()
	path, name := os.Getenv("A4S_FOREIGN"), os.Getenv("A4S_FOREIGN_ARCH")
	if path == "" {
		t.Skip("needs a program of another architecture: run it with `make test-foreign ARCH=arm64`")
	}
	a, ok := architectures[name]
	if !ok {
		t.Fatalf("A4S_FOREIGN_ARCH=%s: want amd64 or arm64", name)
	}
	return program{a, name, path}
}

func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.emulator, append([]string{p.path}, args...)...)
}

func TestProgramSaysItsArchitecture(t *testing.T) {
	p := foreign(t)
	out, err := p.command(t.Context(), "--version").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("linux/"+p.name)) {
		t.Errorf("%v, want linux/%s in\n%s", err, p.name, out)
	}
}

// One file that needs nothing of the machine, and what it carries is the same.
func TestWhatIsCarriedHasTheArchitecture(t *testing.T) {
	p := foreign(t)
	files := []string{p.path}
	for _, archive := range []string{"payload", "tools"} {
		dir := t.TempDir()
		file := filepath.Join("../../embedded/payload/archive", p.name, archive+".tar.zst")
		out, err := exec.CommandContext(t.Context(), "tar", "--zstd", "-xf", file, "-C", dir).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".tar") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"a4s-" + p.name, "runc", "containerd-shim-runc-v2", "bridge", "init", "crictl"} {
		if !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == want }) {
			t.Errorf("there is no %s among %q", want, files)
		}
	}
	for _, file := range files {
		f, err := elf.Open(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if f.Machine != p.machine {
			t.Errorf("%s is for %s, want %s", filepath.Base(file), f.Machine, p.machine)
		}
		for _, part := range f.Progs {
			if part.Type == elf.PT_INTERP {
				t.Errorf("%s is not static", filepath.Base(file))
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// startLimit is how long an emulated server may take, on a busy machine.
const startLimit = 8 * time.Minute

// A server without a node, which needs nothing of the machine, and kubectl in the same program.
func TestServerServes(t *testing.T) {
	p := foreign(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	dir := t.TempDir()
	kubeconfig, log := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "log")
	said, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	server := p.command(ctx, "server", "--disable-agent", "--data-dir", filepath.Join(dir, "data"),
		"--bind-address", "127.0.0.1", "--https-listen-port", freePort(t), "--write-kubeconfig", kubeconfig)
	server.Stdout, server.Stderr = said, said
	// All of it, whatever it starts.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	server.Cancel = func() error { return syscall.Kill(-server.Process.Pid, syscall.SIGKILL) }
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("the server says:\n%s", text)
		}
	}()
	kubectl := func(args ...string) (string, error) {
		args = append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)
		out, err := p.command(ctx, args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return string(out), err
	}
	for {
		_, err := os.Stat(kubeconfig)
		if err == nil {
			_, err = kubectl("get", "--raw", "/readyz")
		}
		if err == nil {
			break
		}
		select {
		case end := <-ended:
			t.Fatalf("the server has ended: %v", end)
		case <-ctx.Done():
			t.Fatalf("the API is not ready: %v", err)
		case <-time.After(time.Second):
		}
	}
	if out, err := kubectl("create", "namespace", "emulated"); err != nil {
		t.Errorf("%s: %v", out, err)
	}
	if out, err := kubectl("version"); err != nil || !strings.Contains(out, "Server Version: v1.") {
		t.Errorf("%s: %v", out, err)
	}
	if err := syscall.Kill(server.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it does not stop as it should: %v", err)
	}
}

// freePort is one that nothing listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
