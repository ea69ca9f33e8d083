//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/sirupsen/logrus"
)

// tidy is upstream's manager, which leaves a socket of each shim that was
// killed: a shim removes its own when it ends by itself.
type tidy struct{ shim.Shim }

// Stop implements shim.Shim. containerd calls it in a bundle for what is left
// of a shim that is dead.
func (t tidy) Stop(ctx context.Context, id string) (shim.StopStatus, error) {
	status, err := t.Shim.Stop(ctx, id)
	if err != nil {
		return status, err
	}
	bundle, err := os.Getwd()
	if err == nil {
		err = removeSocket(ctx, filepath.Join(filepath.Dir(bundle), id))
	}
	if err != nil {
		logrus.WithError(err).Warn("failed to remove the socket of the shim")
	}
	return status, nil
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
