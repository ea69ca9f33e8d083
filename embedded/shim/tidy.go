//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/process"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/runc"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/sirupsen/logrus"
)

// tidy is upstream's manager, which leaves two things of a shim that was
// killed: its socket, which a shim removes when it ends by itself, and the
// container, when runc fails to delete it once.
type tidy struct{ shim.Shim }

// removeLimit is less than what containerd gives Stop, so that the reason is
// in its log (see package embedded/containerd).
const removeLimit = 25 * time.Second

// Stop implements shim.Shim. containerd calls it in a bundle for what is left
// of a shim that is dead.
func (t tidy) Stop(ctx context.Context, id string) (shim.StopStatus, error) {
	dir, err := os.Getwd()
	if err != nil {
		return shim.StopStatus{}, err
	}
	bundle := filepath.Join(filepath.Dir(dir), id)
	removal, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	status, err := t.removeContainer(removal, bundle, id)
	// Also of a container that stays: containerd forgets the bundle, which says where the socket is, at
	// its next start at the latest.
	if err := removeSocket(ctx, bundle); err != nil {
		logrus.WithError(err).Warn("failed to remove the socket of the shim")
	}
	return status, err
}

// removeContainer stops a container until runc does not know it any more.
// Upstream's manager only logs that runc failed, for example because the
// kernel has not ended the processes of a cgroup yet. After an error containerd
// keeps the bundle, tries once more when it starts, and says that the container
// ended with 255, whatever it ended with.
func (t tidy) removeContainer(ctx context.Context, bundle, id string) (shim.StopStatus, error) {
	// Read first: all of the bundle may be gone afterwards.
	state, err := stateDir(ctx, bundle)
	if err != nil {
		return shim.StopStatus{}, err
	}
	status, err := t.Shim.Stop(ctx, id)
	for pause := 100 * time.Millisecond; err == nil; pause = min(2*pause, 2*time.Second) {
		_, err := os.Lstat(filepath.Join(state, id))
		if errors.Is(err, os.ErrNotExist) {
			return status, nil
		}
		if err != nil {
			return status, err
		}
		select {
		case <-ctx.Done():
			return status, fmt.Errorf("runc has not deleted container %s: %w", id, ctx.Err())
		case <-time.After(pause):
		}
		// The first status has the time at which it ended.
		if _, err := t.Shim.Stop(ctx, id); err != nil {
			return status, err
		}
	}
	return status, err
}

// stateDir is where runc has a directory for each container of a bundle's
// namespace.
func stateDir(ctx context.Context, bundle string) (string, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return "", err
	}
	options, err := runc.ReadOptions(bundle)
	if err != nil {
		return "", err
	}
	root := process.RuncRoot
	if options != nil && options.Root != "" {
		root = options.Root
	}
	return filepath.Join(root, namespace), nil
}

// removeSocket removes the socket of the shim of a bundle, unless that lives.
func removeSocket(ctx context.Context, bundle string) error {
	text, err := os.ReadFile(filepath.Join(bundle, "bootstrap.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was never started
	}
	if err != nil {
		return err
	}
	var started struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal(text, &started); err != nil {
		return err
	}
	path, ok := strings.CutPrefix(started.Address, "unix://")
	if !ok {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, os.ErrNotExist):
		return nil // that of a container was removed with that of its sandbox
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}
