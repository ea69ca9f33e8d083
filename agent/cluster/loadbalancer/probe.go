package loadbalancer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// readyPath is what upstream's API server answers when it can serve requests,
// its datastore included.
const readyPath = "/readyz"

// prober asks one server how it is, on a connection of its own.
type prober struct {
	pool    *pool
	address string

	client *http.Client // nil after a failure
	joined bool         // client carries the node's certificate
}

// probe asks once. A node that has joined asks as itself and believes only a
// server of its cluster; another asks whether there is a server.
func (p *prober) probe(ctx context.Context) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, p.pool.o.timing.answer)
	defer cancel()
	_, err := os.Stat(p.pool.o.Files.Client.Cert)
	if joined := err == nil; p.client == nil || joined != p.joined {
		p.forget()
		if err := p.prepare(joined); err != nil {
			return Dead, err
		}
	}
	path := joinapi.PathPing
	if p.joined {
		path = readyPath
	}
	health, err := p.ask(ctx, path)
	if health != Ready || err != nil {
		p.forget() // a connection that hangs, or one with an old certificate
	}
	if health == Ready {
		return Ready, nil
	}
	return health, err
}

func (p *prober) ask(ctx context.Context, path string) (Health, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.pool.URL()+path, nil)
	if err != nil {
		return Dead, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return Dead, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)); err != nil {
		return Dead, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return Ready, nil
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return Ready, fmt.Errorf("it answered %s", resp.Status) // which a server that is broken does not
	default:
		return NotReady, fmt.Errorf("it answered %s", resp.Status)
	}
}

// prepare makes the client. TLS asks for the name by which all clients of the
// load balancer know the server.
func (p *prober) prepare(joined bool) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if joined {
		files := p.pool.o.Files
		ca, err := os.ReadFile(files.ServerCA)
		if err != nil {
			return err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return fmt.Errorf("%s: %w", files.ServerCA, errors.New("no certificate in it"))
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(files.Client.Cert, files.Client.Key)
			if errors.Is(err, fs.ErrNotExist) {
				return &tls.Certificate{}, nil // it shows none
			}
			return &cert, err
		}
	} else {
		// Nothing is sent and nothing depends on the answer but which server
		// is asked first to let the node join.
		config.InsecureSkipVerify = true
	}
	// HTTP/1: a request that times out takes its connection with it.
	p.client = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:     config,
			MaxIdleConnsPerHost: 1,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return p.pool.dial(ctx, p.address)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	p.joined = joined
	return nil
}

// forget drops the client and its connection.
func (p *prober) forget() {
	if p.client != nil {
		p.client.CloseIdleConnections()
		p.client = nil
	}
}
