package archive

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/repo/v1"
	"sigs.k8s.io/yaml"
)

// maxRedirects is how often a server may send elsewhere, as in Go's client.
const maxRedirects = 10

// client returns one that is used for one chart, and a function that lets its connections go.
func (s Source) client() (*http.Client, func(), error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: s.InsecureSkipTLSVerify}}
	if s.dial != nil {
		transport.Proxy, transport.DialContext = nil, s.dial
	}
	if len(s.CA) > 0 {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, nil, errors.New("the CA bundle: there is no certificate in it; want certificates in PEM")
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: s.redirected}, transport.CloseIdleConnections, nil
}

// redirected says whether to go on to where a server sends. Go's client keeps credentials for another port of the
// host, for hosts below it, and from https to http.
func (s Source) redirected(next *http.Request, before []*http.Request) error {
	if len(before) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	if !sameHost(before[0].URL.String(), next.URL.String()) {
		next.Header.Del("Authorization")
	}
	return nil
}

// find gets a chart that a repository has.
func (s Source) find(ctx context.Context, parsing chan struct{}) ([]byte, error) {
	if !isURL(s.Repo) {
		return nil, fmt.Errorf("%w: spec.repo is not the URL of a repository; want one of http or https", ErrSource)
	}
	base, err := url.Parse(strings.TrimSuffix(s.Repo, "/") + "/index.yaml")
	if err != nil {
		return nil, fmt.Errorf("spec.repo: %w", err)
	}
	data, err := s.download(ctx, base.String(), maxIndex, true)
	if err != nil {
		return nil, fmt.Errorf("the index of the repository: %w", err)
	}
	version, err := s.choose(ctx, data, parsing)
	if err != nil {
		return nil, err
	}
	if len(version.URLs) == 0 {
		return nil, fmt.Errorf("the index of the repository has no URL for version %s", version.Version)
	}
	where, err := repo.ResolveReferenceURL(s.Repo, version.URLs[0])
	if err != nil {
		return nil, fmt.Errorf("the index of the repository: %w", err)
	}
	if isOCI(where) {
		s.Chart, s.Version, s.Repo = where, "", ""
		return s.pull(ctx)
	}
	return s.download(ctx, where, maxArchive, s.PassCredentials || sameHost(s.Repo, where))
}

// choose finds the version of the chart in an index. One index at a time is parsed.
func (s Source) choose(ctx context.Context, data []byte, parsing chan struct{}) (*repo.ChartVersion, error) {
	select {
	case parsing <- struct{}{}:
		defer func() { <-parsing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for other indexes to be parsed: %w", ctx.Err())
	}
	index, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("the index of the repository: %w", err)
	}
	version, err := index.Get(s.Chart, s.Version)
	if err != nil {
		return nil, fmt.Errorf("the repository has no such chart: %w", err)
	}
	return version, nil
}

// parse reads an index, and leaves out versions that Helm would not install. Helm itself reads files alone, and who
// reads this for a tenant has none.
func parse(data []byte) (*repo.IndexFile, error) {
	index, unmarshal := &repo.IndexFile{}, json.Unmarshal
	if !json.Valid(data) {
		unmarshal = func(data []byte, to any) error { return yaml.UnmarshalStrict(data, to) }
	}
	if err := unmarshal(data, index); err != nil {
		return nil, err
	}
	if index.APIVersion == "" {
		return nil, repo.ErrNoAPIVersion
	}
	for name, versions := range index.Entries {
		index.Entries[name] = slices.DeleteFunc(versions, func(v *repo.ChartVersion) bool {
			if v == nil || v.Metadata == nil {
				return true
			}
			if v.APIVersion == "" {
				v.APIVersion = chart.APIVersionV1
			}
			v.Dependencies = nil // those that count are in the archive
			return v.Validate() != nil
		})
	}
	index.SortEntries()
	return index, nil
}

// sameHost reports whether credentials for the one URL are for the other as well.
func sameHost(a, b string) bool {
	x, err := url.Parse(a)
	if err != nil {
		return false
	}
	y, err := url.Parse(b)
	return err == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// download gets what is at a URL, with the credentials of the source if they are for it.
func (s Source) download(ctx context.Context, where string, most int64, credentials bool) ([]byte, error) {
	client, done, err := s.client()
	if err != nil {
		return nil, err
	}
	defer done()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "a4s")
	if credentials && s.Username != "" {
		req.SetBasicAuth(s.Username, s.Password)
	}
	if s.PassCredentials && s.Username != "" {
		client.CheckRedirect = func(next *http.Request, before []*http.Request) error {
			err := s.redirected(next, before)
			next.SetBasicAuth(s.Username, s.Password)
			return err
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", where, resp.Status)
	}
	return readAll(resp.Body, most)
}
