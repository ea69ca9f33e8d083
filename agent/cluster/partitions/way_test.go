package partitions

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/a4s-io/a4s/agent/origin"
)

// TestWaysBeforeTheNodeHasJoined: clients have the ways before there is a credential, and home is
// the partition of the node until it is said to be elsewhere.
func TestWaysBeforeTheNodeHasJoined(t *testing.T) {
	c := newCluster(t)
	first, second, main := c.server(), c.server(), c.server()
	logger, _ := logtest.NewNullLogger()
	s, err := New(Options{Dir: c.dir, Files: c.files, Assume: true, Log: logrus.NewEntry(logger)})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := s.Current()
	home := all[0].Transport
	for what, way := range map[string]http.RoundTripper{"own": s.Own(), "home": home} {
		body := &closed{}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://anywhere/ping", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := way.RoundTrip(req); !errors.Is(err, origin.ErrNotConnected) || !body.is {
			t.Errorf("%s: %v, and the body is closed: %t", what, err, body.is)
		}
	}
	leads := func(what string, way http.RoundTripper, to *server) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://anywhere/ping", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := way.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer resp.Body.Close()
		if resp.Request.URL.Host != to.Listener.Addr().String() {
			t.Errorf("%s leads to %s", what, resp.Request.URL)
		}
	}
	connect := func(to *server) {
		t.Helper()
		base, err := url.Parse(to.URL)
		if err != nil {
			t.Fatal(err)
		}
		s.Connect(base, to.Client().Transport)
	}
	connect(first)
	leads("own", s.Own(), first)
	leads("home", home, first)
	s.home.Follow(origin.At(must(url.Parse(main.URL)), main.Client().Transport))
	s.homeIsOwn = false
	connect(second)
	leads("own", s.Own(), second)
	leads("home", home, main)
}

func must(u *url.URL, err error) *url.URL {
	if err != nil {
		panic(err)
	}
	return u
}

// closed is a body that tells whether it was closed.
type closed struct{ is bool }

// Read implements io.Reader.
func (c *closed) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements io.Closer.
func (c *closed) Close() error {
	c.is = true
	return nil
}
