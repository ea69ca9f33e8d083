package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/version"
)

const (
	// partSize is that of the parts of a large upload. Parts are read from
	// the file twice rather than held in memory.
	partSize = 64 << 20
	// tries is how often a request is sent before it has failed.
	tries       = 4
	dialTimeout = 10 * time.Second
	mediaType   = "application/x-tar"
)

// Bucket is a folder of a bucket.
type Bucket struct {
	cfg    config.EtcdS3
	limit  time.Duration
	core   minio.Core
	role   *credentials.Credentials // those of the machine, nil if keys are given
	prefix string                   // of keys: the folder and a slash
}

// Open gives the bucket as its settings are now.
type Open func(ctx context.Context) (*Bucket, error)

// NewBucket returns the store that the settings describe, which were checked. It
// sends nothing yet.
func NewBucket(cfg *config.EtcdS3) (*Bucket, error) {
	transport, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	s := &Bucket{cfg: *cfg, limit: cfg.Limit()}
	if cfg.Folder != "" {
		s.prefix = cfg.Folder + "/"
	}
	creds := credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, cfg.SessionToken)
	if cfg.AccessKey == "" {
		creds = credentials.NewIAM("")
		s.role = creds
	}
	lookup := map[string]minio.BucketLookupType{"dns": minio.BucketLookupDNS,
		"path": minio.BucketLookupPath}[cfg.BucketLookup]
	client, err := minio.New(cfg.Endpoint, &minio.Options{
		Creds: creds, Secure: !cfg.Insecure, Transport: transport, Region: cfg.Region,
		BucketLookup: lookup, MaxRetries: tries,
	})
	if err != nil {
		return nil, &problem.Input{Source: cfg.Source(setEndpoint), Value: cfg.Endpoint, Err: err,
			Want: "a host such as s3.example.com or 192.0.2.10:9000"}
	}
	client.SetAppInfo("a4s", version.Version)
	s.core = minio.Core{Client: client}
	return s, nil
}

func newTransport(cfg *config.EtcdS3) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:               proxyOf(cfg),
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     time.Minute,
		// the operator said so
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12,
			InsecureSkipVerify: cfg.SkipSSLVerify}, //nolint:gosec
		// The file has its own compression.
		DisableCompression: true,
	}
	if cfg.EndpointCA == "" && cfg.EndpointCAs == "" {
		return t, nil
	}
	bad := func(err error) error {
		return &problem.Input{Source: cfg.Source(setCA), Value: cfg.EndpointCA, Err: err,
			Want: "certificates in PEM form"}
	}
	pem := []byte(cfg.EndpointCAs)
	if cfg.EndpointCA != "" {
		var err error
		if pem, err = os.ReadFile(cfg.EndpointCA); err != nil {
			return nil, bad(err)
		}
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, bad(errors.New("it has none"))
	}
	return t, nil
}

// proxyOf finds the proxy of a request.
func proxyOf(cfg *config.EtcdS3) func(*http.Request) (*url.URL, error) {
	switch cfg.Proxy {
	case "":
		return http.ProxyFromEnvironment
	case config.NoProxy:
		return http.ProxyURL(nil)
	}
	// It was checked. What url.Parse says of it is not shown: it may have a password.
	u, err := url.Parse(cfg.Proxy)
	if err != nil {
		err = errors.New("it is not the URL of a proxy")
	}
	return func(*http.Request) (*url.URL, error) { return u, err }
}

// Location is the URL of the folder.
func (s *Bucket) Location() string {
	return "s3://" + strings.TrimSuffix(s.cfg.Bucket+"/"+s.prefix, "/")
}

// URL is that of the snapshot of this name.
func (s *Bucket) URL(name string) string { return s.Location() + "/" + name }

// begin bounds an operation.
func (s *Bucket) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.role != nil {
		if _, err := s.role.GetWithContext(s.core.CredContext()); err != nil {
			return nil, nil, &problem.Input{Source: s.at(setAccessKey),
				Err:  fmt.Errorf("the machine has no role: %w", err),
				Want: "it and --etcd-s3-secret-key, or a machine on AWS with a role"}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	return ctx, cancel, nil
}

// Check finds out whether the bucket can be listed.
func (s *Bucket) Check(ctx context.Context) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	for o := range s.core.Client.ListObjects(ctx, s.cfg.Bucket,
		minio.ListObjectsOptions{Prefix: s.prefix, MaxKeys: 1}) {
		return s.explain("list objects", o.Err)
	}
	return nil
}

// NotCopiedError means that a snapshot is on this machine only.
type NotCopiedError struct {
	// Path is that of the file, URL the one that it should have had, "" if that is not known.
	Path, URL string
	Err       error
}

// Error says where the snapshot is and why it is not elsewhere.
func (e *NotCopiedError) Error() string {
	return fmt.Sprintf("the snapshot is kept as %s, but copying it to %s failed: %v", e.Path,
		cmp.Or(e.URL, "S3 storage"), e.Err)
}

// Unwrap returns the cause.
func (e *NotCopiedError) Unwrap() error { return e.Err }

// Upload copies a snapshot to what open gives. It returns that and the URL, or a NotCopiedError.
func Upload(ctx context.Context, open Open, path string) (*Bucket, string, error) {
	s, err := open(ctx)
	if err != nil {
		return nil, "", &NotCopiedError{Path: path, Err: err}
	}
	url, err := s.Upload(ctx, path)
	return s, url, err
}

// Upload copies a snapshot to the store and reads it back. It returns the URL,
// or a NotCopiedError.
func (s *Bucket) Upload(ctx context.Context, path string) (string, error) {
	url, err := s.upload(ctx, path)
	if err != nil {
		return "", &NotCopiedError{Path: path, URL: s.URL(filepath.Base(path)), Err: err}
	}
	return url, nil
}

func (s *Bucket) upload(ctx context.Context, path string) (url string, err error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	name := filepath.Base(path)
	if _, err := s.core.Client.PutObject(ctx, s.cfg.Bucket, s.prefix+name, f, size,
		minio.PutObjectOptions{ContentType: mediaType, PartSize: partSize, NumThreads: 1}); err != nil {
		return "", s.explain("write objects", err)
	}
	back := sha256.New()
	if err := s.download(ctx, name, back); err != nil {
		return "", fmt.Errorf("reading back what was uploaded: %w", err)
	}
	if !bytes.Equal(sum.Sum(nil), back.Sum(nil)) {
		err := &problem.Input{
			Source: s.at(setEndpoint),
			Err:    fmt.Errorf("%s returns another content for %s than it was given", s.cfg.Endpoint, s.URL(name)),
			Want:   "storage that keeps what it is given",
		}
		return "", errors.Join(err, s.remove(ctx, name))
	}
	return s.URL(name), nil
}

// Download writes the snapshot of this name to w.
func (s *Bucket) Download(ctx context.Context, name string, w io.Writer) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return s.download(ctx, name, w)
}

func (s *Bucket) download(ctx context.Context, name string, w io.Writer) (err error) {
	body, info, _, err := s.core.GetObject(ctx, s.cfg.Bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return s.explainObject(name, "read objects", err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	out := &target{w: w}
	n, err := io.Copy(out, body)
	switch {
	case out.err != nil:
		return out.err // that of the disk, not of the network
	case err != nil:
		return s.explain("read objects", err)
	case n != info.Size:
		return s.explain("read objects",
			fmt.Errorf("%s ends after %d of %d bytes: %w", s.URL(name), n, info.Size, io.ErrUnexpectedEOF))
	}
	return nil
}

// target tells errors of writing from those of reading.
type target struct {
	w   io.Writer
	err error
}

func (t *target) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.err = err
	return n, err
}

// names returns the names of what looks like snapshots in the folder.
func (s *Bucket) names(ctx context.Context) ([]minio.ObjectInfo, error) {
	var out []minio.ObjectInfo
	for o := range s.core.Client.ListObjects(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: s.prefix}) {
		if o.Err != nil {
			return nil, s.explain("list objects", o.Err)
		}
		o.Key = strings.TrimPrefix(o.Key, s.prefix)
		if IsSnapshot(o.Key) {
			out = append(out, o)
		}
	}
	return out, nil
}

// List returns the snapshots of the folder from the oldest to the newest. It
// reads the manifest of each.
func (s *Bucket) List(ctx context.Context) ([]Entry, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	objects, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(objects))
	for _, o := range objects {
		e := Entry{Name: o.Key, Location: s.Location(), Path: s.URL(o.Key), Size: o.Size}
		e.Manifest, e.Err = s.manifest(ctx, o.Key)
		if ctx.Err() != nil {
			return nil, s.explain("read objects", ctx.Err())
		}
		out = append(out, e)
	}
	Sort(out)
	return out, nil
}

func (s *Bucket) manifest(ctx context.Context, name string) (*Manifest, error) {
	body, _, _, err := s.core.GetObject(ctx, s.cfg.Bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.explainObject(name, "read objects", err)
	}
	defer body.Close() //nolint:errcheck // the rest of it is not wanted
	return ReadManifest(body)
}

// Delete removes the snapshot of this name, and reports whether there was one.
func (s *Bucket) Delete(ctx context.Context, name string) (bool, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	objects, err := s.names(ctx)
	if err != nil {
		return false, err
	}
	// A server does not say whether what it deletes was there.
	if !slices.ContainsFunc(objects, func(o minio.ObjectInfo) bool { return o.Key == name }) {
		return false, nil
	}
	return true, s.remove(ctx, name)
}

func (s *Bucket) remove(ctx context.Context, name string) error {
	return s.explain("delete objects",
		s.core.Client.RemoveObject(ctx, s.cfg.Bucket, s.prefix+name, minio.RemoveObjectOptions{}))
}

// Prune removes the oldest snapshots whose names are prefix and a number,
// until keep are left, and returns their names.
func (s *Bucket) Prune(ctx context.Context, prefix string, keep int) ([]string, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	objects, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(objects, func(o minio.ObjectInfo) bool {
		_, ok := Number(o.Key, prefix)
		return !ok
	})
	slices.SortFunc(ours, func(a, b minio.ObjectInfo) int {
		m, _ := Number(a.Key, prefix)
		n, _ := Number(b.Key, prefix)
		return cmp.Compare(m, n)
	})
	var pruned []string
	for len(ours) > keep {
		if err := s.remove(ctx, ours[0].Key); err != nil {
			return pruned, err
		}
		pruned, ours = append(pruned, ours[0].Key), ours[1:]
	}
	return pruned, nil
}
