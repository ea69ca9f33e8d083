package rootsocket

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// ErrNoSocket is a connection of another kind.
var ErrNoSocket = errors.New("not a connection of a unix socket")

// PeerUID returns the user that made the connection.
func PeerUID(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T: %w", conn, ErrNoSocket)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if peerErr != nil {
		return 0, peerErr
	}
	return peer.Uid, nil
}
