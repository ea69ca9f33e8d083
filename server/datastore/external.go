package datastore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// checkTimeout bounds the time in which an etcd that others run answers.
	checkTimeout = 10 * time.Second
	// memberTimeout bounds the same for one member of it.
	memberTimeout = 3 * time.Second
	// refusalTime is how long it may take to refuse a client certificate.
	refusalTime = time.Second
)

// External is an etcd that somebody else runs.
type External struct {
	dsn   *dsn.Endpoint
	reach Endpoint
}

var _ Datastore = (*External)(nil)

// NewExternal returns the etcd at the URLs of e. The other fields of reach are
// the files for it.
func NewExternal(e *dsn.Endpoint, reach Endpoint) *External {
	reach.URLs = e.URLs
	return &External{dsn: e, reach: reach}
}

// Endpoint implements Datastore.
func (x *External) Endpoint() Endpoint { return x.reach }

// Component implements Datastore. There is nothing to run: if the etcd goes
// away, requests fail until it is back.
func (x *External) Component() component.Component {
	return component.Component{Name: "datastore", Critical: true, Run: func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return nil
	}}
}

// Check implements Datastore.
func (x *External) Check(ctx context.Context) error {
	if err := x.checkFiles(); err != nil {
		return err
	}
	client, err := Dial(ctx, x.reach)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // it was read only
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var errs []error
	for _, member := range x.reach.URLs {
		if err := ask(ctx, client, member, x.reach); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", member, err))
		}
	}
	if len(errs) == len(x.reach.URLs) {
		return x.unusable(errors.Join(errs...), "start the etcd, or set addresses, CA and client certificate "+
			"(--datastore-cafile, --datastore-certfile, --datastore-keyfile) that reach it from this machine")
	}
	if _, err := client.Get(ctx, clusterKey); err != nil {
		return x.unusable(fmt.Errorf("reading from it: %w", err),
			"look at its health with `etcdctl endpoint health`; it answers only while most of its members do")
	}
	return nil
}

// ask asks one member how it is.
func ask(ctx context.Context, client *clientv3.Client, member string, with Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	if err := knock(ctx, member, with); err != nil {
		return err
	}
	_, err := client.Status(ctx, member)
	return err
}

// knock connects by itself: of a connection that fails, the client of etcd says
// only that it has waited long enough.
func knock(ctx context.Context, member string, with Endpoint) (err error) {
	u, err := url.Parse(member)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil || u.Scheme != "https" {
		return errors.Join(err, shut(conn))
	}
	defer func() { _ = conn.Close() }()
	config, err := transport.TLSInfo{CertFile: with.CertFile, KeyFile: with.KeyFile,
		TrustedCAFile: with.CAFile}.ClientConfig()
	if err != nil {
		return err
	}
	config.ServerName, config.NextProtos = u.Hostname(), []string{"h2"}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	// A refused certificate shows at the first read. A server of HTTP/2 begins
	// to talk; one that waits has not refused it.
	if err := secure.SetReadDeadline(time.Now().Add(refusalTime)); err != nil {
		return err
	}
	_, err = secure.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

func shut(conn net.Conn) error {
	if conn == nil {
		return nil
	}
	return conn.Close()
}

func (x *External) unusable(err error, fix string) error {
	return &problem.Precondition{What: fmt.Sprintf("datastore %s (--datastore-endpoint)", x.dsn), Err: err, Fix: fix}
}

// checkFiles reads the files of TLS, whose errors a client would only log.
func (x *External) checkFiles() error {
	if x.reach.CAFile != "" {
		pem, err := os.ReadFile(x.reach.CAFile)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = errors.New("there is no certificate in it")
		}
		if err != nil {
			return &problem.Input{Source: "--datastore-cafile", Value: x.reach.CAFile, Err: err,
				Want: "the certificate of a CA, in PEM"}
		}
	}
	if x.reach.CertFile == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(x.reach.CertFile, x.reach.KeyFile); err != nil {
		return &problem.Input{Source: "--datastore-certfile and --datastore-keyfile", Value: x.reach.CertFile,
			Err: err, Want: "a certificate and the key of it, in PEM"}
	}
	return nil
}

// Dial makes a client of an etcd, for the caller to close. It does not connect
// yet, so an error is one of the certificates.
func Dial(ctx context.Context, to Endpoint) (*clientv3.Client, error) {
	// The client lives as long as its context.
	config := clientv3.Config{Endpoints: to.URLs, Context: context.WithoutCancel(ctx), Logger: zap.NewNop()}
	if to.CAFile != "" || to.CertFile != "" {
		secure, err := transport.TLSInfo{CertFile: to.CertFile, KeyFile: to.KeyFile,
			TrustedCAFile: to.CAFile}.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("reading the certificates of the datastore: %w", err)
		}
		config.TLS = secure
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the datastore: %w", err)
	}
	return client, nil
}
