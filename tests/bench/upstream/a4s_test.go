package upstream

import (
	"context"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/pki"
)

// extras are what a4s does besides what the seven programs do.
func extras() []string {
	return []string{"--disable", "dns,local-storage,metrics-server,servicelb", "--disable-network-policy"}
}

// prepareA4s copies the binary: sides that share one would seem to need less
// memory.
func (c *cluster) prepareA4s() error {
	binary := filepath.Join(env.lab.Dir, "bin", c.host.IP.String(), "a4s")
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(env.binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(binary, data, 0o755); err != nil {
		return err
	}
	c.tls = pki.FilesIn(c.host.Path("/var/lib/a4s/server/tls"))
	c.kubeconfig = c.host.Path("/etc/a4s/a4s.yaml")
	c.socket = c.host.Path("/run/a4s/containerd/containerd.sock")
	args := []string{"server"}
	if c.name == sidePlain {
		args = append(args, extras()...)
	}
	c.launch = func(ctx context.Context, c *cluster) { c.keep(ctx, binary, args...) }
	return nil
}
