package planes

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server"
)

const (
	// Address is that of the machine, as far as a control plane knows. It is
	// one that may stand in the endpoints of a service, as loopback ones may not.
	Address = "192.0.2.1"
	// Deadline bounds the start of a control plane and every wait. It is what a
	// machine needs that does much else, so nothing should come near it.
	Deadline = 4 * time.Minute
)

// Plane is a running control plane.
type Plane struct {
	*server.Running
	// Config is what it was started with.
	Config *config.Server
	// Group holds its components.
	Group *component.Group
	// Files are its keys and certificates.
	Files *pki.Files
	// Client is the administrator's.
	Client kubernetes.Interface
}

// DatastoreVariable chooses another datastore than embedded etcd for all
// control planes of tests that do not choose one themselves: sqlite.
const DatastoreVariable = "A4S_TEST_DATASTORE"

// Settings are those of a server without a node that keeps its data in dir.
func Settings(dir string) *config.Server {
	cfg := &config.Server{
		DatastoreEndpoint:    os.Getenv(DatastoreVariable),
		EtcdDisableSnapshots: true,
		DisableAgent:         true,
		HTTPSListenPort:      6443,
		ClusterCIDR:          "10.42.0.0/16",
		ServiceCIDR:          "10.43.0.0/16",
		ServiceNodePortRange: "30000-32767",
		ClusterDNS:           "10.43.0.10",
		ClusterDomain:        "cluster.local",
		FlannelBackend:       "vxlan",
		WriteKubeconfig:      filepath.Join(dir, "admin.yaml"),
		WriteKubeconfigMode:  "600",
	}
	cfg.Network = config.Network{
		Pods: netip.MustParsePrefix(cfg.ClusterCIDR), Services: netip.MustParsePrefix(cfg.ServiceCIDR),
		DNS: netip.MustParseAddr(cfg.ClusterDNS),
	}
	cfg.Agent.DataDir = dir
	cfg.Agent.NodeName = "server"
	return cfg
}

// Prepare makes the process and its network namespace what a control plane
// expects: messages go to the standard error output, and the loopback is up
// and has Address.
func Prepare() error {
	if _, err := logging.Setup(logging.Options{Output: os.Stderr}); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("looking for the loopback: %w", err)
	}
	address, err := netlink.ParseAddr(Address + "/32")
	if err != nil {
		return err
	}
	if err := netlink.AddrReplace(lo, address); err != nil {
		return fmt.Errorf("giving the loopback an address: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// Run starts a control plane in the group. The process was prepared before.
func Run(ctx context.Context, group *component.Group, cfg *config.Server) (*server.Running, error) {
	s, err := server.New(ctx, cfg, net.ParseIP(Address))
	if err != nil {
		return nil, err
	}
	if err := s.Init(ctx); err != nil {
		return nil, err
	}
	up, err := s.Serve(ctx, group)
	if err != nil {
		return nil, err
	}
	return up, s.WaitReady(ctx, group)
}

// NewGroup is a group of components without any.
func NewGroup() *component.Group {
	return component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
}

// Start runs a control plane until the test ends.
func Start(t testing.TB, cfg *config.Server) *Plane {
	t.Helper()
	if err := Prepare(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Deadline)
	defer cancel()
	p := &Plane{Config: cfg, Group: NewGroup(), Files: pki.FilesIn(filepath.Join(cfg.Agent.DataDir, "server", "tls"))}
	t.Cleanup(func() {
		if err := p.Group.Stop(); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	})
	var err error
	if p.Running, err = Run(ctx, p.Group, cfg); err != nil {
		t.Fatalf("starting the control plane: %v", err)
	}
	p.Admin.QPS = -1
	if p.Client, err = kubernetes.NewForConfig(p.Admin); err != nil {
		t.Fatal(err)
	}
	return p
}
