package rootsocket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "s")
	left, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false) // as one that was killed
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal("one is left behind: ", err)
	}
	defer l.Close()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestWhatIsInTheWayIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Listen(t.Context(), path)
	var p *problem.Precondition
	if !errors.As(err, &p) {
		t.Errorf("error %v, want a problem.Precondition", err)
	}
}
