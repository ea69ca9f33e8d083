package proxy

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// BenchmarkRequest compares a request to a backend with the same one through the proxy.
func BenchmarkRequest(b *testing.B) {
	at := pod(b, says("a short answer"))
	w := newWorld(b, Limits{Connections: 10000, PerAddress: 10000})
	for i := range 1000 {
		w.tell(site(fmt.Sprintf("host-%d.test", i), fmt.Sprintf("tenant-%d", i%100), at)...)
	}
	direct := clientOfProxy(b, at.String(), "", nil)
	for _, c := range []struct {
		name string
		*http.Client
	}{{"direct", direct}, {"through", w.client(nil)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp, err := c.Do(request(b, http.MethodGet, "http://host-500.test/", nil))
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body) //nolint:errcheck // the status tells
					resp.Body.Close()              //nolint:errcheck // it was read
					if resp.StatusCode != http.StatusOK {
						b.Error(resp.Status)
						return
					}
				}
			})
		})
	}
}
