package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// slowConnections are those that clients of a slow tenant have, from slowClients addresses, if this
	// process, which has both ends of them, may open as many files.
	slowConnections = 10000
	slowClients     = 5
	// otherFiles are what else it opens.
	otherFiles = 5000
	// pace is how often the neighbour asks.
	pace = 2 * time.Millisecond
)

// BenchmarkNeighbour compares what requests of a tenant wait for alone, and beside one whose backend never
// answers: 10,000 connections of its clients are open, and have as many requests in flight as it may have.
func BenchmarkNeighbour(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "beside"}[beside], func(b *testing.B) {
			done := make(chan struct{})
			slow := pod(b, func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-done:
				case <-r.Context().Done():
				}
			})
			w := newWorld(b, Limits{Connections: 2 * slowConnections, Idle: time.Hour},
				append(site("slow.test", "slow", slow), site("good.test", "good", pod(b, says("fine")))...)...)
			defer close(done)
			n := 0
			if beside {
				n = min(slowConnections, (openFiles()-otherFiles)/2)
				crowd(b, w, n)
			}
			client := w.client(nil)
			get(b, client, "http://good.test/")
			var waited []float64
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for b.Loop() {
				<-tick.C
				began := time.Now()
				if code, _ := get(b, client, "http://good.test/"); code != http.StatusOK {
					b.Fatal(code)
				}
				waited = append(waited, float64(time.Since(began).Microseconds()))
			}
			slices.Sort(waited)
			b.ReportMetric(float64(n), "connections")
			b.ReportMetric(waited[len(waited)/2], "p50-us")
			b.ReportMetric(waited[len(waited)*99/100], "p99-us")
		})
	}
}

// crowd opens the connections of the slow tenant, and waits until the proxy has answered or holds the request
// of each.
func crowd(b *testing.B, w *world, n int) {
	b.Helper()
	var refused sync.WaitGroup
	most := w.Limits.PerTenant
	answers := make(chan struct{}, n)
	for i := range n {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%slowClients))}}
		conn, err := dialer.DialContext(b.Context(), "tcp", w.http)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() }) //nolint:errcheck // it may be closed
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: slow.test\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		refused.Go(func() {
			if _, err := bufio.NewReader(conn).ReadByte(); err == nil {
				answers <- struct{}{}
			}
		})
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for range n - most {
		select {
		case <-answers:
		case <-ctx.Done():
			b.Fatal("not all are answered")
		}
	}
	eventually(b, "the slow tenant to have all that it may", func() bool { return w.inFlight.Load() >= int64(most) })
}

// BenchmarkRouteToTraffic measures the time from a new host, among 1,000, to its first answer.
func BenchmarkRouteToTraffic(b *testing.B) {
	at := pod(b, says("fine"))
	w := newWorld(b, Limits{})
	for i := range 1000 {
		w.tell(site(fmt.Sprintf("host-%d.test", i), fmt.Sprintf("tenant-%d", i%100), at)...)
	}
	client := w.client(func(t *http.Transport) { t.DisableKeepAlives = true }) // each host is another for it
	n := 0
	for b.Loop() {
		n++
		host := fmt.Sprintf("new-%d.test", n)
		w.tell(site(host, "tenant-1", at)...)
		if code, _ := get(b, client, "http://"+host+"/"); code != http.StatusOK {
			b.Fatal(code)
		}
	}
}
