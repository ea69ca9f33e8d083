package kubelet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Chosen is what other parts of the node ask of the kubelet's configuration.
type Chosen struct {
	// StatusPeriod is how often the kubelet reports the status of its node.
	StatusPeriod time.Duration
	// ProtectKernelDefaults says that the kernel's settings are the operator's.
	ProtectKernelDefaults bool
}

// Chosen reads the configuration that the kubelet will have.
func (o Options) Chosen() (Chosen, error) {
	dir, err := os.MkdirTemp("", "a4s-kubelet")
	if err != nil {
		return Chosen{}, fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	server, err := o.server(filepath.Join(dir, "kubelet.yaml"))
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return Chosen{}, err
	}
	return Chosen{StatusPeriod: server.NodeStatusUpdateFrequency.Duration,
		ProtectKernelDefaults: server.ProtectKernelDefaults}, nil
}
