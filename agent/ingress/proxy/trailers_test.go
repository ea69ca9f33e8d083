package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// deciding is a path whose filters, and those of its backend, set and remove headers of requests and of answers.
func deciding() joinapi.IngressPath {
	of := func(set, remove string) *joinapi.IngressFilters {
		h := &joinapi.IngressHeaders{Set: pairs{pair(set, "filter")}, Remove: []string{remove},
			Add: pairs{pair("X-Add", "filter")}}
		return &joinapi.IngressFilters{Request: h, Response: h}
	}
	p := split(joinapi.IngressPart{Backend: "b", Weight: 1, Filters: of("x-set-2", "x-removed-2")})
	p.Filters = of("x-set-1", "x-removed-1")
	return p
}

// decided are what deciding has, and one that it leaves alone.
func decided() []string {
	return []string{"X-Set-1", "X-Set-2", "X-Removed-1", "X-Removed-2", "X-Mine"}
}

func namesOf(h http.Header) (names []string) {
	for name, values := range h {
		if len(values) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestTrailersOfRequests(t *testing.T) {
	names := append(decided(), "X-Forwarded-For", "X_Real_Ip", "Forwarded", "Host", "Connection", "X-Add")
	var announced, sent string
	for _, name := range names {
		announced += "Trailer: " + name + "\r\n"
		sent += name + ": client\r\n"
	}
	for protocol, newPod := range podsOf() {
		seen := make(chan http.Header, 1)
		at := newPod(t, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // the trailers tell
			seen <- r.Trailer
		})
		w := newWorld(t, Limits{}, hostLine("a.test", "a", deciding()), backendLine("b", "a", protocol, at))
		// What is not announced comes with what is; by HTTP/2 net/http lets it not pass.
		for what, said := range map[string]string{
			"announced": announced, "two announced": "Trailer: X-Mine, X-Add\r\n",
		} {
			w.raw("POST / HTTP/1.1\r\nHost: a.test\r\n" + said + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" +
				sent + "\r\n")
			if got := namesOf(<-seen); !slices.Equal(got, []string{"X-Add", "X-Mine"}) {
				t.Errorf("%s, %s: %v", protocol, what, got)
			}
		}
	}
}

func TestTrailersOfAnswers(t *testing.T) {
	for protocol, newPod := range podsOf() {
		for _, announced := range []bool{true, false} {
			at := newPod(t, func(w http.ResponseWriter, _ *http.Request) {
				h, before := w.Header(), http.TrailerPrefix
				for _, name := range decided() {
					if announced {
						before = ""
						h.Add("Trailer", name)
					}
				}
				io.WriteString(w, "answer")           //nolint:errcheck // the client sees it
				http.NewResponseController(w).Flush() //nolint:errcheck // without a length there can be trailers
				for _, name := range decided() {
					h.Set(before+name, "backend")
				}
			})
			w := newWorld(t, Limits{}, hostLine("a.test", "a", deciding()), backendLine("b", "a", protocol, at))
			for client, set := range clientsOf() {
				resp, body := do(t, w.client(set), request(t, http.MethodGet, "http://a.test/", nil))
				if got := namesOf(resp.Trailer); !slices.Equal(got, []string{"X-Mine"}) || body != "answer" {
					t.Errorf("%s to %s, announced %v: %v, %q", client, protocol, announced, got, body)
				}
				if got := resp.Header; got.Get("X-Set-1") != "filter" || got.Get("X-Set-2") != "filter" {
					t.Errorf("the header: %v", got)
				}
			}
		}
	}
}

func TestWhatComesBeforeAnAnswer(t *testing.T) {
	at := pod(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range append(decided(), "Connection", "Keep-Alive") {
			w.Header().Set(name, "backend")
		}
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header())
		io.WriteString(w, "answer") //nolint:errcheck // the client sees it
	})
	w := newWorld(t, Limits{}, hostLine("a.test", "a", deciding()), backendLine("b", "a", "", at))
	for client, set := range clientsOf() {
		var hints []string
		r := request(t, http.MethodGet, "http://a.test/", nil)
		r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				hints = append(hints, namesOf(http.Header(h))...)
				return nil
			},
		}))
		if _, body := do(t, w.client(set), r); !slices.Equal(hints, []string{"X-Mine"}) || body != "answer" {
			t.Errorf("%s: %v, %q", client, hints, body)
		}
	}
	conn := w.dial()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != 103 ||
		!slices.Equal(namesOf(resp.Header), []string{"X-Mine"}) {
		t.Errorf("%v, %v", resp, err)
	}
}
