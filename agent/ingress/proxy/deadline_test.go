package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

const (
	// short is over before a backend of these tests answers, long is never over.
	short = 50 * time.Millisecond
	long  = time.Hour
)

func limited(timeout, backendTimeout time.Duration) joinapi.IngressPath {
	return joinapi.IngressPath{Path: "/", Backend: "b", Timeout: timeout, BackendTimeout: backendTimeout}
}

// podsOf are how backends of a protocol are made, clientsOf how clients of one speak.
func podsOf() map[string]func(testing.TB, http.HandlerFunc) netip.AddrPort {
	return map[string]func(testing.TB, http.HandlerFunc) netip.AddrPort{
		joinapi.ProtocolHTTP: pod, joinapi.ProtocolH2C: h2cPod,
	}
}

func clientsOf() map[string]func(*http.Transport) {
	return map[string]func(*http.Transport){"http/1.1": nil, "h2c": onlyH2C}
}

// silence is a backend that reads a request and has no answer, and counts such requests.
func silence(t *testing.T, asked *atomic.Int64) http.HandlerFunc {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		io.Copy(io.Discard, r.Body) //nolint:errcheck // it may break off
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
}

func TestTimeouts(t *testing.T) {
	for name, path := range map[string]joinapi.IngressPath{
		"of the request": limited(short, 0), "of the backend": limited(0, short), "of both": limited(short, short),
		"the first": limited(short, long), "the second": limited(long, short), "of the node": limited(long, long),
		"none": limited(0, 0), "less than none": limited(-1, -1),
	} {
		node := Limits{}
		if path.Timeout != short && path.BackendTimeout != short {
			node.Answer = short
		}
		for protocol, newPod := range podsOf() {
			for client, set := range clientsOf() {
				var asked atomic.Int64
				mute := silence(t, &asked)
				w := newWorld(t, node, hostLine("a.test", "a", path),
					backendLine("b", "a", protocol, newPod(t, mute), newPod(t, mute)))
				r := request(t, http.MethodPost, "http://a.test/", strings.NewReader("body"))
				resp, body := do(t, w.client(set), r)
				if resp.StatusCode != http.StatusGatewayTimeout || body != errSlow.Error()+"\n" || asked.Load() > 1 {
					t.Errorf("%s, %s to %s: %s %q, %d asked", name, client, protocol, resp.Status, body,
						asked.Load())
				}
				if got := w.tables.shown.Load().tenants["a"].counts.snapshot(); got != (Counts{ServerErrors: 1}) {
					t.Errorf("%s: counts %+v", name, got)
				}
				eventually(t, "nothing is in flight", func() bool { return w.inFlight.Load() == 0 })
			}
		}
	}
}

// TestAClientThatSendsSlowly gets an answer though it sends no end of the body.
func TestAClientThatSendsSlowly(t *testing.T) {
	var asked atomic.Int64
	for name, path := range map[string]joinapi.IngressPath{
		"request": limited(short, 0), "backend": limited(0, short),
	} {
		for protocol, newPod := range podsOf() {
			at := newPod(t, silence(t, &asked))
			w := newWorld(t, Limits{}, hostLine("a.test", "a", path), backendLine("b", "a", protocol, at))
			for client, set := range clientsOf() {
				body, out := io.Pipe()
				go io.WriteString(out, "half") //nolint:errcheck // it is read
				resp, _ := do(t, w.client(set), request(t, http.MethodPost, "http://a.test/", body))
				if resp.StatusCode != http.StatusGatewayTimeout {
					t.Errorf("%s, %s to %s: %s", name, client, protocol, resp.Status)
				}
				out.Close() //nolint:errcheck // it cannot fail
				eventually(t, "nothing is in flight", func() bool { return w.inFlight.Load() == 0 })
			}
		}
	}
}

// TestAnAnswerThatBeganGoesOn has a body that is longer in coming than both limits.
func TestAnAnswerThatBeganGoesOn(t *testing.T) {
	more := make(chan struct{}, 1)
	answer := func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		io.WriteString(w, "begin ") //nolint:errcheck // the client sees it
		flush.Flush()               //nolint:errcheck // the client sees it
		select {
		case <-more:
		case <-r.Context().Done():
		}
		io.WriteString(w, "end") //nolint:errcheck // the client sees it
	}
	for protocol, newPod := range podsOf() {
		const limit = 100 * time.Millisecond
		w := newWorld(t, Limits{}, hostLine("a.test", "a", limited(limit, limit)),
			backendLine("b", "a", protocol, newPod(t, answer)))
		c := w.client(nil)
		var resp *http.Response
		eventually(t, "the answer begins in time", func() bool {
			var err error
			if resp, err = c.Do(request(t, http.MethodGet, "http://a.test/", nil)); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusOK {
				resp.Body.Close() //nolint:errcheck // the next one counts
			}
			return resp.StatusCode == http.StatusOK
		})
		over, stop := context.WithTimeout(t.Context(), limit) // began after the limits did
		<-over.Done()
		stop()
		more <- struct{}{}
		if body, err := io.ReadAll(resp.Body); string(body) != "begin end" || err != nil {
			t.Errorf("%s: %q, %v", protocol, body, err)
		}
		resp.Body.Close() //nolint:errcheck // it was read
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		for name, c := range map[string]struct {
			after, took time.Duration
			err, want   error
			ends        error // is why the context has ended in the end
		}{
			"in time":           {after: time.Second, took: time.Second - 1},
			"too late":          {after: time.Second, took: time.Second + 1, want: errSlow, ends: errSlow},
			"an error":          {after: time.Second, took: 1, err: broken, want: broken},
			"an error too late": {after: time.Second, took: time.Hour, err: broken, want: errSlow, ends: errSlow},
			"no deadline":       {took: time.Hour, err: broken, want: broken},
			"less than none":    {after: -1, took: time.Hour},
		} {
			late := false
			ctx, d := newDeadline(t.Context(), c.after, func() { late = true })
			time.Sleep(c.took) // of the bubble's time
			synctest.Wait()
			body := &closing{Reader: strings.NewReader("")}
			resp, err := d.met(&http.Response{Body: body}, c.err)
			time.Sleep(time.Hour)
			synctest.Wait()
			if err != c.want || (resp == nil) != (err == errSlow) || context.Cause(ctx) != c.ends ||
				late != (c.ends != nil) {
				t.Errorf("%s: %v, %v; the context: %v; late %v", name, resp, err, context.Cause(ctx), late)
			}
			if body.closed != (err == errSlow && c.err == nil) {
				t.Errorf("%s: closed %v", name, body.closed)
			}
			if d.end(); c.after > 0 && ctx.Err() == nil {
				t.Errorf("%s: the context does not end", name)
			}
		}
	})
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// TestAnotherEndpointIsTriedIfNothingWasSent has an endpoint with which there is no connection in time: the
// kernel accepts it, but nobody speaks TLS.
func TestAnotherEndpointIsTriedIfNothingWasSent(t *testing.T) {
	alive := httptest.NewTLSServer(says("alive"))
	t.Cleanup(alive.Close)
	dead := addrPort(listener(t))
	w := newWorld(t, Limits{}, hostLine("a.test", "a", limited(0, 100*time.Millisecond)))
	c := w.client(nil)
	eventually(t, "the second endpoint answers after the first", func() bool {
		// New endpoints each time: that which failed would not be tried.
		w.tell(joinapi.IngressLine{Backend: &joinapi.IngressBackend{ID: "b", Deleted: true}})
		w.tell(backendLine("b", "a", joinapi.ProtocolHTTPS, dead, addrPort(alive.Listener)))
		status, body := get(t, c, "http://a.test/")
		first := w.tables.shown.Load().backends["b"].endpoints[0]
		return status == http.StatusOK && body == "alive" && first.failed.Load() != 0
	})
	w.tell(backendLine("b", "a", joinapi.ProtocolHTTPS, dead))
	if status, body := get(t, c, "http://a.test/"); status != http.StatusGatewayTimeout {
		t.Errorf("no connection at all: %d %s", status, body)
	}
}
