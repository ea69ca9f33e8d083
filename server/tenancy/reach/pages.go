package reach

import (
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxPage is how long a page may be, unpacked, in which upstream rewrites links:
// it holds the whole of it, with a path before each link.
const maxPage = 4 << 20

// errPage is a page that is too long.
func errPage() error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("the links of a page are rewritten when it is proxied, "+
		"so it must not be longer than %d MiB, unpacked: forward a port to read this one", maxPage>>20))
}

// pages bounds the pages of proxied servers, who belong to tenants. A small one
// could be packed that unpacked is more than the memory of the API server.
type pages struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p pages) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.inner.RoundTrip(req)
	if err != nil || req.Method == http.MethodHead || resp.Header.Get("Location") != "" {
		return resp, err
	}
	// As upstream reads it.
	if kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "text/html" {
		return resp, nil
	}
	packed := resp.Body
	unpacked := io.Reader(packed)
	switch resp.Header.Get("Content-Encoding") {
	case "":
	case "gzip":
		if unpacked, err = gzip.NewReader(packed); err != nil {
			_ = packed.Close() // the error that counts is the other one
			return nil, fmt.Errorf("unpacking a page: %w", err)
		}
	case "deflate":
		unpacked = flate.NewReader(packed)
	default:
		return resp, nil // upstream passes it on
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Body = &page{Closer: packed, r: unpacked, left: maxPage}
	return resp, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (p pages) WrappedRoundTripper() http.RoundTripper { return p.inner }

// page is the body of a page.
type page struct {
	io.Closer
	r    io.Reader
	left int
}

// Read implements io.Reader.
func (p *page) Read(into []byte) (int, error) {
	n, err := p.r.Read(into)
	if p.left -= n; p.left < 0 {
		return 0, errPage()
	}
	return n, err
}
