package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// pause is between two requests of a worker: two cores run everything.
const pause = 20 * time.Millisecond

// timeout bounds one request.
const timeout = 2 * time.Minute

// Load is work that goes on at the same time. Its zero value has none.
type Load struct {
	workers  sync.WaitGroup
	mu       sync.Mutex
	requests map[string]int
	failures []string
}

// Run does something again and again until ctx ends; n counts.
func (l *Load) Run(ctx context.Context, what string, do func(ctx context.Context, n int) error) {
	l.workers.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			err := do(context.WithoutCancel(ctx), n)
			l.mu.Lock()
			if l.requests == nil {
				l.requests = map[string]int{}
			}
			l.requests[what]++
			if err != nil {
				l.failures = append(l.failures,
					fmt.Sprintf("%s %s: %v", time.Now().Format(time.StampMilli), what, err))
			}
			l.mu.Unlock()
			time.Sleep(pause)
		}
	})
}

// Wait returns when all work has ended, and fails the test if some of it did.
func (l *Load) Wait(t *testing.T) {
	t.Helper()
	l.workers.Wait()
	t.Logf("done: %v", l.requests)
	const most = 20
	for i, f := range l.failures {
		if i == most {
			t.Errorf("and %d more", len(l.failures)-most)
			break
		}
		t.Error(f)
	}
}

// Fresh returns a transport that reads a kubeconfig again for every request,
// as a command does that runs for one request.
func Fresh(kubeconfig string) http.RoundTripper { return &fresh{path: kubeconfig} }

type fresh struct {
	path string

	mu      sync.Mutex
	content []byte
	now     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fresh) RoundTrip(r *http.Request) (*http.Response, error) {
	rt, err := f.transport()
	if err != nil {
		return nil, err
	}
	return rt.RoundTrip(r)
}

func (f *fresh) transport() (http.RoundTripper, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, err := os.ReadFile(f.path)
	if err != nil || bytes.Equal(content, f.content) {
		return f.now, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, err
	}
	if f.now, err = rest.TransportFor(config); err == nil {
		f.content = content
	}
	return f.now, err
}

// WithToken returns a client that trusts the CA in a file. Without keeping, each
// of its requests has a connection of its own.
func WithToken(t *testing.T, url, caFile, token string, keep bool) kubernetes.Interface {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: url, BearerToken: token, QPS: -1, Timeout: timeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: !keep,
			ForceAttemptHTTP2: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
