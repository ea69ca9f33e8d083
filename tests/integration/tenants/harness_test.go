// Package tenants_test runs etcd and the API server with the Tenant API in
// this process, in a network namespace of its own.
package tenants_test

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/tenancy/tenants/registry"
)

const (
	// deadline bounds every wait of these tests.
	deadline = 4 * time.Minute
	// address is that of the machine, as far as these tests go.
	address = "192.0.2.1"
	port    = 6443
)

type api struct {
	group *component.Group
	files *pki.Files
}

// serve starts the API. The group ends with the test.
func serve(t *testing.T) *api {
	t.Helper()
	return serveIn(t, t.TempDir(),
		apiserver.Seams{Groups: map[string]apiserver.Group{"": addTenants}, Definitions: registry.Definitions})
}

// serveIn starts the API with its data in dir. Without seams it is that of
// plain Kubernetes.
func serveIn(t *testing.T, dir string, seams apiserver.Seams) *api {
	t.Helper()
	if _, err := logging.Setup(logging.Options{Output: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr(address + "/32")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrReplace(lo, addr); err != nil {
		t.Fatal(err)
	}
	files, err := pki.Ensure(filepath.Join(dir, "tls"), pki.Options{SANs: []string{"127.0.0.1", address}})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.NewEntry(logrus.StandardLogger())
	a := &api{group: component.NewGroup(log), files: files}
	t.Cleanup(func() {
		if err := a.group.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	store, err := etcd.New(etcd.Options{
		Dir: filepath.Join(dir, "etcd"), Name: "a4s",
		CertFile: files.EtcdServer.Cert, KeyFile: files.EtcdServer.Key, TrustedCAFile: files.EtcdServerCA.Cert,
		PeerCertFile: files.EtcdPeer.Cert, PeerKeyFile: files.EtcdPeer.Key, PeerTrustedCAFile: files.EtcdPeerCA.Cert,
		Zap: logging.Zap(logging.Options{}), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.group.StartAndWait(ctx, store.Component()); err != nil {
		t.Fatal(err)
	}
	if err := a.group.StartAndWait(ctx, apiserver.New(apiserver.Options{
		BindAddress: "0.0.0.0", Port: port, AdvertiseAddress: net.ParseIP(address),
		ServiceCIDR: "10.43.0.0/16", ServiceNodePortRange: "30000-32767", ClusterDomain: "cluster.local",
		Datastore: datastore.Endpoint{URLs: []string{store.ClientURL()}, CAFile: files.EtcdServerCA.Cert,
			CertFile: files.EtcdClient.Cert, KeyFile: files.EtcdClient.Key},
		Seams: seams,
		Log:   log,
		Files: apiserver.Files{
			ClientCA:    files.ClientCA.Cert,
			ServingCert: files.ServingAPIServer.Cert, ServingKey: files.ServingAPIServer.Key,
			KubeletCA:         files.ServerCA.Cert,
			KubeletClientCert: files.APIServerKubeletClient.Cert, KubeletKey: files.APIServerKubeletClient.Key,
			RequestHeaderCA: files.RequestHeaderCA.Cert,
			ProxyClientCert: files.AuthProxy.Cert, ProxyClientKey: files.AuthProxy.Key,
			ServiceAccountKey: files.ServiceAccountKey,
			CertDir:           filepath.Join(dir, "upstream"),
		},
	})); err != nil {
		t.Fatal(err)
	}
	return a
}

// config is a client of the API with one of the identities of the PKI.
func (a *api) config(pair pki.Pair) *restclient.Config {
	return &restclient.Config{
		Host: "https://127.0.0.1:6443",
		TLSClientConfig: restclient.TLSClientConfig{CAFile: a.files.ServerCA.Cert,
			CertFile: pair.Cert, KeyFile: pair.Key},
		QPS: -1,
	}
}

// rootCA is what pods verify the API with.
func (a *api) rootCA(t *testing.T) string {
	t.Helper()
	bundle, err := os.ReadFile(a.files.ServerCA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	return string(bundle)
}

func eventually(t *testing.T, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, deadline, true, check); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func addTenants(getter generic.RESTOptionsGetter, _ apiserver.GroupConfig, v1 map[string]rest.Storage) error {
	extra, err := registry.Storage(getter, registry.Options{})
	maps.Copy(v1, extra)
	return err
}
