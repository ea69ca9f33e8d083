package sides

import (
	"context"
	"maps"
	"net"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/pki"
)

// Etcd makes a side of etcd alone, that servers of a4s share.
func (m *Maker) Etcd(ctx context.Context, name string) (*Side, error) {
	return m.newSide(ctx, name, func(s *Side) error {
		dir, ip := filepath.Join(m.Lab.Dir, "etcd-"+s.Host.IP.String()), s.Host.IP.String()
		files, err := pki.Ensure(filepath.Join(dir, "pki"), pki.Options{EtcdSANs: []string{ip}})
		if err != nil {
			return err
		}
		s.TLS = files
		url := etcdURL(s)
		args := place{Dir: dir, Name: name, IP: ip, TLS: files}.commands()["etcd"]
		maps.Copy(args, map[string]string{"listen-client-urls": url, "advertise-client-urls": url})
		program := filepath.Join(m.Programs, "etcd")
		s.launch = func(ctx context.Context, s *Side) { s.keep(ctx, program, flags(args)...) }
		return nil
	})
}

func etcdURL(s *Side) string { return "https://" + net.JoinHostPort(s.Host.IP.String(), "2379") }

// DatastoreArgs are the arguments with which a server of a4s uses the side, which is one of
// Etcd.
func (s *Side) DatastoreArgs() []string {
	return []string{
		"--datastore-endpoint", etcdURL(s), "--datastore-cafile", s.TLS.EtcdServerCA.Cert,
		"--datastore-certfile", s.TLS.EtcdClient.Cert, "--datastore-keyfile", s.TLS.EtcdClient.Key,
	}
}
