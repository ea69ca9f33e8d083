package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// running is a Run whose parent is the test.
type running struct {
	t           *testing.T
	lines       *json.Encoder
	pipe        *io.PipeWriter
	http, https string
	ready       chan struct{}
	ended       chan error
	cancel      context.CancelFunc
}

func run(t *testing.T, o Options) *running {
	in, out := io.Pipe()
	o.HTTP, o.HTTPS, o.Lines = listener(t), listener(t), in
	if o.Log == nil {
		o.Log = silent()
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{
		t: t, lines: json.NewEncoder(out), pipe: out, cancel: cancel,
		http: o.HTTP.Addr().String(), https: o.HTTPS.Addr().String(),
		ready: make(chan struct{}), ended: make(chan error, 1),
	}
	go func() { r.ended <- Run(ctx, o, func() { close(r.ready) }) }()
	t.Cleanup(func() { out.Close() }) //nolint:errcheck // it cannot fail
	return r
}

func (r *running) tell(lines ...joinapi.IngressLine) {
	for _, line := range append(lines, joinapi.IngressLine{Complete: true}) {
		if err := r.lines.Encode(line); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *running) client(set func(*http.Transport)) *http.Client {
	return clientOfProxy(r.t, r.http, r.https, set)
}

func TestRun(t *testing.T) {
	reports := make(chan []TenantCount)
	r := run(t, Options{ReportEvery: time.Millisecond, Report: func(c []TenantCount) {
		select {
		case reports <- c:
		case <-t.Context().Done():
		}
	}})
	newer := `{"future":{"x":1},"host":{"name":"b.test","future":1}}`
	io.WriteString(r.pipe, newer+"\n") //nolint:errcheck // it is read
	select {
	case <-r.ready:
		t.Fatal("ready before a batch is complete")
	default:
	}
	r.tell(site("a.test", "a", pod(t, says("a")))...)
	<-r.ready
	c := r.client(nil)
	if status, body := get(t, c, "http://a.test/"); status != 200 || body != "a" {
		t.Errorf("%d %s", status, body)
	}
	eventually(t, "the request is reported", func() bool {
		return fmt.Sprint(<-reports) == "[{ {0 0 0 0}} {a {1 0 0 0}}]"
	})
	r.cancel()
	go func() {
		for range reports { //nolint:revive // until the test ends
		}
	}()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestTheEndOfLines(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		lines io.Reader
		want  error
	}{
		"the parent is gone":         {strings.NewReader(""), nil},
		"gone when there is a batch": {strings.NewReader(`{"complete":true}`), nil},
		"no JSON":                    {strings.NewReader("{]"), new(json.SyntaxError)},
		"half a line":                {strings.NewReader(`{"complete":true}{"ho`), io.ErrUnexpectedEOF},
		"an error":                   {iotest.ErrReader(broken), broken},
	} {
		t.Run(name, func(t *testing.T) {
			err := Run(t.Context(), Options{Lines: c.lines, HTTP: listener(t), HTTPS: listener(t)}, func() {})
			var syntax *json.SyntaxError
			if !errors.Is(err, c.want) && (!errors.As(c.want, &syntax) || !errors.As(err, &syntax)) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	r := run(t, Options{})
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestAListenerThatFailsEndsRun(t *testing.T) {
	l := listener(t)
	l.Close() //nolint:errcheck // that is the failure
	in, out := io.Pipe()
	defer out.Close()                                //nolint:errcheck // it cannot fail
	go io.WriteString(out, `{"complete":true}`+"\n") //nolint:errcheck // it is read
	err := Run(t.Context(), Options{Lines: in, HTTP: l, Log: silent()}, func() {})
	if err == nil || !strings.Contains(err.Error(), "serving HTTP") {
		t.Error(err)
	}
}

func TestDraining(t *testing.T) {
	for name, set := range map[string]func(*http.Transport){"http/1.1": nil, "h2c": onlyH2C} {
		t.Run(name, func(t *testing.T) {
			began, end := make(chan struct{}), make(chan struct{})
			r := run(t, Options{})
			r.tell(site("a.test", "a", pod(t, func(w http.ResponseWriter, _ *http.Request) {
				close(began)
				<-end
				io.WriteString(w, "ended") //nolint:errcheck // the client sees it
			}))...)
			<-r.ready
			c := r.client(set)
			answered := make(chan string)
			go func() {
				_, body := get(t, c, "http://a.test/")
				answered <- body
			}()
			<-began
			r.cancel()
			eventually(t, "nothing is accepted", func() bool {
				other := r.client(nil)
				other.Transport.(*http.Transport).DisableKeepAlives = true
				resp, err := other.Do(request(t, http.MethodGet, "http://unknown.test/", nil))
				if err == nil {
					resp.Body.Close() //nolint:errcheck // it was not read
				}
				return err != nil
			})
			close(end)
			if body := <-answered; body != "ended" {
				t.Errorf("answer %q", body)
			}
			if err := <-r.ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDrainingEnds(t *testing.T) {
	began := make(chan struct{}, 2)
	r := run(t, Options{Drain: 20 * time.Millisecond})
	r.tell(site("a.test", "a", pod(t, func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		if r.Header.Get("Upgrade") != "" {
			echoUpgrade(w, r)
		}
		<-r.Context().Done()
	}))...)
	<-r.ready
	go r.client(nil).Do(request(t, http.MethodGet, "http://a.test/", nil)) //nolint:bodyclose,errcheck // none
	w := &world{t: t, http: r.http}
	conn := w.dial()
	upgrade(t, conn, "websocket", http.StatusSwitchingProtocols)
	<-began
	<-began
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	closes(t, conn)
}

// TestChangesFailNoRequest has clients that go on while hosts come and go around theirs, and while
// its endpoints change.
func TestChangesFailNoRequest(t *testing.T) {
	r := run(t, Options{})
	one, two, other := pod(t, echo), pod(t, echo), pod(t, echo)
	certificate := certificateLine(t, "c", "a", "a.test")
	host := hostLine("a.test", "a", all("a"))
	host.Host.Certificate = "c"
	r.tell(host, certificate, backendLine("a", "a", "", one))
	<-r.ready
	var clients sync.WaitGroup
	var stop atomic.Bool
	var served atomic.Int64
	more, dead := make(chan struct{}, 1), nowhere(t)
	for _, c := range []struct {
		url string
		set func(*http.Transport)
	}{
		{"http://a.test/x", nil}, {"http://a.test/x", onlyH2C},
		{"https://a.test/x", nil}, {"https://a.test/x", h2OverTLS},
	} {
		client := r.client(c.set)
		clients.Go(func() {
			for !stop.Load() {
				resp, err := client.Do(request(t, http.MethodPost, c.url, strings.NewReader("body")))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close() //nolint:errcheck // it was read
				if err != nil || resp.StatusCode != http.StatusOK || string(body) != "body" {
					t.Errorf("%s %q, %v", resp.Status, body, err)
					return
				}
				served.Add(1)
				select {
				case more <- struct{}{}:
				default:
				}
			}
		})
	}
	stopped := make(chan struct{})
	go func() {
		clients.Wait()
		close(stopped)
	}()
	ends := [][]joinapi.IngressLine{
		{backendLine("a", "a", "", two)}, {backendLine("a", "a", "", one, two, dead)}, {host},
		{certificate, backendLine("a", "a", "", one)},
	}
	for i := range 1000 {
		select {
		case <-more: // a request for each change
		case <-stopped:
			t.Fatal("all clients stopped")
		}
		name := fmt.Sprintf("%d.test", i%10)
		r.tell(append(append(site(name, fmt.Sprint(i%7), other), ends[i%len(ends)]...), joinapi.IngressLine{
			Host: &joinapi.IngressHost{Name: fmt.Sprintf("%d.test", (i+5)%10), Deleted: true},
		})...)
	}
	seen := served.Load()
	eventually(t, "requests after the changes", func() bool { return served.Load() > seen+100 || t.Failed() })
	stop.Store(true)
	<-stopped
	t.Logf("%d requests", served.Load())
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Write(body) //nolint:errcheck // the client sees it
}

func TestNetHTTPWritesToDebug(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	quiet(logrus.NewEntry(log)).Print("a client's words")
	if out.Len() > 0 {
		t.Errorf("logged %s", out.String())
	}
	log.SetLevel(logrus.DebugLevel)
	quiet(logrus.NewEntry(log)).Print("a client's words")
	if !strings.Contains(out.String(), "level=debug") {
		t.Errorf("logged %q", out.String())
	}
}
