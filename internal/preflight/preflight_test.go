package preflight

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestTakenPortNamesPortUseAndFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	check := Port{Address: "127.0.0.1", Port: port, What: "API server", Flag: "--https-listen-port"}
	err = Ports(check)
	var p *problem.Precondition
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "API server") ||
		!strings.Contains(err.Error(), "--https-listen-port") {
		t.Errorf("Ports = %v, want a precondition with use and flag", err)
	}
	l.Close()
	if err := Ports(check); err != nil {
		t.Errorf("Ports = %v after the port was freed", err)
	}
}

func TestForeignAddressIsNamed(t *testing.T) {
	err := Ports(Port{Address: "192.0.2.77", Port: 6443, What: "API server"})
	if err == nil || !strings.Contains(err.Error(), "--bind-address") {
		t.Errorf("Ports = %v, want a hint at --bind-address", err)
	}
}

func TestFreeSpaceOfADirectoryYetToBeMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	if err := FreeSpace(dir, 1); err != nil {
		t.Errorf("FreeSpace(1 byte) = %v", err)
	}
	var p *problem.Precondition
	if err := FreeSpace(dir, 1<<62); !errors.As(err, &p) || !strings.Contains(err.Error(), dir) {
		t.Errorf("FreeSpace(4 EiB) = %v, want a precondition that names the directory", err)
	}
}

func TestReadOnlyFileSystemIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=1m"); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	err := FreeSpace(dir, 1)
	var p *problem.Precondition
	if !errors.As(err, &p) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("got %v, want a precondition that names the directory", err)
	}
}
