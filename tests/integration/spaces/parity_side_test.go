package spaces_test

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
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
)

// How a side's space is named in the path of a request.
const (
	shortForm  = iota // /api/v1/pods
	prefixForm        // /tenants/SPACE/api/v1/pods
	fullForm          // /api/v1/tenants/SPACE/pods
	forms
)

// streamFor is how long a watch is read that the server does not end.
const streamFor = 2500 * time.Millisecond

// handshakeBody is how much of an answer is kept that is no upgrade.
const handshakeBody = 1024

// paritySide is one of the two spaces that are compared.
type paritySide struct {
	space  string
	host   string
	tls    *tls.Config
	client *http.Client
}

func newParitySide(t *testing.T, name string, cfg *rest.Config) *paritySide {
	t.Helper()
	secure, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &paritySide{space: name, host: cfg.Host, tls: secure, client: &http.Client{
		// What is asked for is what the request says, and answers are not followed.
		Transport:     &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// parityRequest is a request as a client of either space sends it. The path is
// that of a cluster, without a tenant.
type parityRequest struct {
	method, path string
	query        []string // key=value, as they stand in the URL
	header       [][2]string
	body         string
	// edit makes the body of the object that is there, in each space.
	edit func(live map[string]any) string
	// forms are how the system space and the tenant are addressed.
	forms [2]int
	// stream reads for a while, as a watch.
	stream bool
	// websocket offers these protocols in an upgrade.
	websocket []string
	// changes says that the request may change objects.
	changes bool
	// pages follows the tokens of a list in parts.
	pages bool

	// resource is what it is about, and namespace and name where that is known.
	resource        *parityResource
	namespace, name string
}

// url is where a side asks.
func (r *parityRequest) url(s *paritySide, form int) string {
	path := r.path
	switch form {
	case prefixForm:
		path = "/tenants/" + s.space + path
	case fullForm:
		if head, tail, ok := r.cutVersion(); ok {
			path = head + "/tenants/" + s.space + tail
		} else {
			path = "/tenants/" + s.space + path
		}
	}
	if len(r.query) > 0 {
		path += "?" + strings.Join(r.query, "&")
	}
	return s.host + path
}

// cutVersion splits the path after the group and version. Paths that have no
// full form are refused.
func (r *parityRequest) cutVersion() (head, tail string, ok bool) {
	segments := 2
	if strings.HasPrefix(r.path, "/apis/") {
		segments = 3
	} else if !strings.HasPrefix(r.path, "/api/") {
		return "", "", false
	}
	parts := strings.SplitN(strings.TrimPrefix(r.path, "/"), "/", segments+1)
	if len(parts) <= segments {
		return "", "", false
	}
	head, tail = "/"+strings.Join(parts[:segments], "/"), "/"+parts[segments]
	if rest, ok := strings.CutPrefix(tail, "/watch/"); ok {
		head, tail = head+"/watch", "/"+rest
	}
	// What ends after the tenant names the Tenant itself.
	switch strings.Trim(tail, "/") {
	case "", "status", "scale":
		return "", "", false
	}
	return head, tail,
		!strings.HasSuffix(tail, "/") && !strings.Contains(r.path, "//") && !strings.Contains(r.path, "/.")
}

// curl is the request in a form for a shell.
func (r *parityRequest) curl(s *paritySide, form int, body string) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	out := "curl -k --cert admin.crt --key admin.key --path-as-is -X " + r.method + " " + quote(r.url(s, form))
	for _, h := range r.header {
		out += " -H " + quote(h[0]+": "+h[1])
	}
	if r.websocket != nil {
		out += " --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: " +
			"13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='"
		if len(r.websocket) > 0 {
			out += " -H " + quote("Sec-WebSocket-Protocol: "+strings.Join(r.websocket, ", "))
		}
	}
	switch {
	case body == "":
	case strings.ContainsFunc(body, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == '\uFFFD' }):
		out += fmt.Sprintf(" --data-binary @<(printf '%%b' %s)",
			quote(strings.NewReplacer(`"`, `\x22`, "%", `\x25`).Replace(strings.Trim(fmt.Sprintf("%+q", body), `"`))))
	default:
		out += " --data-binary " + quote(body)
	}
	return out
}

// parityAnswer is what comes back.
type parityAnswer struct {
	code   int
	header http.Header
	body   []byte
	frames [][]byte // of a WebSocket
	ended  bool     // the server ended it
	sent   string   // the body of the request
}

// send asks one side.
func (s *paritySide) send(ctx context.Context, r *parityRequest, form int) (*parityAnswer, error) {
	body := r.body
	if r.edit != nil {
		live, err := s.live(ctx, r)
		if err != nil {
			return nil, err
		}
		body = r.edit(live)
	}
	within := deadline
	if r.stream {
		within = streamFor
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if r.websocket != nil {
		return s.upgrade(ctx, r, form)
	}
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url(s, form), from)
	if err != nil {
		return nil, fmt.Errorf("making %s %s: %w", r.method, r.url(s, form), err)
	}
	r.setHeader(req.Header)
	resp, err := s.client.Do(req)
	if err != nil {
		if r.stream && ctx.Err() != nil {
			return &parityAnswer{}, nil // nothing came, not even a header
		}
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	a := &parityAnswer{code: resp.StatusCode, header: resp.Header, sent: body, ended: true}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		if !r.stream || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("reading the answer to %s %s: %w", r.method, r.url(s, form), err)
		}
		a.ended = false
	}
	return a, nil
}

func (r *parityRequest) setHeader(h http.Header) {
	h.Set("User-Agent", "parity/1")
	for _, pair := range r.header {
		h.Add(pair[0], pair[1])
	}
}

// upgrade asks for a WebSocket and reads it.
func (s *paritySide) upgrade(ctx context.Context, r *parityRequest, form int) (*parityAnswer, error) {
	header := http.Header{}
	r.setHeader(header)
	header.Set("Origin", s.host)
	address := "wss://" + strings.TrimPrefix(r.url(s, form), "https://")
	secure := s.tls.Clone()
	secure.NextProtos = []string{"http/1.1"}
	conn, resp, err := (&websocket.Dialer{TLSClientConfig: secure, Subprotocols: r.websocket}).DialContext(ctx,
		address, header)
	if resp == nil && isTimeout(err) {
		return &parityAnswer{header: http.Header{}}, nil // as long as it was waited for
	}
	if resp == nil {
		return nil, fmt.Errorf("upgrading %s: %w", address, err)
	}
	a := &parityAnswer{code: resp.StatusCode, header: resp.Header}
	if err != nil {
		a.body, _ = io.ReadAll(resp.Body) //nolint:errcheck // it is kept in memory
		a.ended = true
		if len(a.body) >= handshakeBody {
			a.body = nil
		}
		return a, nil
	}
	defer conn.Close()                              //nolint:errcheck // it was read
	conn.SetReadDeadline(time.Now().Add(streamFor)) //nolint:errcheck // reading fails then
	for {
		_, frame, err := conn.ReadMessage()
		if err != nil {
			a.ended = ctx.Err() == nil && !isTimeout(err)
			return a, nil
		}
		a.frames = append(a.frames, frame)
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// live is the object that a request is about, as this side sees it; nil if
// there is none.
func (s *paritySide) live(ctx context.Context, r *parityRequest) (map[string]any, error) {
	at := &parityRequest{method: http.MethodGet, path: r.resource.path(r.namespace, r.name), resource: r.resource}
	a, err := s.send(ctx, at, prefixForm)
	if err != nil || a.code != http.StatusOK {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(a.body, &object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", at.path, err)
	}
	return object, nil
}

// escaped is a value for a query.
func escaped(s string) string { return url.QueryEscape(s) }
