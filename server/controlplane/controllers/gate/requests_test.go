package gate

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func request(t *testing.T, ctx context.Context, path string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://192.0.2.1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Requests are those of the tenant whose namespace they are about, until they are answered.
func TestRequestsOfTenants(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/default.acme/pods":                    "acme",
		"/apis/apps/v1/namespaces/default.acme/replicasets/r":     "acme",
		"/api/v1/namespaces/default/pods":                         "",
		"/api/v1/nodes":                                           "",
		"/api/v1/namespaces/default.acme/events":                  "",
		"/apis/events.k8s.io/v1/namespaces/default.acme/events/e": "",
	} {
		var r requests
		var during string
		rt := &transport{roundTripper(func(*http.Request) (*http.Response, error) {
			for name := range r.of {
				during = name
			}
			return nil, nil
		}), &r}
		if _, err := rt.RoundTrip(request(t, t.Context(), path)); err != nil { //nolint:bodyclose // there is none
			t.Fatal(err)
		}
		if during != want || len(r.of) != 0 {
			t.Errorf("%s: one of %q, want %q, and afterwards %v", path, during, want, r.of)
		}
	}
}

// A tenant for which a controller wants to do much at once does not fill the connection: the rest
// waits, the last first, and those of others do not.
func TestRequestsOfATenantWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r requests
		sent, answer := make(chan string, 100), make(chan struct{})
		rt := &transport{roundTripper(func(req *http.Request) (*http.Response, error) {
			sent <- req.URL.Path
			select {
			case <-answer:
			case <-req.Context().Done():
			}
			return nil, req.Context().Err()
		}), &r}
		ctx, cancel := context.WithCancel(t.Context())
		send := func(ctx context.Context, path string) {
			go func() {
				//nolint:bodyclose // there is none
				if _, err := rt.RoundTrip(request(t, ctx, path)); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		const many, last = "/api/v1/namespaces/default.acme/pods", "/api/v1/namespaces/default.acme/last"
		for range atATime + 5 {
			send(ctx, many)
		}
		send(ctx, last)
		gone, leave := context.WithCancel(ctx)
		send(gone, many+"/gone")
		leave()
		synctest.Wait()
		if len(sent) != atATime {
			t.Errorf("%d are sent, want %d", len(sent), atATime)
		}
		for range atATime {
			<-sent
		}
		send(ctx, "/api/v1/namespaces/default.globex/pods")
		if len(sent) != 1 {
			t.Error("the request about another tenant's objects waits")
		}
		<-sent
		answer <- struct{}{}
		synctest.Wait()
		select {
		case path := <-sent:
			if path != last {
				t.Errorf("%s is sent next, want the last", path)
			}
		default: // another tenant's was answered
			answer <- struct{}{}
			synctest.Wait()
			if path := <-sent; path != last {
				t.Errorf("%s is sent next, want the last", path)
			}
		}
		time.Sleep(2 * long)
		send(ctx, last)
		answer <- struct{}{}
		synctest.Wait()
		if path := <-sent; path != many {
			t.Errorf("%s is sent next, want the one that has waited for long", path)
		}
		cancel()
		synctest.Wait()
		if len(r.of) != 0 {
			t.Errorf("%v is left", r.of)
		}
	})
}
