package issuers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/util/cert"

	"github.com/a4s-io/a4s/internal/problem"
)

// Bounds of what a provider answers.
const (
	maxBody    = 256 << 10
	maxHeaders = 16 << 10
	mostKeys   = 64
	// maxError is how much of an error is told: addresses in it are the provider's.
	maxError = 300
)

const wellKnown = "/.well-known/openid-configuration"

var (
	errRedirect = errors.New("redirects are not followed")
	errLong     = fmt.Errorf("the answer is longer than %d KiB", maxBody>>10)
)

// fetcher asks a provider for its keys.
type fetcher struct {
	issuer, ca string
	dial       Dial
}

// fetch are the keys that the provider has now.
func (f *fetcher) fetch(ctx context.Context) ([]key, error) {
	found, err := f.ask(ctx)
	if err != nil {
		return nil, &shortened{err}
	}
	return found, nil
}

func (f *fetcher) ask(ctx context.Context) ([]key, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := get(ctx, client, strings.TrimSuffix(f.issuer, "/")+wellKnown, &about); err != nil {
		return nil, fmt.Errorf("asking who it is: %w", err)
	}
	if about.Issuer != f.issuer {
		return nil, fmt.Errorf("it calls itself %q", about.Issuer)
	}
	if u, err := url.Parse(about.Keys); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("its keys are at %q, not at an https URL", about.Keys)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := get(ctx, client, about.Keys, &set); err != nil {
		return nil, fmt.Errorf("asking for its keys: %w", err)
	}
	if n := len(set.Keys); n > mostKeys {
		return nil, fmt.Errorf("it has %d keys, at most %d are possible", n, mostKeys)
	}
	return usable(set.Keys), nil
}

// client is one for a single fetch, which keeps no connections: an address may be another's the next time.
func (f *fetcher) client() (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pool, err := cert.NewPoolFromBytes([]byte(f.ca))
		if err != nil {
			return nil, fmt.Errorf("reading its certificate authority: %w", err)
		}
		trust.RootCAs = pool
	}
	return &http.Client{
		Transport: &http.Transport{DialContext: f.dial, TLSClientConfig: trust, DisableKeepAlives: true,
			DisableCompression: true, MaxResponseHeaderBytes: maxHeaders},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}, nil
}

func get(ctx context.Context, client *http.Client, at string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read, or nobody wants it
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", at, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer of %s: %w", at, err)
	case len(body) > maxBody:
		return fmt.Errorf("%s: %w", at, errLong)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", at, err)
	}
	return nil
}

// shortened is an error of which a part is told.
type shortened struct{ err error }

// Error implements error.
func (s *shortened) Error() string {
	return problem.Short(s.err.Error(), maxError)
}

// Unwrap returns the cause.
func (s *shortened) Unwrap() error { return s.err }
