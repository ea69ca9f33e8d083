package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// serverName is in the certificate of every API server, and no node may have it. It stands
// for the servers of a Dialer.
const serverName = "kubernetes.default.svc"

// DialerURL is where clients that connect by a Dialer find the servers.
const DialerURL = "https://" + serverName

// Dialer distributes the connections of this process over the servers of another partition,
// without a listener. Run must be called, or nothing connects.
type Dialer struct{ carrier }

// NewDialer returns a Dialer. Of the options it takes the files and the log; which servers
// there are it is told by Learn.
func NewDialer(o Options) *Dialer {
	o.Listen, o.Configured, o.Dir = "", nil, ""
	return &Dialer{carrier{newPool(o)}}
}

// Config is that of clients which connect by the Dialer. They look for no proxy: the Dialer goes
// by the one in the environment itself, and the address that they name is no server's.
func (d *Dialer) Config(tls rest.TLSClientConfig) *rest.Config {
	return &rest.Config{Host: DialerURL, Dial: d.Dial, TLSClientConfig: tls,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
}

// Run watches over the servers until ctx ends, and then ends all connections.
func (d *Dialer) Run(ctx context.Context) {
	d.begin(ctx)
	<-ctx.Done()
	d.halt()
}

// Dial connects to the best server that answers, whatever address is asked for.
func (d *Dialer) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d.mu.Lock()
	order := d.order()
	d.mu.Unlock()
	var errs []error
	for _, s := range order {
		conn, err := d.dial(ctx, s.address)
		link := d.admit(s, conn, conn, err)
		if link != nil {
			return &dialed{Conn: conn, done: func() { d.done(s, link) }}, nil
		}
		if err == nil {
			err = fmt.Errorf("server %s is none of the partition any more", s.address)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 {
		return nil, errors.New("no server is known")
	}
	return nil, errors.Join(errs...)
}

// dialed is a connection of a client of this process.
type dialed struct {
	net.Conn
	once sync.Once
	done func()
}

// Close implements net.Conn.
func (c *dialed) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}
