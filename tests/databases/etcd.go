package databases

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
)

// Etcd is an etcd that asks for certificates.
type Etcd struct {
	Endpoint                  string
	CAFile, CertFile, KeyFile string
}

// StartEtcd runs an etcd on its usual ports of loopback until the test ends.
func StartEtcd(t testing.TB) *Etcd {
	t.Helper()
	return startEtcd(t, "")
}

// StartEtcdAt is StartEtcd at an address, too.
func StartEtcdAt(t testing.TB, address string) *Etcd {
	t.Helper()
	e := startEtcd(t, address)
	e.Endpoint = fmt.Sprintf("https://%s:%d", address, etcd.ClientPort)
	return e
}

func startEtcd(t testing.TB, address string) *Etcd {
	t.Helper()
	dir := t.TempDir()
	options := pki.Options{SANs: []string{"127.0.0.1"}}
	if address != "" {
		options.EtcdSANs = []string{address}
	}
	files, err := pki.Ensure(filepath.Join(dir, "tls"), options)
	if err != nil {
		t.Fatal(err)
	}
	s, err := etcd.New(etcd.Options{
		Dir: filepath.Join(dir, "etcd"), Name: "other", Address: address,
		CertFile: files.EtcdServer.Cert, KeyFile: files.EtcdServer.Key, TrustedCAFile: files.EtcdServerCA.Cert,
		PeerCertFile: files.EtcdPeer.Cert, PeerKeyFile: files.EtcdPeer.Key, PeerTrustedCAFile: files.EtcdPeerCA.Cert,
		Zap: zap.NewNop(), Log: logrus.NewEntry(logrus.StandardLogger()),
	})
	if err != nil {
		t.Fatal(err)
	}
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	t.Cleanup(func() {
		if err := group.Stop(); err != nil {
			t.Errorf("stopping etcd: %v", err)
		}
	})
	if err := group.StartAndWait(ctx, s.Component()); err != nil {
		t.Fatal(err)
	}
	return &Etcd{
		Endpoint: fmt.Sprintf("https://127.0.0.1:%d", etcd.ClientPort),
		CAFile:   files.EtcdServerCA.Cert, CertFile: files.EtcdClient.Cert, KeyFile: files.EtcdClient.Key,
	}
}
