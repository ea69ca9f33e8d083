package kubelet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// StatusPeriod is how often the kubelet reports the status of its node.
func (o Options) StatusPeriod() (time.Duration, error) {
	dir, err := os.MkdirTemp("", "a4s-kubelet")
	if err != nil {
		return 0, fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	server, err := o.server(filepath.Join(dir, "kubelet.yaml"))
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return 0, err
	}
	return server.NodeStatusUpdateFrequency.Duration, nil
}
