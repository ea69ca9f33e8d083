package loadbalancer

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Health is what is known of a server, the best first.
type Health int

// The states of a server.
const (
	// Ready says that it answers as a server that is ready, or that it
	// answers and does not want to tell.
	Ready Health = iota
	// Unknown says that it was not asked yet.
	Unknown
	// NotReady says that it answers that it is not ready.
	NotReady
	// Dead says that it does not answer, or is no server of this cluster.
	Dead
)

// String returns the state in words.
func (h Health) String() string {
	switch h {
	case Ready:
		return "ready"
	case NotReady:
		return "not ready"
	case Dead:
		return "dead"
	default:
		return "unknown"
	}
}

// server is one server. Balancer.mu guards it.
type server struct {
	address  string
	learned  bool // the cluster named it
	left     bool // the cluster named it before; it is only configured now
	health   Health
	failures int // in a row, of probes and dials
	since    time.Time
	lastErr  error
	links    map[*link]struct{}

	dials, dialFailures uint64

	poke chan struct{} // asks for a probe
	stop context.CancelFunc
}

func newServer(address string, learned bool) *server {
	return &server{
		address: address, learned: learned, health: Unknown, since: time.Now(),
		links: map[*link]struct{}{}, poke: make(chan struct{}, 1), stop: func() {},
	}
}

// rank orders servers: by health, with doubts counting less than another
// state, and what the cluster named before what the node was configured with.
func (s *server) rank() int {
	r := 4 * int(s.health)
	if s.failures > 0 {
		r += 2
	}
	if !s.learned {
		r++
	}
	return r
}

func (s *server) pokeNow() {
	select {
	case s.poke <- struct{}{}:
	default: // somebody did already
	}
}

// takeLinks returns the connections of the server and forgets them.
func (s *server) takeLinks() []*link {
	links := make([]*link, 0, len(s.links))
	for l := range s.links {
		links = append(links, l)
	}
	clear(s.links)
	return links
}

// watch probes the server for as long as the component runs and the server is
// on the list. mu is held.
func (p *pool) watch(s *server) {
	if p.running == nil {
		return
	}
	s.stop() // of an earlier run
	ctx, cancel := context.WithCancel(p.running)
	s.stop = cancel
	go func() {
		prober := &prober{pool: p, address: s.address}
		defer prober.forget()
		for {
			health, err := prober.probe(ctx)
			if ctx.Err() != nil {
				return
			}
			wait := p.report(s, health, err)
			// Who asks for a probe at once still waits for the shortest pause.
			if !sleep(ctx, p.o.timing.again, nil) || !sleep(ctx, wait-p.o.timing.again, s.poke) {
				return
			}
		}
	}()
}

// sleep returns whether ctx still goes on after d, or as soon as early has
// something.
func sleep(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d + rand.N(d/8+1)) // nodes must not ask in step
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
		return false
	}
	return true
}

// report notes the outcome of a probe and returns when to ask again.
func (p *pool) report(s *server, health Health, err error) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := s.health
	if health == Ready {
		s.failures, s.lastErr = 0, nil
	} else {
		s.failures++
		s.lastErr = err
	}
	if health == Ready || was == Unknown || s.failures >= failuresToMove {
		s.health = health
	}
	if s.health != was {
		s.since = time.Now()
		log := p.log.WithField("server", s.address)
		switch {
		case s.health != Ready:
			log.WithError(err).Warnf("this server is %s", s.health)
		case was == Unknown:
			log.Debug("this server is ready")
		default:
			log.Info("this server is ready again")
		}
	}
	p.move()
	p.announce()
	return p.pause(s)
}

// announce wakes those who wait for news of a server. mu is held.
func (p *pool) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// pause is how long a server is left alone. mu is held.
func (p *pool) pause(s *server) time.Duration {
	t := p.o.timing
	switch {
	case s.failures > 0 && s.failures < failuresToMove:
		return t.again
	case len(p.servers) == 1:
		return t.alone
	case s.health == Ready && len(s.links) > 0:
		return t.used
	default:
		return t.idle
	}
}

// ServerState is what is known of one server.
type ServerState struct {
	// Address is its host and port.
	Address string
	// Learned says that the cluster named it; the others were configured.
	Learned bool
	Health  Health
	// Since is when Health changed.
	Since time.Time
	// LastError is why it is not ready, empty if it is.
	LastError string
	// Connections are those that it has now.
	Connections int
	// Dials and DialFailures count since the start.
	Dials, DialFailures uint64
}

// Servers returns a snapshot of all servers, ordered by address.
func (p *pool) Servers() []ServerState {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]ServerState, 0, len(p.servers))
	for _, s := range p.servers {
		state := ServerState{
			Address: s.address, Learned: s.learned, Health: s.health, Since: s.since,
			Connections: len(s.links), Dials: s.dials, DialFailures: s.dialFailures,
		}
		if s.lastErr != nil {
			state.LastError = s.lastErr.Error()
		}
		out = append(out, state)
	}
	slices.SortFunc(out, func(x, y ServerState) int { return cmp.Compare(x.Address, y.Address) })
	return out
}
