package partitions

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/serverstream"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/nodecert"
)

// server is an API server: it says its name, and tells lists.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	lines []joinapi.Partitions
	news  chan struct{}
}

func (s *server) tell(l joinapi.Partitions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, l)
	close(s.news)
	s.news = make(chan struct{})
}

func (s *server) address() string { return strings.TrimPrefix(s.URL, "https://") }

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != joinapi.PathPartitions {
		_, _ = io.WriteString(w, s.address()+r.URL.Path) // the client sees a short answer
		return
	}
	for told := 0; ; {
		s.mu.Lock()
		lines, news := s.lines[told:], s.news
		s.mu.Unlock()
		for _, l := range lines {
			_ = json.NewEncoder(w).Encode(l)
		}
		w.(http.Flusher).Flush()
		told += len(lines)
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// cluster has the certificates of servers and of one node.
type cluster struct {
	t     *testing.T
	made  *pki.Files
	files pki.NodeFiles
	dir   string
	log   *logtest.Hook
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir()}
	c.files = pki.NodeFilesIn(filepath.Join(c.dir, "tls"))
	logger, hook := logtest.NewNullLogger()
	c.log = hook
	var err error
	if c.made, err = pki.Ensure(filepath.Join(t.TempDir(), "server"), pki.Options{
		SANs: []string{"127.0.0.1", "kubernetes.default.svc"}, Log: logrus.NewEntry(logger)}); err != nil {
		t.Fatal(err)
	}
	nodecert.WriteAll(t, c.made, "n1", c.files)
	return c
}

func (c *cluster) server() *server {
	c.t.Helper()
	cert, err := tlsPair(c.made.ServingAPIServer)
	if err != nil {
		c.t.Fatal(err)
	}
	s := &server{news: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = cert
	s.StartTLS()
	c.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// source starts a source at a server of the node's partition.
func (c *cluster) source(own *server, o Options) (s *Source, stop func()) {
	c.t.Helper()
	logger, hook := logtest.NewNullLogger()
	c.log = hook
	config := &rest.Config{Host: own.URL, TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.ServerCA,
		CertFile: c.files.Client.Cert, KeyFile: c.files.Client.Key}}
	rt, err := rest.TransportFor(config)
	if err != nil {
		c.t.Fatal(err)
	}
	base, err := url.Parse(own.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	o.Dir, o.Files, o.Log = c.dir, c.files, logrus.NewEntry(logger)
	if s, err = New(o); err != nil {
		c.t.Fatal(err)
	}
	s.Connect(base, rt)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, part := range []interface {
		Run(context.Context, func()) error
	}{runner(s.Component().Run), runner(s.Follow(config).Run)} {
		running.Go(func() { _ = part.Run(ctx, func() {}) })
	}
	stop = func() {
		cancel()
		running.Wait()
	}
	c.t.Cleanup(stop)
	return s, stop
}

type runner func(context.Context, func()) error

func (r runner) Run(ctx context.Context, ready func()) error { return r(ctx, ready) }

func home(s *server) joinapi.NodePartition {
	return joinapi.NodePartition{Name: "main", Home: true, Tenants: true, Servers: []string{s.address()},
		ServiceCIDR: "10.43.0.0/16", ClusterDNS: "10.43.0.10"}
}

func further(name string, s *server) joinapi.NodePartition {
	return joinapi.NodePartition{Name: name, Identity: "of " + name, Tenants: true, Servers: []string{s.address()},
		ServiceCIDR: "10.44.0.0/16", ClusterDNS: "10.44.0.10", NodePortRange: "28000-28099"}
}

func list(self string, all ...joinapi.NodePartition) joinapi.Partitions {
	return joinapi.Partitions{Self: self, Complete: true, Partitions: all}
}

func names(s *Source) string {
	var out []string
	all, _ := s.Current()
	for _, p := range all {
		name := p.Name
		if p.Node {
			name += "*"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func until(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for err := condition(); err != nil; err = condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *cluster) are(s *Source, want string) {
	c.t.Helper()
	until(c.t, "the partitions are "+want, func() error {
		if got := names(s); got != want {
			return errors.New(got)
		}
		return nil
	})
}

// ask returns what a partition answers.
func ask(p origin.Partition) (string, error) {
	req, err := http.NewRequest(http.MethodGet, "https://elsewhere/x", nil)
	if err != nil {
		return "", err
	}
	resp, err := p.Transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func (c *cluster) answers(s *Source, name string, by *server) {
	c.t.Helper()
	until(c.t, name+" answers", func() error {
		all, _ := s.Current()
		i := slices.IndexFunc(all, func(p origin.Partition) bool { return p.Name == name })
		if i < 0 {
			return errors.New("it is not there")
		}
		got, err := ask(all[i])
		if err == nil && got != by.address()+"/x" {
			err = errors.New(got)
		}
		return err
	})
}

// TestPartitions: they come and go, requests reach their servers, and all is known after a
// restart without a server.
func TestPartitions(t *testing.T) {
	c := newCluster(t)
	own, other := c.server(), c.server()
	s, stop := c.source(own, Options{})
	if all, _ := s.Current(); len(all) != 0 {
		t.Errorf("it begins with %v", all)
	}
	own.tell(list("main", home(own)))
	c.are(s, "main*")
	c.answers(s, "main", own)
	own.tell(list("main", home(own), further("tp2", other)))
	c.are(s, "main* tp2")
	c.answers(s, "tp2", other)
	c.answers(s, "main", own)
	all, _ := s.Current()
	if p := all[1]; p.Service != netip.MustParseAddr("10.44.0.1") ||
		!slices.Equal(p.ClusterDNS, []string{"10.44.0.10"}) {
		t.Errorf("tp2 is %+v", p)
	}
	// Without tenants a partition is nothing to a node.
	nodes := further("rp3", other)
	nodes.Tenants = false
	own.tell(list("main", home(own), nodes, further("tp2", other)))
	until(t, "the list is taken over", func() error {
		if last, _ := s.Known(t.Context()); len(last.Partitions) != 3 {
			return errors.New(names(s))
		}
		return nil
	})
	c.are(s, "main* tp2")
	stop()
	own.Close()
	again, _ := c.source(own, Options{})
	c.are(again, "main* tp2")
	c.answers(again, "tp2", other)
}

// TestPartitionsLeaveByACompleteList: one that the server merely does not know has not left.
func TestPartitionsLeaveByACompleteList(t *testing.T) {
	c := newCluster(t)
	own, other := c.server(), c.server()
	s, _ := c.source(own, Options{Fresh: true})
	known := list("main", home(own))
	known.Complete = false
	own.tell(known)
	c.are(s, "main*") // there is nothing to lose
	if _, err := os.Stat(filepath.Join(c.dir, FileName)); err == nil {
		t.Error("it is kept")
	}
	own.tell(list("main", home(own), further("tp2", other)))
	c.are(s, "main* tp2")
	own.tell(known)
	own.tell(list("main", further("tp2", other)))           // no home
	own.tell(list("main", home(own), further("TP", other))) // no name
	own.tell(list("main", home(own), home(own)))            // twice
	gone := list("main", home(own), further("tp3", other))
	gone.Removed = []joinapi.RemovedPartition{{Name: "tp2", Identity: "of tp2"}}
	own.tell(gone)
	c.are(s, "main* tp3")
	errs := 0
	for _, e := range c.log.AllEntries() {
		if e.Level == logrus.ErrorLevel {
			errs++
		}
	}
	if errs != 3 {
		t.Errorf("%d lists were refused", errs)
	}
}

// TestPartitionsThatHomeForgot: home was restored from a snapshot. What it does not know stays,
// also across a restart, until it is removed; another partition of the name is not mixed up
// with it.
func TestPartitionsThatHomeForgot(t *testing.T) {
	c := newCluster(t)
	own, other, another := c.server(), c.server(), c.server()
	s, stop := c.source(own, Options{})
	own.tell(list("main", home(own), further("tp2", other), further("tp3", other)))
	c.are(s, "main* tp2 tp3")
	forgot := list("main", home(own), further("tp4", other))
	own.tell(forgot)
	c.are(s, "main* tp2 tp3 tp4")
	c.answers(s, "tp2", other)
	stop()
	s, _ = c.source(own, Options{})
	c.are(s, "main* tp2 tp3 tp4")
	c.answers(s, "tp2", other)
	until(t, "it is said", func() error {
		if !slices.ContainsFunc(c.log.AllEntries(), func(e *logrus.Entry) bool {
			return e.Level == logrus.WarnLevel && strings.Contains(e.Message, "of tp2")
		}) {
			return errors.New("nothing is logged")
		}
		return nil
	})
	// Another one of the name joins while the first is not removed: it has to wait.
	second := further("tp2", another)
	second.Identity = "of another tp2"
	taken := list("main", home(own), second, further("tp3", other))
	taken.Removed = []joinapi.RemovedPartition{{Name: "tp4", Identity: "of tp4"}}
	own.tell(taken)
	c.are(s, "main* tp2 tp3")
	c.answers(s, "tp2", other)
	before, _ := s.Current()
	// The first is removed, and the second has the name.
	taken.Removed = append(taken.Removed, joinapi.RemovedPartition{Name: "tp2", Identity: "of tp2"})
	own.tell(taken)
	c.answers(s, "tp2", another)
	after, _ := s.Current()
	if before[1].Identity != "of tp2" || after[1].Identity != "of another tp2" || before[1].Same(after[1]) {
		t.Errorf("they are %q and %q", before[1].Identity, after[1].Identity)
	}
}

// TestPartitionsOfAnEarlierRelease have no identity on disk. It is learned.
func TestPartitionsOfAnEarlierRelease(t *testing.T) {
	c := newCluster(t)
	own, other := c.server(), c.server()
	old := further("tp2", other)
	old.Identity = ""
	s, _ := c.source(own, Options{})
	own.tell(list("main", home(own), old, further("tp3", other)))
	c.are(s, "main* tp2 tp3")
	c.answers(s, "tp2", other)
	before, _ := s.Current()
	own.tell(list("main", home(own), further("tp2", other), further("tp3", other)))
	until(t, "its identity is known", func() error {
		if all, _ := s.Current(); all[1].Identity != "of tp2" || all[1].Transport != before[1].Transport {
			return errors.New(all[1].Identity)
		}
		return nil
	})
}

// TestNodeThatHadPodsWaits: nobody knows whose pods it has.
func TestNodeThatHadPodsWaits(t *testing.T) {
	c := newCluster(t)
	own := c.server()
	s, stop := c.source(own, Options{})
	known := list("main", home(own))
	known.Complete = false
	own.tell(known)
	own.tell(list("main")) // which is refused, so both were read
	until(t, "a list is refused", func() error {
		if len(c.log.AllEntries()) == 0 {
			return errors.New("nothing is logged")
		}
		return nil
	})
	stop()
	if got := names(s); got != "" {
		t.Errorf("it believes in %s", got)
	}
	if err := os.WriteFile(filepath.Join(c.dir, FileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, _ := c.source(c.server(), Options{Assume: true})
	if got := names(damaged); got != "" {
		t.Errorf("of a damaged file it makes %s", got)
	}
}

// TestHomeElsewhere: the partition of the node is another one than home, and a node that
// started without a server has to learn that.
func TestHomeElsewhere(t *testing.T) {
	c := newCluster(t)
	own, main := c.server(), c.server()
	wrapped := 0
	s, stop := c.source(own, Options{Assume: true, Home: func(rt http.RoundTripper) http.RoundTripper {
		wrapped++
		return rt
	}})
	c.are(s, "main*")
	c.answers(s, "main", own)
	own.tell(list("tp2", home(main), further("tp2", own)))
	c.are(s, "main tp2*")
	c.answers(s, "main", main)
	c.answers(s, "tp2", own)
	if wrapped != 1 {
		t.Errorf("the way home was wrapped %d times", wrapped)
	}
	stop()
	again, _ := c.source(own, Options{Assume: true})
	c.are(again, "main tp2*")
}

func tlsPair(pair pki.Pair) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	return &tls.Config{Certificates: []tls.Certificate{cert}}, err
}

// TestNodePortsOfPartitions: what cannot be read may be any port.
func TestNodePortsOfPartitions(t *testing.T) {
	for text, want := range map[string]int{"28000-28099": 100, "": 0, "x": 0} {
		if got := partition(joinapi.NodePartition{NodePortRange: text}).NodePorts; got.Size != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestDeadCredential: the agent ends when a server says that the credential of the node is
// dead, and not by any other refusal.
func TestDeadCredential(t *testing.T) {
	s, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	life := s.Life()
	if !life.Critical {
		t.Error("the agent goes on without it")
	}
	done := make(chan error, 1)
	go func() { done <- life.Run(t.Context(), func() {}) }()
	for _, refusal := range []error{errors.New("gone"), &serverstream.StatusError{Code: 503, Message: "busy"},
		&serverstream.StatusError{Code: 401, Message: `{"reason":"Unauthorized"}`},
		&serverstream.StatusError{Code: 401, Message: `NodeEnded`}} {
		s.refusedBy(refusal)
	}
	select {
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	default:
	}
	for range 2 {
		s.refusedBy(&serverstream.StatusError{Code: 401, Message: `{"reason":"NodeEnded"}`})
	}
	if err := <-done; !errors.Is(err, errEnded) {
		t.Errorf("it ended with %v", err)
	}
}
