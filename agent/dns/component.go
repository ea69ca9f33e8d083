package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/cache"
	"github.com/coredns/coredns/plugin/pkg/transport"
	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component.
const Name = "dns"

const (
	resolversEvery = 5 * time.Second
	// rulesEvery is how soon the rules come back after something else on the
	// machine, such as a firewall's reload, took them away. The link comes back
	// at once.
	rulesEvery = 30 * time.Second
	stopWithin = 10 * time.Second
)

// Options configures the server.
type Options struct {
	// Client may list and watch namespaces, services and endpoint slices.
	Client kubernetes.Interface
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// ClusterDNS is the service address that the server answers on.
	ClusterDNS netip.Addr
	// Others are the addresses of further servers on this node, which share the link and the
	// rules; nil means none.
	Others func() []netip.Addr
	// ServiceCIDR and ClusterCIDR are the ranges of the cluster's reverse
	// zones.
	ServiceCIDR, ClusterCIDR netip.Prefix
	// Further are ranges of the cluster besides these; nil means none. Their reverse names
	// are not for name servers outside, either.
	Further func() []netip.Prefix
	// Pods tells whose pod is behind an address. Without it everybody gets
	// the names of the system space.
	Pods Pods
	// ResolvConf names the upstream resolvers; empty means /etc/resolv.conf.
	ResolvConf string
	// Listen replaces port 53 of ClusterDNS. If it is valid, the server makes
	// no link and no rules.
	Listen netip.AddrPort
	// Log may be nil.
	Log *logrus.Entry
}

// New returns the DNS server as a component. It is ready once it answers for
// the cluster, that is, after its informers have synced. It leaves its link
// and rules behind when it ends: names must resolve again as soon as the
// server is back, without a moment in which kube-proxy owns the address.
func New(o Options) component.Component {
	s := &server{Options: o}
	return component.Component{Name: Name, Run: s.run, StopTimeout: stopWithin}
}

// server holds the options and, for tests, what can be replaced.
type server struct {
	Options
	find      func() ([]string, error)                                           // the upstream resolvers
	newStore  func(kubernetes.Interface, *sourceTable) (clusterStore, error)     // the store
	listening func(addr netip.AddrPort)                                          // told once the sockets are open
	prepare   func(ctx context.Context, addr netip.Addr, notrack *noTrack) error // link and rules
	newBounds func(*sourceTable) *bounds                                         // how much each may take
}

// clusterStore is a Store that runs.
type clusterStore interface {
	Store
	start(ctx context.Context)
	waitSynced(ctx context.Context) bool
	stop()
}

// run may be called again after it returned: everything that lives is made
// here. CoreDNS is assembled from its parts, without caddy and Corefile, so
// that nothing of it is global.
func (s *server) run(ctx context.Context, ready func()) error {
	if err := s.complete(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var notrack *noTrack
	if s.owned() {
		notrack = newNoTrack(s.ClusterDNS, s.Log)
		notrack.others = s.Others
		if err := s.prepare(ctx, s.ClusterDNS, notrack); err != nil {
			return err
		}
	}
	limits := s.newBounds(&sourceTable{pods: s.Pods})
	store, err := s.newStore(s.Client, limits.sources)
	if err != nil {
		return fmt.Errorf("making informers: %w", err)
	}
	upstreams := &forwarder{find: s.find, log: s.Log}
	upstreams.refresh()
	defer upstreams.use(nil)

	sockets, err := open(ctx, s.Listen)
	if err != nil {
		return err
	}
	dnsServer, err := s.assemble(sockets.addr, store, upstreams, limits)
	if err != nil {
		sockets.close()
		return err
	}
	served := make(chan error, 2)
	go func() { served <- dnsServer.ServePacket(sockets.udp) }()
	go func() { served <- dnsServer.Serve(&listener{sockets.tcp, limits}) }()

	store.start(ctx)
	defer store.stop()
	defer cancel() // before stop, which waits
	if s.listening != nil {
		s.listening(sockets.addr)
	}
	go func() {
		if store.waitSynced(ctx) {
			s.Log.WithField("address", sockets.addr.String()).Debug("answering for the cluster")
			ready()
		}
	}()

	left, err := s.maintain(ctx, served, upstreams, notrack)
	_ = dnsServer.Stop() // its only error is that some client was too slow
	sockets.close()      // Stop misses a half that has not begun to serve
	for ; left > 0; left-- {
		<-served
	}
	return err
}

// maintain watches over the server until ctx ends or a half of it does, and
// returns how many halves still serve.
func (s *server) maintain(
	ctx context.Context, served <-chan error, upstreams *forwarder, notrack *noTrack,
) (int, error) {
	resolversTick, rulesTick := time.NewTicker(resolversEvery), time.NewTicker(rulesEvery)
	defer resolversTick.Stop()
	defer rulesTick.Stop()
	var link <-chan struct{} // never without rules of ours
	if notrack != nil {
		var err error
		if link, err = watchLink(ctx); err != nil {
			s.Log.WithError(err).Warnf("a deleted link %s comes back only after %s", LinkName, rulesEvery)
		}
	}
	prepare := func() {
		// Queries already work, so a failure now is no reason to stop.
		if err := s.prepare(ctx, s.ClusterDNS, notrack); err != nil && ctx.Err() == nil {
			s.Log.WithError(err).Warn("cannot check the link and the rules of the cluster DNS address")
		}
	}
	for {
		select {
		case <-ctx.Done():
			return 2, nil
		case err := <-served:
			if err == nil {
				err = net.ErrClosed
			}
			return 1, fmt.Errorf("serving on %s: %w", s.Listen, err)
		case <-resolversTick.C:
			upstreams.refresh()
		case <-rulesTick.C:
			if notrack != nil {
				prepare()
			}
		case <-link:
			prepare()
		}
	}
}

// complete fills in defaults and checks the options.
func (s *server) complete() error {
	if !s.ClusterDNS.IsValid() {
		return errors.New("no cluster DNS address")
	}
	if _, ok := dns.IsDomainName(s.ClusterDomain); !ok || s.ClusterDomain == "" || s.ClusterDomain == "." {
		return fmt.Errorf("invalid cluster domain %q", s.ClusterDomain)
	}
	if s.Log == nil {
		s.Log = logrus.WithField("component", Name)
	}
	if s.ResolvConf == "" {
		s.ResolvConf = defaultResolvConf
	}
	if !s.Listen.IsValid() {
		s.Listen = netip.AddrPortFrom(s.ClusterDNS, 53)
	}
	if s.find == nil {
		s.find = func() ([]string, error) {
			return resolvers(s.ResolvConf, systemdResolvConf, s.ClusterDNS, s.Listen.Addr())
		}
	}
	if s.newStore == nil {
		s.newStore = func(c kubernetes.Interface, sources *sourceTable) (clusterStore, error) {
			return newInformerStore(c, sources)
		}
	}
	if s.prepare == nil {
		s.prepare = prepare
	}
	if s.newBounds == nil {
		s.newBounds = newBounds
	}
	return nil
}

// owned reports whether the address is one that the package has to make.
func (s *server) owned() bool { return s.Listen == netip.AddrPortFrom(s.ClusterDNS, 53) }

// assemble makes the CoreDNS server: the entrance, our backend, then the cache
// of what lies outside the cluster, then the forwarder.
func (s *server) assemble(
	addr netip.AddrPort, store Store, upstreams *forwarder, limits *bounds,
) (*dnsserver.Server, error) {
	backend := &handler{
		store: store,
		zone: &zone{name: dns.CanonicalName(s.ClusterDomain), server: s.ClusterDNS,
			serial: uint32(time.Now().Unix())},
		cidrs:   []netip.Prefix{s.ServiceCIDR.Masked(), s.ClusterCIDR.Masked()},
		further: s.Further,
	}
	srv, err := dnsserver.NewServer(transport.DNS+"://"+addr.String(), []*dnsserver.Config{{
		Zone:        ".",
		Transport:   transport.DNS,
		ListenHosts: []string{addr.Addr().String()},
		Port:        strconv.Itoa(int(addr.Port())),
		ReadTimeout: limits.read,
		IdleTimeout: limits.idle,
		Plugin: []plugin.Plugin{
			func(next plugin.Handler) plugin.Handler { return &entrance{limits, next} },
			func(next plugin.Handler) plugin.Handler { backend.next = next; return backend },
			func(next plugin.Handler) plugin.Handler { c := cache.New(); c.Next = next; return c },
			func(plugin.Handler) plugin.Handler { return upstreams },
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("assembling the server: %w", err)
	}
	return srv, nil
}
