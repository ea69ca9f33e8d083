package proxy

import (
	"io"
	"net"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// Options are what Run needs.
type Options struct {
	// Lines has joinapi.IngressLine values as JSON, one a line. Its end is the end of Run.
	Lines io.Reader
	// HTTP and HTTPS are where clients connect. Run closes them. One of them may be nil.
	HTTP, HTTPS net.Listener
	// Drain is how long requests in flight have to end when Run ends, 30 s if it is 0.
	Drain time.Duration
	// Log may be nil.
	Log    *logrus.Entry
	Limits Limits
	// Report, if set, gets the counts of all tenants that have a host, every ReportEvery.
	Report func([]TenantCount)
	// ReportEvery is 10 s if it is 0.
	ReportEvery time.Duration
}

// Limits bound what clients and tenants can hold. A field that is 0 has its default.
type Limits struct {
	// Connections is how many clients may have at a time: 20,000, or a third of the open files that
	// the process may have if that is less.
	Connections int
	// PerAddress is how many of them one client may have: a quarter.
	PerAddress int
	// Requests is how many may be in flight: 8,192, or a third of the open files.
	Requests int
	// PerTenant is how many requests of one tenant may be in flight, and how many connections to its
	// backends may be in the making: 1,024, or an eighth of Requests.
	PerTenant int
	// Streams is how many requests one connection of HTTP/2 may have: 100.
	Streams int
	// HeaderBytes is how long the header of a request may be: 64 KiB.
	HeaderBytes int
	// ReadHeader is how long a client has for the header of a request, and for a TLS handshake: 10 s.
	ReadHeader time.Duration
	// Idle is how long a connection may be without a request, and how long one side of a connection that is passed on
	// may do nothing when the other has ended: 60 s.
	Idle time.Duration
	// Dial is how long one endpoint has to accept a connection: 2 s.
	Dial time.Duration
	// Answer is how long a backend has to begin its answer when it has all of the request: 5 min.
	Answer time.Duration
}

const (
	defaultDrain       = 30 * time.Second
	defaultReportEvery = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.ReportEvery == 0 {
		o.ReportEvery = defaultReportEvery
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", "ingress-proxy")
	}
	o.Limits = o.Limits.withDefaults(openFiles())
	return o
}

func (l Limits) withDefaults(files int) Limits {
	number := func(field *int, value int) {
		if *field <= 0 {
			*field = max(1, value)
		}
	}
	duration := func(field *time.Duration, value time.Duration) {
		if *field <= 0 {
			*field = value
		}
	}
	number(&l.Connections, min(20000, files/3))
	number(&l.PerAddress, l.Connections/4)
	number(&l.Requests, min(8192, files/3))
	number(&l.PerTenant, min(1024, l.Requests/8))
	number(&l.Streams, 100)
	number(&l.HeaderBytes, 64<<10)
	duration(&l.ReadHeader, 10*time.Second)
	duration(&l.Idle, time.Minute)
	duration(&l.Dial, 2*time.Second)
	duration(&l.Answer, 5*time.Minute)
	return l
}

// openFiles is how many files this process may have open.
func openFiles() int {
	const unknown = 1024
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return unknown
	}
	return int(min(limit.Cur, 1<<20)) //nolint:gosec // it is small
}
