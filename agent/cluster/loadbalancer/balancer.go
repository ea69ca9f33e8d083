package loadbalancer

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
)

// Name is the name of the component that carries the connections.
const Name = "load-balancer"

// failuresToMove is how many times in a row a server has to fail before its
// connections are moved to another one. One may be chance.
const failuresToMove = 2

// Options describe a Balancer.
type Options struct {
	// Listen is the loopback address that clients connect to.
	Listen string
	// Configured are the URLs of servers that the node was given. A name may
	// stand for several servers.
	Configured []string
	// Dir is the agent directory; the list of servers is kept in it.
	Dir string
	// Files are the credential of the node. They need not exist yet.
	Files pki.NodeFiles
	// Log is where changes go.
	Log *logrus.Entry

	proxy  func(*url.URL) (*url.URL, error)
	lookup func(ctx context.Context, host string) ([]string, error)
	timing timing
}

// timing is how often servers are asked, and how long for an answer.
type timing struct {
	used    time.Duration // between probes of a server that has connections
	idle    time.Duration // of one that has none or does not answer
	alone   time.Duration // of the only one: there is nothing to decide
	again   time.Duration // after a failure that may be chance
	answer  time.Duration // limit of a probe
	dial    time.Duration // limit of a dial
	resolve time.Duration // between two looks at names
	drain   time.Duration // for the second half of a connection
}

func defaultTiming() timing {
	return timing{
		used: 2 * time.Second, idle: 10 * time.Second, alone: 15 * time.Second, again: 500 * time.Millisecond,
		answer: 2 * time.Second, dial: 3 * time.Second, resolve: 30 * time.Second, drain: 10 * time.Second,
	}
}

// Balancer distributes connections over the servers of a cluster.
type Balancer struct{ carrier }

// carrier carries connections to the servers of a pool.
type carrier struct{ *pool }

// pool is the servers of a cluster: which there are, and how they do.
type pool struct {
	o   Options
	log *logrus.Entry

	mu       sync.Mutex
	running  context.Context     // of the component; nil while it does not run
	learned  []string            // addresses, sorted
	groups   map[string][]string // those of each service group, sorted
	grouped  chan struct{}       // closed when there is one
	resolved map[string][]string
	servers  map[string]*server // by address
	dirty    bool               // the list on disk is another one
	changed  chan struct{}      // closed at every report about a server
}

// New returns a Balancer that knows the configured servers and those that an
// earlier one in the same directory learned of.
func New(o Options) *Balancer { return &Balancer{carrier{newPool(o)}} }

func newPool(o Options) *pool {
	if o.proxy == nil {
		o.proxy = func(u *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: u}) }
	}
	if o.lookup == nil {
		o.lookup = net.DefaultResolver.LookupHost
	}
	if o.timing == (timing{}) {
		o.timing = defaultTiming()
	}
	p := &pool{o: o, log: o.Log, resolved: map[string][]string{}, servers: map[string]*server{},
		changed: make(chan struct{}), grouped: make(chan struct{})}
	p.learned = p.recall()
	p.dirty = true // the settings may be others
	p.mu.Lock()
	defer p.mu.Unlock()
	p.update()
	return p
}

// URL is where clients on the node find the cluster.
func (p *pool) URL() string {
	if p.o.Listen == "" {
		return DialerURL
	}
	return "https://" + p.o.Listen
}

// Component returns what carries the connections. It is ready when clients can
// connect, whether or not a server can be reached.
func (b *Balancer) Component() component.Component {
	return component.Component{Name: Name, Run: b.run}
}

func (b *Balancer) run(ctx context.Context, ready func()) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", b.o.Listen)
	if err != nil {
		return err
	}
	b.begin(ctx)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // Accept reports it
	defer stop()
	defer b.halt()
	go b.resolveNames(ctx)
	ready()
	return b.accept(ctx, listener)
}

// begin watches over the servers until ctx ends.
func (c carrier) begin(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = ctx
	for _, s := range c.servers {
		c.watch(s)
	}
}

// halt ends all connections.
func (c carrier) halt() {
	c.mu.Lock()
	c.running = nil
	var all []*link
	for _, s := range c.servers {
		all = append(all, s.takeLinks()...)
	}
	c.mu.Unlock()
	closeAll(all)
}

// Learn replaces the servers that the cluster says it has, each "host:port".
// An empty list is not believed: whoever said it is a server.
func (p *pool) Learn(addresses []string) {
	addresses = slices.Compact(slices.Sorted(slices.Values(addresses)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(addresses) == 0 || slices.Equal(addresses, p.learned) {
		return
	}
	p.log.WithField("servers", strings.Join(addresses, " ")).Info("the cluster has these servers")
	p.learned, p.dirty = addresses, true
	p.update()
}

// learnGroups replaces what the cluster says of service groups: the addresses of the
// servers of each.
func (p *pool) learnGroups(groups map[string][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.groups = groups; len(groups) == 0 {
		return
	}
	select {
	case <-p.grouped:
	default:
		close(p.grouped)
	}
}

// Grouped is closed when the cluster has said that a server is of a service group.
func (b *Balancer) Grouped() <-chan struct{} { return b.grouped }

// Group returns the addresses, "host:port", of the servers of a service group that are
// ready now; none if the cluster has said nothing of it.
func (p *pool) Group(id string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ready []string
	for _, address := range p.groups[id] {
		if s := p.servers[address]; s != nil && s.learned && s.health == Ready {
			ready = append(ready, address)
		}
	}
	return ready
}

// update makes the servers those that are wanted now. mu is held.
func (p *pool) update() {
	wanted := map[string]bool{} // whether the cluster named it
	for _, target := range p.o.Configured {
		for _, address := range p.addressesOf(target) {
			wanted[address] = false
		}
	}
	for _, address := range p.learned {
		wanted[address] = true
	}
	delete(wanted, p.o.Listen) // it would talk to itself
	for address, s := range p.servers {
		if named, stays := wanted[address]; stays {
			s.left = s.left && !named || s.learned && !named
			s.learned = named
			continue
		}
		s.stop()
		delete(p.servers, address)
		closeLater(s.takeLinks())
	}
	for address, named := range wanted {
		if p.servers[address] == nil {
			s := newServer(address, named)
			p.servers[address] = s
			p.watch(s)
		}
	}
	for _, s := range p.servers {
		s.pokeNow() // how often they are asked depends on the others
	}
	p.move()
	p.save()
}

// addressesOf are the addresses of a configured server.
func (p *pool) addressesOf(target string) []string {
	if addresses := p.resolved[target]; len(addresses) > 0 {
		return addresses
	}
	return []string{hostPort(target)}
}

// hostPort is the address in a URL that was validated before.
func hostPort(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return target
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
}

// move takes the connections from servers that are not to be used, if there is
// one to use. mu is held.
func (p *pool) move() {
	usable := func(s *server) bool { return s.health == Ready && s.failures == 0 && !s.left }
	found := false
	for _, s := range p.servers {
		found = found || usable(s)
	}
	if !found {
		return
	}
	for _, s := range p.servers {
		if s.left || s.health == NotReady || s.health == Dead {
			if links := s.takeLinks(); len(links) > 0 {
				p.log.WithField("server", s.address).Infof("moving %d connections to another server", len(links))
				closeLater(links)
			}
		}
	}
}

// order returns the servers to try, the best first. mu is held.
func (p *pool) order() []*server {
	all := make([]*server, 0, len(p.servers))
	for _, s := range p.servers {
		all = append(all, s)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(x, y *server) int {
		return cmp.Or(
			cmp.Compare(x.rank(), y.rank()),
			cmp.Compare(len(x.links), len(y.links)),
		)
	})
	return all
}

// Candidates returns the URLs to join by, the most promising first. It waits
// until a server has answered or all were asked.
func (p *pool) Candidates(ctx context.Context) []string {
	for {
		p.mu.Lock()
		waiting, ready := false, false
		for _, s := range p.servers {
			waiting = waiting || s.health == Unknown && p.running != nil
			ready = ready || s.health == Ready
		}
		if ready || !waiting || ctx.Err() != nil {
			defer p.mu.Unlock()
			return p.candidates()
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// candidates are the configured URLs, which the user knows, and then those of
// other servers; of both, those that answer go first. mu is held.
func (p *pool) candidates() []string {
	var good, rest []string
	add := func(target string, health Health) {
		if health == Ready {
			good = append(good, target)
		} else {
			rest = append(rest, target)
		}
	}
	covered := map[string]bool{}
	for _, target := range p.o.Configured {
		best := Dead
		for _, address := range p.addressesOf(target) {
			covered[address] = true
			if s := p.servers[address]; s != nil {
				best = min(best, s.health)
			}
		}
		add(target, best)
	}
	for _, address := range p.learned {
		if s := p.servers[address]; s != nil && !covered[address] {
			add("https://"+address, s.health)
		}
	}
	return append(good, rest...)
}

// resolveNames looks at configured names until ctx ends, and tries again what
// could not be saved.
func (p *pool) resolveNames(ctx context.Context) {
	for {
		for _, target := range p.o.Configured {
			p.resolve(ctx, target)
		}
		p.mu.Lock()
		p.save()
		p.mu.Unlock()
		select {
		case <-time.After(p.o.timing.resolve):
		case <-ctx.Done():
			return
		}
	}
}

// resolve looks at the name in a URL. What it meant before stays if it means
// nothing now, and a proxy gets the name itself.
func (p *pool) resolve(ctx context.Context, target string) {
	u, err := url.Parse(target)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		return
	}
	if via, err := p.o.proxy(u); err == nil && via != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.timing.resolve)
	defer cancel()
	found, err := p.o.lookup(ctx, u.Hostname())
	if err != nil || len(found) == 0 {
		p.log.WithError(err).Debugf("cannot resolve %s", u.Hostname())
		return
	}
	_, port, err := net.SplitHostPort(hostPort(target))
	if err != nil {
		return
	}
	for i := range found {
		found[i] = net.JoinHostPort(found[i], port)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(found, p.resolved[target]) {
		p.resolved[target] = found
		p.update()
	}
}
