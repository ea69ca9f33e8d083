//go:build linux

package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

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
