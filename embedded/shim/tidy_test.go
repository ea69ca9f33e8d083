//go:build linux

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/runc"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
)

// failing is a manager whose runc deletes nothing at first, of which
// upstream's says nothing.
type failing struct {
	shim.Shim
	state       string
	fails, asks int
}

func (f *failing) Stop(context.Context, string) (shim.StopStatus, error) {
	f.asks++
	if f.asks > f.fails {
		if err := os.RemoveAll(f.state); err != nil {
			return shim.StopStatus{}, err
		}
	}
	return shim.StopStatus{Pid: f.asks}, nil
}

func TestContainersOfDeadShimsAreRemoved(t *testing.T) {
	for _, tc := range []struct {
		name        string
		fails, asks int
		ends        bool // while it is tried
	}{
		{"at once", 0, 1, false},
		{"when runc fails twice", 2, 3, false},
		{"when runc goes on failing", 1000, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, bundle := t.TempDir(), t.TempDir()
			if err := runc.WriteOptions(bundle, &options.Options{Root: root}); err != nil {
				t.Fatal(err)
			}
			manager := &failing{state: filepath.Join(root, "ns", "id"), fails: tc.fails}
			if err := os.MkdirAll(manager.state, 0o700); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(namespaces.WithNamespace(t.Context(), "ns"))
			if tc.ends {
				cancel()
			}
			defer cancel()
			status, err := tidy{manager}.removeContainer(ctx, bundle, "id")
			if status.Pid != 1 || manager.asks != tc.asks {
				t.Errorf("status %+v after %d calls, want that of the first of %d", status, manager.asks, tc.asks)
			}
			if errors.Is(err, context.Canceled) != tc.ends || (err != nil) != tc.ends {
				t.Errorf("error = %v, want one: %v", err, tc.ends)
			}
		})
	}
}

func TestSocketsOfDeadShimsAreRemoved(t *testing.T) {
	for _, tc := range []struct {
		name         string
		lives, there bool
	}{
		{"a dead one", false, false},
		{"one that lives", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "shim") // socket paths are short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			socket := filepath.Join(dir, "s")
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			defer l.Close()
			if !tc.lives {
				l.Close()
			}
			// As containerd writes it.
			text := `{"version":3,"address":"unix://` + socket + `","protocol":"ttrpc"}`
			if err := os.WriteFile(filepath.Join(dir, "bootstrap.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // for the sandbox and for a container in it
				if err := removeSocket(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Lstat(socket); errors.Is(err, os.ErrNotExist) == tc.there {
				t.Errorf("afterwards the socket is there: %v", err)
			}
		})
	}
	if err := removeSocket(t.Context(), t.TempDir()); err != nil {
		t.Errorf("a bundle without a shim: %v", err)
	}
}
