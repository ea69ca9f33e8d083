package rootsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/problem"
)

// Dial returns what a http.Transport dials with, so that each of its connections
// is to the socket at path, whatever the address.
func Dial(path string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
}

// Listen opens the unix socket at path, and makes its directory if need be. A
// file there that cannot be removed is a problem.Precondition.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return nil, fmt.Errorf("directory of a socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &problem.Precondition{What: "socket " + path, Err: err, Fix: "remove it"}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening a socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protecting a socket: %w", err), listener.Close())
	}
	return listener, nil
}
