package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// authority is a CA bundle that this node has reason to trust.
type authority struct {
	pem    []byte
	pool   *x509.CertPool
	pinned bool // it came from disk
}

// distrustError says that a server is not one of the cluster, or does not
// prove it.
type distrustError struct{ *problem.Input }

func (e *distrustError) Unwrap() error { return e.Input }

// trust returns the CA of the server: the one that is pinned on disk, unless
// the token pins another, and otherwise the one that the server shows, if the
// token's hash confirms it. A token without a hash trusts on first use.
func (j *joiner) trust(ctx context.Context) (*authority, error) {
	hash := ""
	if j.token != nil {
		hash = j.token.CAHash
	}
	data, err := os.ReadFile(j.files.ServerCA)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, &problem.Precondition{What: "CA file " + j.files.ServerCA, Err: err}
	default:
		got, err := pki.HashBundle(data)
		if err != nil {
			return nil, &problem.Precondition{What: "CA file " + j.files.ServerCA, Err: err,
				Fix: "check the disk and remove the file; it is fetched again with a complete token (K10…)"}
		}
		former, err := pki.Former(j.formerCAs())
		if err != nil {
			return nil, &problem.Precondition{What: "file " + j.formerCAs(), Err: err}
		}
		if hash == "" || hash == got || slices.Contains(former, hash) {
			return newCA(data, true)
		}
		// The token is newer than the pin: the cluster was set up anew.
	}
	if j.token == nil {
		return nil, &problem.Input{Source: flagToken,
			Err:  errors.New("a node that joins for the first time needs a token"),
			Want: "the token in the file server/token of a server"}
	}
	if data, err = j.fetchCA(ctx); err != nil {
		return nil, err
	}
	if hash == "" {
		got, err := pki.HashBundle(data)
		if err != nil {
			return nil, badBundle(j.url.String(), err)
		}
		if !j.warned {
			j.warned = true
			j.Log.WithField("server", j.url.String()).WithField("caHash", got).
				Warn("the token has no CA hash, so the server is trusted on first use; the complete token (K10…) " +
					"in its file server/token avoids that")
		}
		return newCA(data, false)
	}
	var mismatch *pki.HashMismatchError
	// A bundle in the middle of a change of CAs has two. The token vouches for
	// one of them, and what that has signed for the other.
	pinned, err := pki.Pinned(data, hash)
	switch {
	case errors.As(err, &mismatch):
		return nil, &distrustError{&problem.Input{Source: flagToken, Err: fmt.Errorf(
			"the token pins the CA with hash %s, but the server %s has one with hash %s: "+
				"it is not the server that made the token, or somebody is in between",
			mismatch.Want, j.url, mismatch.Got), Want: "the token and the address of the same cluster"}}
	case err != nil:
		return nil, badBundle(j.url.String(), err)
	}
	return newCA(pinned, false)
}

// formerCAs is the file with the hashes of the CAs that this node trusted
// before servers that proved to belong to them told it of the present one.
func (j *joiner) formerCAs() string {
	return strings.TrimSuffix(j.files.ServerCA, ".crt") + ".former"
}

// badBundle is the error for a CA bundle that cannot be verified.
func badBundle(server string, err error) error {
	return &distrustError{&problem.Input{Source: flagServer, Value: server,
		Err:  fmt.Errorf("what it serves at %s cannot be trusted: %w", joinapi.PathCACerts, err),
		Want: "the URL of an a4s server"}}
}

func newCA(data []byte, pinned bool) (*authority, error) {
	certs, err := pki.ParseCerts(data)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return &authority{pem: data, pool: pool, pinned: pinned}, nil
}

// fetchCA asks the server for its CA without knowing yet whether to believe
// it. The connection is used for nothing else and carries no credential.
func (j *joiner) fetchCA(ctx context.Context) ([]byte, error) {
	c := newHTTPClient(&tls.Config{
		MinVersion: tls.VersionTLS12,
		// What comes back is checked against the token's hash.
		InsecureSkipVerify: true,
	})
	defer c.CloseIdleConnections()
	return do(ctx, c, http.MethodGet, j.url.JoinPath(joinapi.PathCACerts).String(), "", nil)
}

// explainTLS turns the failures of a TLS handshake that no waiting cures into
// problems. A certificate that is out of date is not among them: the clock of
// a machine that just booted may still be corrected.
func (j *joiner) explainTLS(err error) error {
	// The same errors come from checking what the server signed.
	var handshake *tls.CertificateVerificationError
	if !errors.As(err, &handshake) {
		return err
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return &distrustError{&problem.Input{Source: flagServer, Value: j.url.String(),
			Err: fmt.Errorf("its certificate is not signed by the CA that this node trusts (%s): %w",
				j.files.ServerCA, err),
			Want: "a server of the cluster that this node joined; if that cluster was set up anew, " +
				"the new complete token (K10…), " +
				"or remove the file to trust the new server"}}
	case errors.As(err, &host):
		return &distrustError{&problem.Input{Source: flagServer, Value: j.url.String(), Err: err,
			Want: "a name or address in the server's certificate; the server adds one with --tls-san"}}
	}
	return err
}
