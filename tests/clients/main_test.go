package clients

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// The test process is run three times: outside, then as the first process of a
// process namespace, and at last, as the same process, without the network.
const (
	envStage    = "A4S_CLIENTS_STAGE"
	stageFiles  = "files"
	stageTests  = "tests"
	envBinary   = "A4S_BINARY"
	addressHere = "192.0.2.1" // of the machine, as far as the server goes
)

// The file systems in memory that cover those of the machine. /run is covered
// late: what it holds may be needed to resolve names during the build.
const (
	memory = "/dev/shm"
	runDir = "/run"
)

// Namespaces belong to threads: this keeps TestMain on the one that enters
// them, and whose end ends the child.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("tests with real clients are not short")
		return
	}
	var code int
	var err error
	switch os.Getenv(envStage) {
	case stageFiles:
		err = prepareFiles()
	case stageTests:
		code, err = runTests(m)
	default:
		code, err = outside()
	}
	if err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

// outside starts this program again in namespaces of its own.
func outside() (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("tests with real clients make namespaces: run them as root")
	}
	binary := os.Getenv(envBinary)
	if binary == "" {
		binary = filepath.Join("..", "..", "bin", "a4s")
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(binary); err != nil {
		return 0, fmt.Errorf("%s: %w: build it with make", envBinary, err)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), envStage+"="+stageFiles, envBinary+"="+binary)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// prepareFiles is the first process of the namespaces. It makes the file
// systems and kubectl, for which it may need the network, and becomes the tests.
func prepareFiles() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := os.MkdirAll(memory, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mounting %s: %w", memory, err)
	}
	if err := buildKubectl(); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", runDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mounting %s: %w", runDir, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}
	temporary := filepath.Join(memory, "tmp")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		return err
	}
	for name, value := range map[string]string{envStage: stageTests, "TMPDIR": temporary} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	// The process keeps the namespaces of the thread that calls this.
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

func kubectlBinary() string { return filepath.Join(memory, "kubectl") }

func buildKubectl() error {
	started := time.Now()
	tmp := filepath.Join(memory, "build")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	// kubectl refuses to print a version that is none.
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubectl").Output()
	if err != nil {
		return fmt.Errorf("asking for the version of kubectl: %w", err)
	}
	stamp := "-X k8s.io/component-base/version.gitVersion=v1" +
		strings.TrimPrefix(strings.TrimSpace(string(version)), "v0")
	build := exec.Command("go", "build", "-ldflags", stamp, "-o", kubectlBinary(), "./kubectl")
	build.Env = append(os.Environ(), "GOTMPDIR="+tmp)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	fmt.Printf("built kubectl in %s\n", time.Since(started).Round(time.Second))
	return os.RemoveAll(tmp)
}

// connectLoopback gives the namespace its only network.
func connectLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket) //nolint:errcheck // nothing was written to it
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("setting lo up: %w", err)
	}
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr([]byte{192, 0, 2, 1}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, alias); err != nil {
		return fmt.Errorf("adding %s to lo: %w", addressHere, err)
	}
	return nil
}

func runTests(m *testing.M) (int, error) {
	// What the libraries say belongs to tests that fail, which say it better.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	if err := connectLoopback(); err != nil {
		return 0, err
	}
	s, err := startServer(os.Getenv(envBinary))
	if err != nil {
		return 0, err
	}
	defer s.kill()
	if err := s.makeTenants(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, s.lastLines())
	}
	code := m.Run()
	if code != 0 {
		fmt.Printf("last lines of the server:\n%s\n", s.lastLines())
	}
	return code, nil
}
