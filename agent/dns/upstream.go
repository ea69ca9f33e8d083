package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/pkg/proxy"
	"github.com/coredns/coredns/plugin/pkg/transport"
	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
)

const (
	defaultResolvConf = "/etc/resolv.conf"
	// systemdResolvConf names the real resolvers where resolv.conf only names
	// systemd's stub.
	systemdResolvConf = "/run/systemd/resolve/resolv.conf"
)

// resolvers returns the resolvers that resolvConf names as "address:port".
// Loopback addresses are skipped, as no pod could use them either; where there
// is no other, those of fallback are taken. Own addresses are skipped, since
// asking ourselves would never end.
func resolvers(resolvConf, fallback string, own ...netip.Addr) ([]string, error) {
	found, err := nameservers(resolvConf, own)
	if len(found) == 0 && resolvConf != fallback {
		if more, ferr := nameservers(fallback, own); ferr == nil {
			found, err = more, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s names no resolver outside the loopback addresses", resolvConf)
	}
	return found, nil
}

func nameservers(path string, own []netip.Addr) ([]string, error) {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading resolvers: %w", err)
	}
	var out []string
	for _, s := range conf.Servers {
		a, err := netip.ParseAddr(s)
		if err != nil || a.IsLoopback() || a.IsUnspecified() || slices.Contains(own, a) {
			continue
		}
		if hp := net.JoinHostPort(s, conf.Port); !slices.Contains(out, hp) {
			out = append(out, hp)
		}
	}
	return out, nil
}

// forwarder is the CoreDNS plugin at the end of the chain. It hands queries to
// the resolvers that are current, and fails at once when there are none, or
// when the client has as many queries outside as it may.
type forwarder struct {
	find func() ([]string, error)
	log  *logrus.Entry

	mu      sync.RWMutex
	current *forward.Forward
	servers []string
	problem string // what was last logged
}

// Name implements plugin.Handler. It is not "forward": for that name CoreDNS
// would open classes other than INET.
func (f *forwarder) Name() string { return "a4s-forward" }

// ServeDNS implements plugin.Handler.
func (f *forwarder) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	f.mu.RLock()
	current := f.current
	f.mu.RUnlock()
	// A code that is returned is not cached, in contrast to a message that is written: others
	// do not get the refusal of one.
	if current == nil || !leaves(ctx) {
		return dns.RcodeServerFailure, nil
	}
	return current.ServeDNS(ctx, w, r)
}

// refresh reads the resolvers and switches to them if they changed, as they do
// when a machine gets its network after a4s. It is not called concurrently.
func (f *forwarder) refresh() {
	servers, err := f.find()
	if err != nil {
		if f.problem != err.Error() {
			f.problem = err.Error()
			f.log.WithError(err).
				Warn("names outside the cluster cannot be resolved; --resolv-conf chooses another file")
		}
	} else {
		f.problem = ""
	}
	if slices.Equal(servers, f.servers) {
		return
	}
	if len(servers) > 0 {
		f.log.WithField("resolvers", strings.Join(servers, ",")).Debug("forwarding")
	}
	f.use(servers)
}

// use forwards to servers from now on. Without any, the forwarder is stopped.
func (f *forwarder) use(servers []string) {
	var next *forward.Forward
	if len(servers) > 0 {
		next = forward.New()
		for _, s := range servers {
			next.SetProxy(proxy.NewProxy("forward", s, transport.DNS))
		}
	}
	f.mu.Lock()
	old := f.current
	f.current, f.servers = next, servers
	f.mu.Unlock()
	if old != nil {
		_ = old.OnShutdown() // stops health checks only; it never fails
	}
}
