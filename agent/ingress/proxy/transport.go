package proxy

import (
	"crypto/tls"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// protocol is how a backend is spoken to.
type protocol int

const (
	plain protocol = iota
	h2c
	encrypted
	protocols // is how many there are
)

func protocolOf(told string) protocol {
	switch told {
	case joinapi.ProtocolH2C:
		return h2c
	case joinapi.ProtocolHTTPS:
		return encrypted
	}
	return plain
}

func (p protocol) scheme() string {
	if p == encrypted {
		return "https"
	}
	return "http"
}

const (
	idlePerEndpoint = 64
	idlePerTenant   = 512
	idleTimeout     = 30 * time.Second
	// handshakeTimeout bounds that of TLS with a backend.
	handshakeTimeout = 5 * time.Second
	continueTimeout  = time.Second
	// answerHeader is how long the header of an answer may be.
	answerHeader = 256 << 10
	// streamBuffer is what an answer by HTTP/2 holds for a client that does not read it.
	streamBuffer = 256 << 10
	// largestFrame is that of HTTP/2: whoever reads one keeps a buffer of its length as long as the connection
	// lasts.
	largestFrame = 16 << 10
	// pingAfter is how long a connection of HTTP/2 may be silent before it is asked whether it lives.
	pingAfter = 30 * time.Second
)

// tenant is what requests of one tenant share. It lives as long as the tenant has a host, or a request of it goes on.
type tenant struct {
	name     string
	counts   counter
	inFlight atomic.Int64
	// passed are those among them that are connections which are passed on.
	passed atomic.Int64
	// dialing bounds connections in the making: one goes on when its client has gone.
	dialing atomic.Int64
	// open is how many connections to backends there are, with those in the making.
	open   atomic.Int64
	limits Limits
	// hosts is how many it has. It belongs to tables.
	hosts int

	mu         sync.Mutex
	transports [protocols]*http.Transport
}

// transport returns the connections to the tenant's backends.
func (t *tenant) transport(p protocol) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.transports[p] == nil {
		t.transports[p] = t.newTransport(p)
	}
	return t.transports[p]
}

// busy reports whether something of the tenant goes on.
func (t *tenant) busy() bool {
	return t.inFlight.Load() > 0 || t.dialing.Load() > 0 || t.open.Load() > 0
}

// close ends the connections that no request uses. The others end when they are idle. With TLS it takes as long as
// backends like that do not read.
func (t *tenant) close() {
	t.mu.Lock()
	transports := t.transports
	t.mu.Unlock()
	for _, transport := range transports {
		if transport != nil {
			transport.CloseIdleConnections()
		}
	}
}

func (t *tenant) newTransport(p protocol) *http.Transport {
	speaks := &http.Protocols{}
	speaks.SetHTTP1(p != h2c)
	speaks.SetHTTP2(p == encrypted)
	speaks.SetUnencryptedHTTP2(p == h2c)
	return &http.Transport{
		DialContext:           t.dial,
		Protocols:             speaks,
		DisableCompression:    true, // what a client did not ask for it may not understand
		MaxIdleConnsPerHost:   idlePerEndpoint,
		MaxIdleConns:          idlePerTenant,
		IdleConnTimeout:       idleTimeout,
		TLSHandshakeTimeout:   handshakeTimeout,
		ExpectContinueTimeout: continueTimeout,
		ResponseHeaderTimeout: t.limits.Answer,
		// A backend may be hostile: an answer must not be able to hold much.
		MaxResponseHeaderBytes: answerHeader,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamBuffer,
			MaxReadFrameSize:          largestFrame,
			SendPingTimeout:           pingAfter,
		},
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // a pod has no name that a certificate could be for
		},
	}
}
