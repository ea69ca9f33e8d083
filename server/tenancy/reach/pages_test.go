package reach

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/proxy"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestPagesAreBounded: of what a proxied server sends as a page, upstream's
// transport holds no more than a page may have, however it is packed.
func TestPagesAreBounded(t *testing.T) {
	const link = `<a href="/x">x</a>`
	pack := map[string]func(io.Writer) io.WriteCloser{
		"":     func(w io.Writer) io.WriteCloser { return nopCloser{w} },
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser {
			f, err := flate.NewWriter(w, flate.BestCompression)
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
	}
	for encoding, packer := range pack {
		for _, c := range []struct {
			length int
			kind   string
			ok     bool
		}{{10, "text/html; charset=utf-8", true}, {maxPage - 100, "text/html", true}, {maxPage, "text/html", false},
			{3 * maxPage, " text/html ;x", false}, {3 * maxPage, "text/plain", true}} {
			var body bytes.Buffer
			z := packer(&body)
			if _, err := io.WriteString(z, link+strings.Repeat(" ", c.length)); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			sent := body.Len()
			rt := &proxy.Transport{PathPrepend: "/root",
				RoundTripper: pages{roundTripper(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.kind},
						"Content-Encoding": {encoding}}, Body: io.NopCloser(&body)}, nil
				})}}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://10.42.0.5/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req) //nolint:bodyclose // it is in memory
			switch {
			case !c.ok:
				if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "4 MiB") {
					t.Errorf("%q, %d bytes of %s: %v", encoding, c.length, c.kind, err)
				}
				continue
			case err != nil:
				t.Errorf("%q, %d bytes of %s: %v", encoding, c.length, c.kind, err)
				continue
			}
			got, err := io.ReadAll(resp.Body)
			if rewritten := strings.HasPrefix(string(got), `<a href="/root/x">x</a>`); err != nil ||
				rewritten != strings.Contains(c.kind, "html") || !rewritten && len(got) != sent {
				t.Errorf("%q, %d bytes of %s: %d came, %v", encoding, c.length, c.kind, len(got), err)
			}
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
