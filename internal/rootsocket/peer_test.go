package rootsocket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPeerUID(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, err := PeerUID(conn); err != nil || int(uid) != os.Getuid() {
		t.Errorf("PeerUID = %d, %v, want %d", uid, err, os.Getuid())
	}

	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	if uid, err := PeerUID(one); !errors.Is(err, ErrNoSocket) {
		t.Errorf("PeerUID of a pipe = %d, %v, want %v", uid, err, ErrNoSocket)
	}
}
