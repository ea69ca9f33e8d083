package archive

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// Settings that errors name.
const (
	setEndpoint  = "etcd-s3-endpoint"
	setCA        = "etcd-s3-endpoint-ca"
	setAccessKey = "etcd-s3-access-key"
	setSecretKey = "etcd-s3-secret-key"
	setToken     = "etcd-s3-session-token"
	setBucket    = "etcd-s3-bucket"
	setRegion    = "etcd-s3-region"
	setInsecure  = "etcd-s3-insecure"
	setTimeout   = "etcd-s3-timeout"
	setProxy     = "etcd-s3-proxy"
)

// at says where a setting of the bucket is to be changed.
func (s *Bucket) at(setting string) string { return s.cfg.Source(setting) }

// explainObject is explain for a request for one snapshot.
func (s *Bucket) explainObject(name, doing string, err error) error {
	var r minio.ErrorResponse
	if errors.As(err, &r) && r.Code == minio.NoSuchKey {
		return &problem.Input{Source: "snapshot", Value: s.URL(name), Err: errors.New("there is no such object"),
			Want: `a name that "a4s etcd-snapshot list" prints`}
	}
	return s.explain(doing, err)
}

// explain says which flag cures an error, if one does. doing is what was not
// possible: "list objects".
func (s *Bucket) explain(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &problem.Input{Source: s.at(setTimeout), Value: s.cfg.Timeout,
			Err:  fmt.Errorf("%s did not end in time: %w", s.cfg.Endpoint, err),
			Want: "a longer time, or a faster connection"}
	}
	var r minio.ErrorResponse
	if errors.As(err, &r) {
		return s.explainAnswer(doing, &r)
	}
	if in := s.explainTLS(err); in != nil {
		return in
	}
	var dns *net.DNSError
	var op *net.OpError
	var u *url.Error
	if errors.As(err, &dns) || errors.As(err, &op) || errors.As(err, &u) || errors.Is(err, io.ErrUnexpectedEOF) {
		want := "an S3 server that this machine reaches"
		if proxy := s.proxy(); proxy != "" {
			want += ", through the proxy " + proxy + " or, with " + s.without() + ", without"
		}
		return &problem.Input{Source: s.at(setEndpoint),
			Err: fmt.Errorf("the connection to %s failed: %w", s.cfg.Endpoint, err), Want: want}
	}
	return fmt.Errorf("S3 storage %s at %s: %w", s.Location(), s.cfg.Endpoint, err)
}

// proxy is the one that requests go through, "" if there is none.
func (s *Bucket) proxy() string {
	u, err := proxyOf(&s.cfg)(&http.Request{URL: s.core.EndpointURL()})
	if err != nil || u == nil {
		return ""
	}
	return u.Redacted()
}

// without is what makes requests go without the proxy.
func (s *Bucket) without() string {
	if s.cfg.Proxy == "" {
		return "NO_PROXY"
	}
	return s.at(setProxy) + " " + config.NoProxy
}

func (s *Bucket) explainTLS(err error) *problem.Input {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	in := &problem.Input{Source: s.at(setCA), Err: fmt.Errorf("%s: %w", s.cfg.Endpoint, err)}
	switch {
	case errors.As(err, &unknown):
		in.Want = "the file of the CA that signed the certificate of the S3 server"
	case errors.As(err, &host):
		in.Source, in.Want = s.at(setEndpoint), "a name or address that the certificate of the S3 server has; "+
			"with --etcd-s3-bucket-lookup-type=path the bucket is not part of it"
	case errors.As(err, &invalid):
		in.Want = "a certificate of the S3 server that is valid"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		in.Source, in.Want = s.at(setInsecure),
			"it, because what answers does not speak TLS, or the port that does"
	case errors.As(err, &alert):
		in.Source, in.Want = s.at(setEndpoint), "a server that accepts this TLS connection"
	default:
		return nil
	}
	return in
}

// explainAnswer explains what the server says.
func (s *Bucket) explainAnswer(doing string, r *minio.ErrorResponse) error {
	at := s.cfg.Endpoint
	// What the server says goes on, but for what it may repeat of a request.
	said := func(text string) error { return fmt.Errorf("%s: %s (%s)", at, text, r.Code) }
	switch r.Code {
	case minio.NoSuchBucket:
		return &problem.Input{Source: s.at(setBucket), Value: s.cfg.Bucket, Err: said("there is no such bucket"),
			Want: "one that exists"}
	case minio.InvalidBucketName:
		return &problem.Input{Source: s.at(setBucket), Value: s.cfg.Bucket,
			Err: said("no bucket can have this name"), Want: "one that exists"}
	case minio.InvalidAccessKeyID, "XAdminUserNotFound": // the latter is Versity's
		return &problem.Input{Source: s.at(setAccessKey), Err: said("the access key is not known"),
			Want: "an access key of this server" + s.cfg.OrVariable("AWS_ACCESS_KEY_ID")}
	case "SignatureDoesNotMatch":
		return &problem.Input{Source: s.at(setSecretKey), Err: said("it does not belong to the access key"),
			Want: "the secret of the access key" + s.cfg.OrVariable("AWS_SECRET_ACCESS_KEY")}
	case "ExpiredToken", "InvalidToken", "InvalidTokenId":
		return &problem.Input{Source: s.at(setToken), Err: said("the token is not valid, or no longer"),
			Want: "the token that came with the keys, or none"}
	case minio.AccessDenied:
		return &problem.Input{Source: s.at(setAccessKey), Err: said("it may not " + doing + " in " + s.Location()),
			Want: "one with the permission to list, read, write and delete objects there"}
	case "RequestTimeTooSkewed":
		return &problem.Input{Source: "clock of this machine",
			Err: said("it differs too much from that of the server"), Want: "the right time"}
	case "AuthorizationHeaderMalformed", minio.InvalidRegion, "PermanentRedirect", "MovedPermanently",
		"TemporaryRedirect", "IllegalLocationConstraintException":
		want := "the region of the bucket"
		if r.Region != "" {
			want = r.Region
		}
		return &problem.Input{Source: s.at(setRegion), Value: s.cfg.Region,
			Err: said("the bucket is in another region"), Want: want}
	case fmt.Sprintf("%d %s", r.StatusCode, http.StatusText(r.StatusCode)):
		// Not an answer in the form of S3.
		want := "an S3 server"
		if s.cfg.Insecure {
			want += "; without " + s.at(setInsecure) + " if it speaks TLS"
		}
		return &problem.Input{Source: s.at(setEndpoint), Err: said("what answers is not an S3 server"), Want: want}
	}
	return fmt.Errorf("S3 storage %s at %s: cannot %s: %w (%s)", s.Location(), at, doing, *r, r.Code)
}
