package join

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

func noToken() error {
	return &problem.Input{Source: flagToken,
		Err:  errors.New("this node has no valid certificate, so it needs a token"),
		Want: "the token in the file server/token of a server"}
}

// ownCert returns the certificate that this node got earlier, if it is valid
// and for this node name. Anything wrong with it only means to use the token.
func (j *joiner) ownCert() *tls.Certificate {
	cert, err := tls.LoadX509KeyPair(j.files.ClientCert, j.files.ClientKey)
	if err != nil {
		return nil
	}
	now := time.Now()
	if cert.Leaf.Subject.CommonName != pki.NodeUserPrefix+j.NodeName || now.Before(cert.Leaf.NotBefore) ||
		now.After(cert.Leaf.NotAfter) {
		return nil
	}
	return &cert
}

// fetchCerts has the certificates of this node signed and stores them. It
// does so on every join: that renews them, follows changed addresses and
// proves anew that the node name belongs to this machine.
func (j *joiner) fetchCerts(ctx context.Context, conn *connection, ca *authority) error {
	clientKey, err := ensureKey(j.files.ClientKey)
	if err != nil {
		return err
	}
	servingKey, err := ensureKey(j.files.ServingKey)
	if err != nil {
		return err
	}
	req := &joinapi.NodeRequest{NodeName: j.NodeName, NodePassword: j.password, NodeIPs: j.NodeIPs}
	if j.token != nil { // without one, others than before would have the join refused
		req.FurtherIPs = j.FurtherIPs
	}
	if req.ClientCSR, err = pki.NewCSR(clientKey); err != nil {
		return err
	}
	if req.ServingCSR, err = pki.NewCSR(servingKey); err != nil {
		return err
	}
	resp, err := conn.node(ctx, req)
	if err != nil {
		return err
	}
	// A server that answers nonsense must not replace files that work.
	clientCA, err := pki.ParseCerts(resp.ClientCA)
	if err != nil {
		return fmt.Errorf("the server sent a bad client CA: %w", err)
	}
	clientRoots := x509.NewCertPool()
	for _, c := range clientCA {
		clientRoots.AddCert(c)
	}
	if err := checkCert(resp.ClientCert, clientKey, clientRoots, x509.ExtKeyUsageClientAuth,
		pki.NodeUserPrefix+j.NodeName); err != nil {
		return fmt.Errorf("the server sent a bad client certificate: %w", err)
	}
	if err := checkCert(resp.ServingCert, servingKey, ca.pool, x509.ExtKeyUsageServerAuth,
		pki.NodeUserPrefix+j.NodeName); err != nil {
		return fmt.Errorf("the server sent a bad serving certificate: %w", err)
	}
	// The server proved to belong to the CA that this node trusts, so it may
	// name the one that follows it.
	next, err := newCA(resp.ServerCA, false)
	if err == nil {
		err = checkCert(resp.ServingCert, servingKey, next.pool, x509.ExtKeyUsageServerAuth,
			pki.NodeUserPrefix+j.NodeName)
	}
	if err != nil {
		return fmt.Errorf("the server sent a bad server CA: %w", err)
	}
	if err := j.noteFormer(ca, next); err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		data []byte
	}{
		// The server CA goes last: with it on disk, the certificate is used
		// first.
		{j.files.ClientCA, resp.ClientCA},
		{j.files.ServingCert, resp.ServingCert},
		{j.files.ClientCert, resp.ClientCert},
		{j.files.ServerCA, next.pem},
	} {
		if err := atomicfile.Write(f.path, f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// noteFormer notes that another CA follows the one that this node trusts, so
// that a token with the hash of the old one stays good on this node.
func (j *joiner) noteFormer(ca, next *authority) error {
	was, err := pki.HashBundle(ca.pem)
	if err != nil {
		return err
	}
	is, err := pki.HashBundle(next.pem)
	if err != nil {
		return fmt.Errorf("the server sent a bad server CA: %w", err)
	}
	hashes := []string{was}
	if j.token != nil && j.token.CAHash != "" {
		hashes = append(hashes, j.token.CAHash)
	}
	for _, hash := range hashes {
		if hash == is {
			continue
		}
		if err := pki.AddFormer(j.formerCAs(), hash); err != nil {
			return err
		}
	}
	return nil
}

func checkCert(data []byte, key crypto.Signer, roots *x509.CertPool, usage x509.ExtKeyUsage, commonName string) error {
	certs, err := pki.ParseCerts(data)
	if err != nil {
		return err
	}
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !pub.Equal(certs[0].PublicKey) {
		return errors.New("it is for another key")
	}
	if certs[0].Subject.CommonName != commonName {
		return fmt.Errorf("it is for %q", certs[0].Subject.CommonName)
	}
	inter := x509.NewCertPool()
	for _, c := range certs[1:] {
		inter.AddCert(c)
	}
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: inter,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func ensureKey(path string) (crypto.Signer, error) {
	key, err := pki.EnsureKey(path)
	if err == nil {
		return key, nil
	}
	var pre *problem.Precondition
	if errors.As(err, &pre) {
		return nil, err
	}
	return nil, &problem.Precondition{What: "key file " + path, Err: err,
		Fix: "check the disk and remove the file; a new key is made at the next start"}
}

// ensurePassword returns the password of this node and makes it first if
// there is none.
func ensurePassword(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Dir(path)
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // holds files for everybody too
			return "", err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		password := jointoken.Random()
		return password, atomicfile.Write(path, []byte(password+"\n"), 0o600)
	}
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(data))
	if password == "" {
		return "", &problem.Precondition{What: "node password file " + path, Err: errors.New("is empty"),
			Fix: "restore it from a backup, or remove it, delete the Node of this machine and start again"}
	}
	return password, nil
}
