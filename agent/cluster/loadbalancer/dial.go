package loadbalancer

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// dial connects to a server, through the proxy of the environment if there is
// one for it, as the clients would do by themselves.
func (p *pool) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.timing.dial)
	defer cancel()
	dialer := &net.Dialer{KeepAliveConfig: keepAlive}
	via, err := p.o.proxy(&url.URL{Scheme: "https", Host: address})
	if err != nil {
		return nil, fmt.Errorf("the proxy of the environment: %w", err)
	}
	if via == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	if via.Scheme != "http" {
		return nil, fmt.Errorf("proxy %s: only http:// is supported", via.Redacted())
	}
	proxy := via.Host
	if via.Port() == "" {
		proxy = net.JoinHostPort(via.Hostname(), "80")
	}
	conn, err := dialer.DialContext(ctx, "tcp", proxy)
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", via.Redacted(), err)
	}
	if err := tunnel(ctx, conn, via, address); err != nil {
		_ = conn.Close() // the error says more
		return nil, fmt.Errorf("proxy %s: %w", via.Redacted(), err)
	}
	return conn, nil
}

// tunnel asks an HTTP proxy to connect to a server.
func tunnel(ctx context.Context, conn net.Conn, via *url.URL, address string) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		req.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(via.User.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	// The server says nothing before the client does, so nothing of it is lost
	// in the buffer.
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return conn.SetDeadline(time.Time{})
}
