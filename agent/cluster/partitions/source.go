package partitions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/agent/cluster/serverstream"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// Name is the name of the component that carries the connections.
	Name = "partition-servers"
	// FollowerName is the name of the one that learns of partitions.
	FollowerName = "partition-list"
	// LifeName is the name of the one that ends with the credential of the node.
	LifeName = "node-life"
)

// Options make a Source.
type Options struct {
	// Dir is the agent directory; the list is kept in it.
	Dir string
	// Files are the credential of the node. They need not exist before it has joined.
	Files pki.NodeFiles
	// Home changes the way to the home partition; nil leaves it.
	Home func(http.RoundTripper) http.RoundTripper
	// Fresh says that no partition ever gave this node a pod.
	Fresh bool
	// Assume says that there is the home partition, which has the node, as long as nobody
	// has said anything: for nodes that start before there is a server.
	Assume bool
	// Log is optional.
	Log *logrus.Entry
}

// Source are the partitions of the cluster.
type Source struct {
	o    Options
	own  *origin.Way // to the partition that has the node, once it has joined
	home *origin.Way
	way  http.RoundTripper // to home, with what Options.Home made of it

	mu sync.Mutex
	// homeIsOwn says that home is the partition that has the node, as far as is known.
	homeIsOwn bool
	known     bool
	last      joinapi.Partitions
	current   []origin.Partition
	changed   chan struct{}
	ways      map[string]*way // to other partitions than that of the node
	running   context.Context // nil while the component does not run
	dialers   sync.WaitGroup
	refused   string // the last list that was not taken over
	// restored is when the partition of the node was restored last, by whatever list.
	restored   string
	restoredAt chan struct{} // closed when that changes
	// ended is closed when a server says that the credential of the node is dead.
	ended    chan struct{}
	endsOnce sync.Once
	// forgotten are the partitions that the last list lacks, for the log.
	forgotten string
}

// way is how a partition is reached.
type way struct {
	identity string // of the partition, empty while it is not known
	dialer   *loadbalancer.Dialer
	to       *origin.Way
	stop     context.CancelFunc
}

// New returns a Source that knows what an earlier one in the same directory knew.
func New(o Options) (*Source, error) {
	if o.Log == nil {
		o.Log = logrus.WithField("component", FollowerName)
	}
	s := &Source{o: o, own: &origin.Way{}, home: &origin.Way{}, homeIsOwn: true, changed: make(chan struct{}),
		restoredAt: make(chan struct{}), ended: make(chan struct{}), ways: map[string]*way{}}
	s.way = s.home
	if o.Home != nil {
		s.way = o.Home(s.home)
	}
	if o.Assume {
		s.current = []origin.Partition{{Name: pki.HomePartition, Home: true, Node: true, Transport: s.way}}
	}
	s.recall()
	return s, nil
}

// Connect lets the node reach the servers of its own partition, at base by rt.
func (s *Source) Connect(base *url.URL, rt http.RoundTripper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own.CloseIdleConnections() // of an earlier credential
	if s.own.Lead(base, rt); s.homeIsOwn {
		s.home.Follow(s.own)
	}
}

// Own leads to the partition that has the node.
func (s *Source) Own() *origin.Way { return s.own }

// Home leads to the home partition, without what Options.Home made of it.
func (s *Source) Home() http.RoundTripper { return s.home }

// Current implements origin.Partitions.
func (s *Source) Current() ([]origin.Partition, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.changed
}

// Last is the last list, and a channel that is closed at the next one.
func (s *Source) Last() (joinapi.Partitions, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.changed
}

// Restored is when the partition that has the node was restored from a snapshot last, as far
// as its servers have said since this agent runs, and a channel that is closed at the next time.
func (s *Source) Restored() (at string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restored, s.restoredAt
}

// Known waits until somebody has said which partitions there are, and returns that. It is
// false if ctx ends before.
func (s *Source) Known(ctx context.Context) (joinapi.Partitions, bool) {
	for {
		s.mu.Lock()
		known, last, changed := s.known, s.last, s.changed
		s.mu.Unlock()
		if known {
			return last, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return joinapi.Partitions{}, false
		}
	}
}

// Component connects to the servers of other partitions. It is ready at once.
func (s *Source) Component() component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		s.mu.Lock()
		s.running = ctx
		for _, w := range s.ways {
			s.start(w)
		}
		s.mu.Unlock()
		ready()
		<-ctx.Done()
		s.mu.Lock()
		s.running = nil
		s.mu.Unlock()
		s.dialers.Wait()
		return nil
	}}
}

// start runs the dialer of a way. The caller holds mu.
func (s *Source) start(w *way) {
	if s.running == nil {
		return
	}
	ctx, stop := context.WithCancel(s.running)
	w.stop = stop
	s.dialers.Go(func() { w.dialer.Run(ctx) })
}

// Follow returns what learns of partitions, from the servers that config leads to. It is
// ready when it was told once.
func (s *Source) Follow(config *rest.Config) component.Component {
	return component.Component{Name: FollowerName, Run: func(ctx context.Context, ready func()) error {
		var once sync.Once
		return serverstream.Follow(ctx, serverstream.Options{
			Config: config, Path: joinapi.PathPartitions, Silence: 3 * joinapi.PartitionsAlive, Log: s.o.Log,
			Warning: "no server tells the partitions of the cluster; those that were known last count",
		}, func() serverstream.Reader[joinapi.Partitions] {
			return reader(func(l joinapi.Partitions) bool {
				s.take(l)
				once.Do(ready)
				return l.Complete
			})
		}, s.refusedBy)
	}}
}

// errEnded ends the agent, as the deletion of its Node does: it joins again when it starts.
var errEnded = errors.New("a server says that the credential of this node is dead: its Node was deleted, or it was " +
	"revoked; with the token the node joins again when the agent starts")

// refusedBy takes note of a server that says so.
func (s *Source) refusedBy(err error) {
	var status *serverstream.StatusError
	if errors.As(err, &status) && status.Reason() == joinapi.ReasonNodeEnded {
		s.endsOnce.Do(func() { close(s.ended) })
	}
}

// Life returns what ends, and the agent with it, when the credential of the node is dead. Who
// follows the Node would not be told any more that it was deleted.
func (s *Source) Life() component.Component {
	return component.Component{Name: LifeName, Critical: true, Run: func(ctx context.Context, ready func()) error {
		ready()
		select {
		case <-s.ended:
			return errEnded
		case <-ctx.Done():
			return nil
		}
	}}
}

type reader func(joinapi.Partitions) bool

// Line implements serverstream.Reader.
func (r reader) Line(l joinapi.Partitions) bool { return r(l) }

// take takes over what a server said.
func (s *Source) take(l joinapi.Partitions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Restored > s.restored {
		s.restored = l.Restored
		close(s.restoredAt)
		s.restoredAt = make(chan struct{})
	}
	l, forgotten := s.keep(l)
	if told := strings.Join(forgotten, ", "); l.Complete && told != s.forgotten {
		if s.forgotten = told; told != "" {
			s.o.Log.Warnf("The home partition does not know what this node knows of: %s. It was not removed, and "+
				"its pods run on", told)
		}
	}
	if s.known && l.Equal(s.last) || !l.Complete && (s.known || !s.o.Fresh) {
		return
	}
	if err := s.use(l); err != nil {
		if err.Error() != s.refused {
			s.refused = err.Error()
			s.o.Log.WithError(err).Error("what the server says of the partitions of the cluster cannot be used; " +
				"those that were known last count")
		}
		return
	}
	s.refused = ""
	if l.Complete {
		s.save(l)
	}
}

// keep returns a list with the partitions that it lacks and that nobody removed: the home
// partition was restored from a snapshot. They are as they were, and keep their names.
func (s *Source) keep(l joinapi.Partitions) (whole joinapi.Partitions, forgotten []string) {
	removed := func(p joinapi.NodePartition) bool {
		return slices.ContainsFunc(l.Removed, func(r joinapi.RemovedPartition) bool {
			return r.Identity == p.Identity || p.Identity == "" && r.Name == p.Name
		})
	}
	whole = l
	whole.Partitions = nil
	for _, p := range s.last.Partitions {
		i := slices.IndexFunc(l.Partitions, func(now joinapi.NodePartition) bool { return now.Name == p.Name })
		if p.Home || i >= 0 && (p.Identity == "" || l.Partitions[i].Identity == p.Identity) || removed(p) {
			continue
		}
		whole.Partitions = append(whole.Partitions, p)
		text := fmt.Sprintf("partition %s (%s)", p.Name, p.Identity)
		if i >= 0 {
			text += fmt.Sprintf(", whose name another one has there (%s)", l.Partitions[i].Identity)
		}
		forgotten = append(forgotten, text)
	}
	kept := len(whole.Partitions)
	for _, p := range l.Partitions {
		same := func(o joinapi.NodePartition) bool { return o.Name == p.Name }
		if !slices.ContainsFunc(whole.Partitions[:kept], same) {
			whole.Partitions = append(whole.Partitions, p)
		}
	}
	slices.SortStableFunc(whole.Partitions, func(a, b joinapi.NodePartition) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return whole, forgotten
}

// use makes the partitions those of a list. The caller holds mu, unless nobody else knows s.
func (s *Source) use(l joinapi.Partitions) error {
	if err := check(l); err != nil {
		return err
	}
	ways, current, home := map[string]*way{}, []origin.Partition(nil), s.own
	for _, p := range l.Partitions {
		if p.Name == l.Self || !p.Tenants && !p.Home {
			continue
		}
		w := s.ways[p.Name]
		if w == nil || !p.Home && w.identity != "" && w.identity != p.Identity {
			var err error
			if w, err = s.newWay(); err != nil {
				return fmt.Errorf("partition %s: %w", p.Name, err)
			}
		}
		w.identity = p.Identity
		ways[p.Name] = w
	}
	for _, p := range l.Partitions {
		if !p.Tenants && !p.Home {
			continue
		}
		one := partition(p)
		one.Node = p.Name == l.Self
		w := ways[p.Name]
		if w != nil {
			w.dialer.Learn(p.Servers)
			one.Transport = w.to
		} else {
			one.Transport = s.own
		}
		if p.Home {
			if w != nil {
				home = w.to
			}
			one.Transport = s.way
		}
		current = append(current, one)
	}
	old := s.ways
	s.home.Follow(home)
	s.homeIsOwn = home == s.own
	s.ways, s.last, s.current, s.known = ways, l, current, true
	for name, w := range ways {
		if old[name] != w {
			s.start(w)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	for name, w := range old {
		if ways[name] != w {
			w.stop()
		}
	}
	return nil
}

// newWay makes a way to a partition whose servers the dialer has to learn.
func (s *Source) newWay() (*way, error) {
	d := loadbalancer.NewDialer(loadbalancer.Options{Files: s.o.Files, Log: s.o.Log})
	base, err := url.Parse(loadbalancer.DialerURL)
	if err != nil {
		return nil, err
	}
	rt, err := rest.TransportFor(d.Config(rest.TLSClientConfig{CAFile: s.o.Files.ServerCA,
		CertFile: s.o.Files.Client.Cert, KeyFile: s.o.Files.Client.Key}))
	if err != nil {
		return nil, err
	}
	return &way{dialer: d, to: origin.At(base, rt), stop: func() {}}, nil
}

// partition is one as pods need it.
func partition(p joinapi.NodePartition) origin.Partition {
	out := origin.Partition{Name: p.Name, Home: p.Home}
	if !p.Home {
		out.Identity = p.Identity
	}
	for text := range strings.SplitSeq(p.ClusterDNS, ",") {
		if addr, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			out.ClusterDNS = append(out.ClusterDNS, addr.String())
		}
	}
	if ports, err := utilnet.ParsePortRange(p.NodePortRange); err == nil {
		out.NodePorts = *ports
	}
	first, _, _ := strings.Cut(p.ServiceCIDR, ",")
	if services, err := netip.ParsePrefix(strings.TrimSpace(first)); err == nil {
		out.Service = services.Masked().Addr().Next() // upstream's API server takes the first one
	}
	return out
}

// check says what is wrong with a list.
func check(l joinapi.Partitions) error {
	var errs []error
	seen, homes := map[string]bool{}, 0
	for _, p := range l.Partitions {
		if err := space.ValidatePartition(p.Name); err != nil {
			errs = append(errs, err)
		}
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("there are two partitions %q", p.Name))
		}
		seen[p.Name] = true
		if p.Home {
			homes++
		}
		if p.Home != (p.Name == pki.HomePartition) {
			errs = append(errs, fmt.Errorf("the home partition is called %s, not %q", pki.HomePartition, p.Name))
		}
		for _, address := range p.Servers {
			if _, _, err := net.SplitHostPort(address); err != nil {
				errs = append(errs, fmt.Errorf("server of partition %s: %w", p.Name, err))
			}
		}
	}
	if homes != 1 {
		errs = append(errs, fmt.Errorf("of %d partitions %d are the home partition", len(l.Partitions), homes))
	}
	return errors.Join(errs...)
}
