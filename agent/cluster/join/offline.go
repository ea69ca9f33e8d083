package join

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// configFile keeps what the server said about the cluster, in the agent
// directory.
const configFile = "cluster.json"

// defaultCluster stands in for what only a server knows: what it says unless
// it was told otherwise.
var defaultCluster = joinapi.ClusterConfig{
	ClusterCIDR:   netip.MustParsePrefix("10.42.0.0/16"),
	ServiceCIDR:   netip.MustParsePrefix("10.43.0.0/16"),
	ClusterDNS:    netip.MustParseAddr("10.43.0.10"),
	ClusterDomain: "cluster.local",
}

// Check finds mistakes in opts that no server is needed for.
func Check(opts Options) error {
	_, err := newJoiner(opts)
	return err
}

// save keeps the configuration for a start without a server.
func (j *joiner) save(config joinapi.ClusterConfig) error {
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's configuration: %w", err)
	}
	return atomicfile.Write(filepath.Join(j.Dir, configFile), append(data, '\n'), 0o600)
}

// Saved returns what an earlier join of this node left, or nil if it is not
// complete. The certificates may have expired since.
func Saved(opts Options) (*Result, error) {
	j, err := newJoiner(opts)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(opts.Dir, configFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &problem.Precondition{What: "cluster configuration " + path, Err: err}
	}
	result := j.files
	if err := json.Unmarshal(data, &result.Config); err != nil {
		return nil, &problem.Precondition{What: "cluster configuration " + path, Err: err,
			Fix: "remove the file; it is written at the next join"}
	}
	for _, file := range []string{result.ClientCert, result.ClientKey, result.ServingCert, result.ServingKey,
		result.ClientCA, result.ServerCA} {
		if _, err := os.Stat(file); err != nil {
			return nil, nil // the next join makes it
		}
	}
	cert, err := os.ReadFile(result.ClientCert)
	if err != nil {
		return nil, nil
	}
	chain, err := pki.ParseCerts(cert)
	if err != nil || chain[0].Subject.CommonName != pki.NodeUserPrefix+opts.NodeName {
		return nil, nil
	}
	return &result, nil
}

// Placeholder returns what the kubelet of a node starts with that never
// joined: a serving certificate that nobody trusts and a CA that signed
// nobody, at the places where Join puts the real ones, and the default
// configuration.
func Placeholder(opts Options) (*Result, error) {
	j, err := newJoiner(opts)
	if err != nil {
		return nil, err
	}
	key, err := ensureKey(j.files.ServingKey)
	if err != nil {
		return nil, err
	}
	serving, err := selfSigned("a4s node "+opts.NodeName+", not joined", opts.NodeIPs, key)
	if err != nil {
		return nil, err
	}
	nobody, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	ca, err := selfSigned("a4s not joined", nil, nobody)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(j.files.ServingCert, serving, 0o644); err != nil {
		return nil, err
	}
	if err := atomicfile.Write(j.files.ClientCA, ca, 0o644); err != nil {
		return nil, err
	}
	result := j.files
	result.Config = defaultCluster
	return &result, nil
}

// selfSigned makes a certificate for addresses, or one of a CA if there are
// none.
func selfSigned(name string, addresses []string, key crypto.Signer) ([]byte, error) {
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		BasicConstraintsValid: true, IsCA: len(addresses) == 0,
	}
	if t.IsCA {
		t.KeyUsage = x509.KeyUsageCertSign
	}
	for _, a := range addresses {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
