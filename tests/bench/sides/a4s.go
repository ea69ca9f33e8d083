package sides

import (
	"context"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/pki"
)

// PlainA4s are the arguments without which a4s does more than upstream's
// programs do.
func PlainA4s() []string {
	return []string{"--disable", "dns,local-storage,metrics-server,servicelb", "--disable-network-policy"}
}

// A4s makes a server of a4s. It has a copy of the binary: sides that share one
// would seem to need less memory. SetArgs changes its arguments.
func (m *Maker) A4s(ctx context.Context, name string, args ...string) (*Side, error) {
	return m.newSide(ctx, name, func(s *Side) error {
		binary := filepath.Join(m.Lab.Dir, "bin", s.Host.IP.String(), "a4s")
		if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
			return err
		}
		data, err := os.ReadFile(m.Binary)
		if err != nil {
			return err
		}
		s.own = filepath.Dir(binary)
		if err := os.WriteFile(binary, data, 0o755); err != nil {
			return err
		}
		s.TLS = pki.FilesIn(s.Host.Path("/var/lib/a4s/server/tls"))
		s.Kubeconfig = s.Host.Path("/etc/a4s/a4s.yaml")
		s.Socket = s.Host.Path("/run/a4s/containerd/containerd.sock")
		s.SetArgs(args...)
		s.launch = func(ctx context.Context, s *Side) { s.keep(ctx, binary, append([]string{"server"}, s.args...)...) }
		return nil
	})
}

// SetArgs are the arguments of a server of a4s from its next start on.
func (s *Side) SetArgs(args ...string) { s.args = args }
