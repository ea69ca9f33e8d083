package pki

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// RenewAt is when a leaf certificate made here is due to be renewed: at the
// latest when two thirds of its life are over, at the earliest RenewBefore its
// end.
func RenewAt(cert *x509.Certificate) time.Time {
	life := cert.NotAfter.Sub(cert.NotBefore.Add(clockSkew))
	return cert.NotAfter.Add(-max(0, min(RenewBefore, life/3)))
}

// Use is a certificate of this machine and who works with it.
type Use struct {
	// File holds the certificate.
	File string
	// User is what shows the certificate, or what a CA signs.
	User string
	// CA says that it is the certificate of a CA.
	CA bool
}

// Uses lists the certificates of a server.
func (f *Files) Uses() []Use {
	return []Use{
		{f.ServerCA.Cert, "signs API server and kubelets", true},
		{f.ClientCA.Cert, "signs clients of API server and kubelets", true},
		{f.RequestHeaderCA.Cert, "signs the API server to extension servers", true},
		{f.EtcdServerCA.Cert, "signs datastore server and clients", true},
		{f.EtcdPeerCA.Cert, "signs datastore members", true},
		{f.ServingAPIServer.Cert, "API server and supervisor, to clients", false},
		{f.Admin.Cert, "administrator (kubeconfig)", false},
		{f.Supervisor.Cert, "supervisor, to API server", false},
		{f.ControllerManager.Cert, "controller manager, to API server", false},
		{f.Scheduler.Cert, "scheduler, to API server", false},
		{f.APIServerKubeletClient.Cert, "API server, to kubelets", false},
		{f.Partition.Cert, "servers, to those of other partitions", false},
		{f.AuthProxy.Cert, "API server, to extension servers", false},
		{f.EtcdClient.Cert, "API server, to datastore", false},
		{f.EtcdServer.Cert, "datastore, to clients", false},
		{f.EtcdPeer.Cert, "datastore, to members", false},
	}
}

// NodeFiles are the paths of what a node got when it joined.
type NodeFiles struct {
	// Client identifies the node as system:node:<name>.
	Client Pair
	// Serving is for the kubelet's port.
	Serving Pair
	// ClientCA and ServerCA are the CA certificates that the node trusts.
	ClientCA, ServerCA string
}

// NodeFilesIn returns the layout below dir without touching it.
func NodeFilesIn(dir string) NodeFiles {
	path := func(name string) string { return filepath.Join(dir, name) }
	return NodeFiles{
		Client:   Pair{Cert: path("client-node.crt"), Key: path("client-node.key")},
		Serving:  Pair{Cert: path("serving-kubelet.crt"), Key: path("serving-kubelet.key")},
		ClientCA: path("client-ca.crt"), ServerCA: path("server-ca.crt"),
	}
}

// Uses lists the certificates of a node.
func (f NodeFiles) Uses() []Use {
	return []Use{
		{f.ServerCA, "node, trusts servers", true},
		{f.ClientCA, "kubelet, trusts clients", true},
		{f.Client.Cert, "kubelet, proxy, network and DNS, to API server", false},
		{f.Serving.Cert, "kubelet, to API server", false},
	}
}

// ReadCert returns the first certificate of a PEM file.
func ReadCert(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certs, err := ParseCerts(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return certs[0], nil
}

// WarnAt is from when on the life of the certificate is a matter of concern:
// when half of the time has gone in which a leaf is renewed, or in the last
// year of a CA, whose leafs would outlive it.
func (u Use) WarnAt(cert *x509.Certificate) time.Time {
	if u.CA {
		return cert.NotAfter.Add(-LeafLife)
	}
	return cert.NotAfter.Add(-cert.NotAfter.Sub(RenewAt(cert)) / 2)
}
