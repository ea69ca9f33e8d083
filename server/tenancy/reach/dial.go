package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// dialTimeout bounds one attempt to connect, as upstream's dialer does.
const dialTimeout = 30 * time.Second

// Errors of a connection, to be matched with errors.Is.
var (
	// ErrRefused is an address that a tenant cannot have connections to. It
	// says the same of all, so that nobody maps the cluster with it.
	ErrRefused = errors.New("tenants have the API server connect to their own pods and to hosts outside " +
		"of the cluster only")
	// ErrRedirect is an answer that would send the API server elsewhere.
	ErrRedirect = errors.New("redirects are not followed")
)

// Dial makes a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer connects to what a tenant names, by inner or, if that is nil, as
// usual. inner gets addresses, never names.
func (r *Rules) Dialer(tenant string, inner Dial) Dial {
	return r.dialer(tenant, inner, r.allows)
}

// PodDialer connects to pods of tenant only.
func (r *Rules) PodDialer(tenant string) Dial {
	return r.dialer(tenant, nil, func(tenant string, ip netip.Addr) (bool, error) {
		if special(ip.Unmap()) {
			return false, nil
		}
		return r.OfPod(tenant, ip)
	})
}

func (r *Rules) dialer(tenant string, inner Dial, allows func(string, netip.Addr) (bool, error)) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		ips, err := resolve(ctx, host)
		if err != nil {
			return nil, err
		}
		last := fmt.Errorf("%s: %w", host, ErrRefused)
		for _, ip := range ips {
			ok, err := allows(tenant, ip)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", host, err)
			}
			if !ok {
				continue
			}
			conn, err := r.connect(ctx, inner, ofTenant(tenant), network, ip.Unmap(), port)
			if err == nil {
				return conn, nil
			}
			last = err
		}
		return nil, last
	}
}

func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("looking %s up: %w", host, err)
	}
	return ips, nil
}

// NoProxy is for the Proxy of a client: the proxy of the environment would
// connect to what nobody has judged.
func NoProxy(*http.Request) (*url.URL, error) { return nil, nil }

// Straight returns redirects as errors: the one who answers has not been chosen
// to say what the API server asks next.
func Straight(inner http.RoundTripper) http.RoundTripper { return &straight{inner} }

type straight struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s *straight) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close() // nobody reads it
		return nil, fmt.Errorf("the answer is %d: %w", resp.StatusCode, ErrRedirect)
	}
	return resp, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (s *straight) WrappedRoundTripper() http.RoundTripper { return s.inner }
