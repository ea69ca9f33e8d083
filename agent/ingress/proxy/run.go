package proxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
)

const (
	// connectionBuffer and uploadBuffer are what a connection of HTTP/2, and one request of it, hold
	// for a backend that does not read.
	connectionBuffer = 512 << 10
	uploadBuffer     = 256 << 10
	// lastWord is how long requests have to end when their connections were closed.
	lastWord = 2 * time.Second
	// lookAgain is how often requests in flight are counted while they end.
	lookAgain = 10 * time.Millisecond
)

// Run serves until ctx ends, then accepts no more, lets requests in flight end for Drain, and
// returns nil. The end of Lines does the same: the parent is gone then. An error of reading Lines
// other than io.EOF is returned after that. Run calls ready when the first batch is complete, and
// accepts nothing before. What reads Lines ends with them, maybe after Run.
func Run(ctx context.Context, o Options, ready func()) error {
	o = o.withDefaults()
	defer closeAll(o.HTTP, o.HTTPS)
	fallback, err := selfSigned(time.Now())
	if err != nil {
		return err
	}
	p := newProxy(o)
	first, read := make(chan struct{}), make(chan error, 1)
	go func() { read <- p.read(o.Lines, sync.OnceFunc(func() { close(first) })) }()
	select {
	case <-first:
	case err := <-read:
		return err
	case <-ctx.Done():
		return nil
	}

	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := p.server(requests, fallback)
	served := p.listen(server)
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	go p.report(reporting)
	ready()
	select {
	case err = <-read:
	case err = <-served:
	case <-ctx.Done():
	}
	p.drain(server, cancel)
	return err
}

// read takes lines to their end.
func (p *proxy) read(lines io.Reader, complete func()) error {
	for in := json.NewDecoder(lines); ; {
		var line joinapi.IngressLine
		if err := in.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what to serve: %w", err)
		}
		if p.tables.apply(line) {
			complete()
		}
	}
}

func (p *proxy) server(requests context.Context, fallback *tls.Certificate) *http.Server {
	speaks := &http.Protocols{}
	speaks.SetHTTP1(true)
	speaks.SetHTTP2(true)
	speaks.SetUnencryptedHTTP2(true) // gRPC without TLS
	return &http.Server{
		Handler:   p,
		Protocols: speaks,
		TLSConfig: p.tlsConfig(requests, fallback),
		// It bounds a TLS handshake too.
		ReadHeaderTimeout: p.Limits.ReadHeader,
		IdleTimeout:       p.Limits.Idle,
		MaxHeaderBytes:    p.Limits.HeaderBytes,
		ErrorLog:          quiet(p.Log),
		// That of net/http waits for a body as long as it takes.
		DisableGeneralOptionsHandler: true,
		ConnState:                    p.connections.state,
		BaseContext:                  func(net.Listener) context.Context { return requests },
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          p.Limits.Streams,
			MaxReceiveBufferPerConnection: connectionBuffer,
			MaxReceiveBufferPerStream:     uploadBuffer,
			MaxReadFrameSize:              largestFrame,
		},
	}
}

// listen serves both listeners, and delivers an error if one of them fails.
func (p *proxy) listen(server *http.Server) <-chan error {
	failed := make(chan error, 2)
	serve := func(name string, on net.Listener, serve func(net.Listener) error) {
		if on == nil {
			return
		}
		bounded := p.connections.listener(on)
		go func() {
			if err := serve(bounded); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serving %s: %w", name, err)
			}
		}()
	}
	serve("HTTP", p.HTTP, server.Serve)
	serve("HTTPS", p.HTTPS, func(l net.Listener) error { return server.ServeTLS(&helloListener{l, p.tables}, "", "") })
	return failed
}

// drain ends the server: it waits for requests as long as they may take, and for upgraded
// connections, which http.Server forgets. Then it ends what is left.
func (p *proxy) drain(server *http.Server, cancel context.CancelFunc) {
	ctx, stop := context.WithTimeout(context.Background(), p.Drain)
	defer stop()
	if err := server.Shutdown(ctx); err != nil {
		p.Log.WithError(err).Debug("requests did not end in time")
	}
	p.waitIdle(ctx)
	cancel()
	if err := server.Close(); err != nil {
		p.Log.WithError(err).Debug("closing connections")
	}
	ctx, stop = context.WithTimeout(context.Background(), lastWord)
	defer stop()
	p.waitIdle(ctx)
}

func (p *proxy) waitIdle(ctx context.Context) {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for p.inFlight.Load() > 0 {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// report reports counts until ctx ends.
func (p *proxy) report(ctx context.Context) {
	if p.Report == nil {
		return
	}
	every := time.NewTicker(p.ReportEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			p.Report(p.tables.shown.Load().counts())
		case <-ctx.Done():
			return
		}
	}
}

func closeAll(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			l.Close() //nolint:errcheck // it may be closed
		}
	}
}

// quiet is the log of net/http, to which clients and backends can write as much as they like.
func quiet(to *logrus.Entry) *log.Logger { return log.New(debugLog{to}, "", 0) }

type debugLog struct{ to *logrus.Entry }

// Write implements io.Writer.
func (d debugLog) Write(line []byte) (int, error) {
	if d.to.Logger.IsLevelEnabled(logrus.DebugLevel) {
		d.to.Debug(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
