package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
)

const (
	// serverName is in the certificate of every API server, and no node may have it.
	serverName = "kubernetes.default.svc"
	// URL stands for the servers of a partition in requests: where they are, dialing says.
	URL = "https://" + serverName

	dialTimeout = 2 * time.Second
	pingTimeout = 2 * time.Second
	// passOver is how long an address that did not answer is asked after all others.
	passOver = 5 * time.Second
)

// Peers are the servers of other partitions.
type Peers struct {
	addresses func(partition string) []string
	files     *pki.Files
	roots     *x509.CertPool

	mu         sync.Mutex
	silent     map[string]time.Time       // until when an address is passed over
	transports map[string]*http.Transport // by partition, and whether for upgrades
}

// New returns peers at the addresses that are known at the moment of each connection.
func New(files *pki.Files, addresses func(partition string) []string) (*Peers, error) {
	bundle, err := os.ReadFile(files.ServerCA.Cert)
	if err != nil {
		return nil, fmt.Errorf("reading the server CA: %w", err)
	}
	p := &Peers{addresses: addresses, files: files, roots: x509.NewCertPool(), silent: map[string]time.Time{},
		transports: map[string]*http.Transport{}}
	if !p.roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("the server CA %s has no certificate", files.ServerCA.Cert)
	}
	return p, nil
}

// Config is a client of a partition's API, as a server of this one's partition.
func (p *Peers) Config(partition string) *rest.Config {
	return &rest.Config{
		Host: URL,
		TLSClientConfig: rest.TLSClientConfig{CAFile: p.files.ServerCA.Cert, CertFile: p.files.Partition.Cert,
			KeyFile: p.files.Partition.Key, ServerName: serverName},
		Dial: p.dial(partition),
		// A proxy would be asked for by the name above, and dialled as if it were a server.
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		QPS:   -1,
	}
}

// Transport is for requests that users sent to this server: the other side believes what it
// says of them. Only those that upgrade the connection need one of HTTP/1.1.
func (p *Peers) Transport(partition string, upgrade bool) http.RoundTripper {
	key := partition
	if upgrade {
		key += "/upgrade"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.transports[key]
	if t == nil {
		t = p.newTransport(p.dial(partition), upgrade)
		p.transports[key] = t
	}
	return t
}

func (p *Peers) newTransport(
	dial func(ctx context.Context, network, address string) (net.Conn, error), upgrade bool,
) *http.Transport {
	t := &http.Transport{
		DialContext: dial,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: p.roots, ServerName: serverName,
			// Read anew: it is renewed while the server runs.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				cert, err := tls.LoadX509KeyPair(p.files.AuthProxy.Cert, p.files.AuthProxy.Key)
				return &cert, err
			},
		},
		TLSHandshakeTimeout: 2 * dialTimeout,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 32,
		DisableCompression:  true,
	}
	if upgrade {
		t.TLSClientConfig.NextProtos = []string{"http/1.1"}
		return t
	}
	t.ForceAttemptHTTP2 = true
	// A connection to a machine that is gone says so before its requests wait for long.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}
	return t
}

// dial connects to one of the servers of a partition.
func (p *Peers) dial(partition string) func(ctx context.Context, network, _ string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var errs []error
		for _, address := range p.inOrder(p.addresses(partition)) {
			limited, cancel := context.WithTimeout(ctx, dialTimeout)
			conn, err := (&net.Dialer{}).DialContext(limited, network, address)
			cancel()
			p.answered(address, err == nil)
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
		}
		if len(errs) == 0 {
			return nil, fmt.Errorf("no server of partition %s is known", partition)
		}
		return nil, errors.Join(errs...)
	}
}

// inOrder has those that did not answer lately at the end.
func (p *Peers) inOrder(addresses []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, out := time.Now(), slices.Clone(addresses)
	slices.SortStableFunc(out, func(a, b string) int {
		return boolToInt(now.Before(p.silent[a])) - boolToInt(now.Before(p.silent[b]))
	})
	return out
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *Peers) answered(address string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		delete(p.silent, address)
		return
	}
	p.silent[address] = time.Now().Add(passOver)
}

// Ready returns soon whether a server of a partition answers.
func (p *Peers) Ready(ctx context.Context, partition string) error {
	if _, err := p.ping(ctx, p.Transport(partition, false)); err != nil {
		return fmt.Errorf("no server of partition %s answers: %w", partition, err)
	}
	return nil
}

// Ping returns soon whether the server at an address answers, and what time it has.
func (p *Peers) Ping(ctx context.Context, address string) (time.Time, error) {
	one := p.newTransport(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}, true)
	defer one.CloseIdleConnections()
	return p.ping(ctx, one)
}

func (p *Peers) ping(ctx context.Context, by http.RoundTripper) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, URL+joinapi.PathPing, nil)
	if err != nil {
		return time.Time{}, err
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return time.Time{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return time.Time{}, fmt.Errorf("the answer was %s", resp.Status)
	}
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the time of the answer: %w", err)
	}
	return at, nil
}
