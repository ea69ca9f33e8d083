package objectstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/process"
)

const (
	// AccessKey and SecretKey are those that a server knows.
	AccessKey = "a4s-test-key"
	SecretKey = "a4s-test-s3cret"
	// Bucket is there from the beginning.
	Bucket = "backups"

	tool         = "github.com/versity/versitygw/cmd/versitygw"
	buildTimeout = 8 * time.Minute
	startTimeout = 4 * time.Minute
)

// Server is a running S3 server.
type Server struct {
	// Endpoint is host and port, CAFile the authority of its certificate.
	Endpoint, CAFile string
	// Dir has a directory for each bucket with a file for each object.
	Dir string
}

// Settings are those of the bucket of the server, in the folder.
func (s *Server) Settings(folder string) config.EtcdS3 {
	return config.EtcdS3{
		Enabled: true, Endpoint: s.Endpoint, EndpointCA: s.CAFile, AccessKey: AccessKey, SecretKey: SecretKey,
		Bucket: Bucket, BucketLookup: "path", Region: "us-east-1", Folder: folder, Timeout: "1m", Retention: 2,
	}
}

// TLS trusts the server.
func (s *Server) TLS() (*tls.Config, error) {
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}, nil
}

// Object is the file of an object in Bucket.
func (s *Server) Object(key string) string { return filepath.Join(s.Dir, Bucket, key) }

// Build builds the server in a directory and returns its path.
func Build(dir string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	module := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "tests", "s3server")
	program := filepath.Join(dir, "versitygw")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", module, "-o", program, tool).
		CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the S3 server: %w\n%s", err, out)
	}
	return program, nil
}

// Prepare makes what a server needs below an empty directory, and returns the
// server and the arguments that its program listens with at the address.
func Prepare(dir, address string) (*Server, []string, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	files := pki.FilesIn(filepath.Join(dir, "tls"))
	s := &Server{Endpoint: address, CAFile: files.ServerCA.Cert, Dir: filepath.Join(dir, "data")}
	for _, d := range []string{files.Dir, filepath.Join(s.Dir, Bucket)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, nil, err
		}
	}
	if _, err := pki.Ensure(files.Dir, pki.Options{SANs: []string{host}}); err != nil {
		return nil, nil, err
	}
	return s, []string{"--port", address, "--cert", files.ServingAPIServer.Cert, "--key", files.ServingAPIServer.Key,
		"--access", AccessKey, "--secret", SecretKey, "--quiet", "--health", "/health", "posix", s.Dir}, nil
}

// Start starts a server on loopback, which ends with the test.
func Start(tb testing.TB, program string) *Server {
	tb.Helper()
	s, args, err := Prepare(tb.TempDir(), freeAddress(tb))
	if err != nil {
		tb.Fatal(err)
	}
	log, err := os.Create(filepath.Join(tb.TempDir(), "log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the server has it, too
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	wait, err := process.Start(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = wait() // killed below
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	if err := s.waitReady(exited); err != nil {
		text, _ := os.ReadFile(log.Name())
		tb.Fatalf("the S3 server does not start: %v\n%s", err, text)
	}
	return s
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0") // no client has a port at this address meanwhile
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the address is all that is wanted
	return l.Addr().String()
}

func (s *Server) waitReady(exited <-chan struct{}) error {
	trust, err := s.TLS()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true},
		Timeout: 5 * time.Second}
	deadline := time.After(startTimeout)
	for {
		r, err := client.Get("https://" + s.Endpoint + "/health")
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("it answers %s", r.Status)
		}
		select {
		case <-exited:
			return fmt.Errorf("it has ended; last: %w", err)
		case <-deadline:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
