package archive

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// maxArchive is the largest archive of a chart. What Helm unpacks is bounded by Helm, and what it keeps of a
	// release has to fit into a Secret, so no chart that can be installed comes near it.
	maxArchive = 32 << 20
	// maxIndex is the largest index of a repository. Those of large public ones have less than 30 MiB.
	maxIndex = 32 << 20
	// timeout is how long a download may take altogether, as with Helm.
	timeout = 2 * time.Minute
	// ownFiles stands in k3s' documentation before the path of a file that the server has.
	ownFiles = "https://%{KUBERNETES_API}%/static/"
)

// ErrSource is a source that does not say where the chart is.
var ErrSource = errors.New("not the place of a chart")

// Source says where a chart is, and what it takes to get it.
type Source struct {
	// Content is the archive itself, in base64. If it is set, nothing else counts.
	Content string
	// Chart is a URL, an OCI reference, or a name in the repository Repo.
	Chart, Version, Repo string
	// CA is what servers are verified with, in PEM. Without it those count that the machine trusts.
	CA []byte
	// Username and Password are for the repository or the host of the URL.
	Username, Password string
	// PassCredentials has them sent to any other host, too, that the repository refers to.
	PassCredentials bool
	// DockerConfig are credentials for registries, as in a Secret of type kubernetes.io/dockerconfigjson.
	DockerConfig []byte
	// InsecureSkipTLSVerify verifies no certificate, and PlainHTTP asks registries without TLS.
	InsecureSkipTLSVerify, PlainHTTP bool

	dial Dial // nil for that of the machine
}

// String says where the chart is, for messages. There are no credentials in it.
func (s Source) String() string { return redacted(s.place()) }

func (s Source) place() string {
	switch {
	case s.Content != "":
		return "spec.chartContent"
	case s.Repo != "":
		return withVersion(s.Chart, s.Version) + " of the repository " + s.Repo
	case isOCI(s.Chart):
		return withVersion(s.Chart, s.Version)
	default:
		return s.Chart
	}
}

func withVersion(chart, version string) string {
	if version == "" {
		return chart
	}
	return chart + " version " + version
}

func isOCI(chart string) bool { return strings.HasPrefix(chart, "oci://") }

// Dial makes a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Getter gets archives.
type Getter struct {
	static string
	dial   Dial
	// index is held by whoever parses an index, which takes many times its size in memory.
	index chan struct{}
}

// New returns a Getter. static is the directory of files that charts can be, of which there may be none.
func New(static string) *Getter { return &Getter{static: static, index: make(chan struct{}, 1)} }

// NewBy returns a Getter whose connections are made by dial, to the hosts themselves and not to a proxy. No file of
// the machine is a chart for it.
func NewBy(dial Dial) *Getter { return &Getter{dial: dial, index: make(chan struct{}, 1)} }

// Get returns the archive.
func (g *Getter) Get(ctx context.Context, s Source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := g.get(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("getting the chart, %s: %w", s, quiet{err})
	}
	return data, nil
}

func (g *Getter) get(ctx context.Context, s Source) ([]byte, error) {
	s.dial = g.dial
	for _, where := range []string{s.Chart, s.Repo} {
		if err := check(where); err != nil && s.Content == "" && !strings.HasPrefix(where, ownFiles) {
			return nil, err
		}
	}
	switch {
	case s.Content != "":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s.Content), ""))
		if err != nil {
			return nil, fmt.Errorf("it is not base64: %w", err)
		}
		return data, nil
	case strings.HasPrefix(s.Chart, ownFiles) && g.dial != nil:
		return nil, fmt.Errorf("%w: files of the server are charts of the system space only", ErrSource)
	case strings.HasPrefix(s.Chart, ownFiles):
		return file(g.static, strings.TrimPrefix(s.Chart, ownFiles))
	case isOCI(s.Repo):
		return nil, fmt.Errorf("%w: a registry is no repository; want spec.chart: %s/%s and no spec.repo", ErrSource,
			strings.TrimSuffix(s.Repo, "/"), s.Chart)
	case isOCI(s.Chart):
		return s.pull(ctx)
	case s.Repo == "" && isURL(s.Chart):
		return s.download(ctx, s.Chart, maxArchive, true)
	case s.Repo == "":
		return nil, fmt.Errorf("%w: want spec.repo with the URL of a repository, a URL of http, https or oci in "+
			"spec.chart, or spec.chartContent", ErrSource)
	default:
		return s.find(ctx, g.index)
	}
}

func isURL(chart string) bool {
	return strings.HasPrefix(chart, "https://") || strings.HasPrefix(chart, "http://")
}

// file reads one that the server has.
func file(static, name string) ([]byte, error) {
	root, err := os.OpenRoot(static)
	if err != nil {
		return nil, fmt.Errorf("the directory of files that charts can be: %w", err)
	}
	defer root.Close() //nolint:errcheck // it was only read
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return readAll(f, maxArchive)
}

// readAll reads what has at most that many bytes.
func readAll(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("it has more than %d MiB, which is the most", most>>20)
	}
	return data, nil
}
