package loadbalancer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientfake "k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
)

// two starts two servers and a load balancer that learned of both, with a
// connection; it returns the server of the connection first.
func two(t *testing.T) (c *cluster, b *Balancer, s *stream, used, other *fake) {
	t.Helper()
	c = newCluster(t)
	used, other = c.start("a"), c.start("b")
	b = c.balancer(Options{Configured: []string{"https://" + used.address}})
	b.Learn([]string{used.address, other.address})
	b.is(t, used.address, Ready)
	b.is(t, other.address, Ready)
	s = c.stream(b)
	if s.server == other.name {
		used, other = other, used
	}
	return c, b, s, used, other
}

// TestAServerThatIsGone: whatever is wrong with a server, its connections end,
// others take over, and it is used again when it is back.
func TestAServerThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		fail   func(*fake)
		health Health
		mend   func(*cluster, *fake)
	}{
		"it was killed": {(*fake).kill, Dead, func(c *cluster, f *fake) { c.startAt(f.name, f.address) }},
		"it hangs":      {(*fake).hang, Dead, func(_ *cluster, f *fake) { f.recover() }},
		"it is not ready": {func(f *fake) { f.status.Store(500) }, NotReady,
			func(_ *cluster, f *fake) { f.status.Store(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			c, b, s, used, other := two(t)
			tc.fail(used)
			s.wait(t)
			b.is(t, used.address, tc.health)
			for range 3 {
				if got, err := c.ask(b); err != nil || got != other.name {
					t.Errorf("%q answers, %v; want %s", got, err, other.name)
				}
			}
			tc.mend(c, used)
			until(t, "the server is used again", func() error {
				// It has fewer connections than the other one.
				c.stream(b)
				for _, state := range b.Servers() {
					if state.Address == used.address && state.Connections > 0 {
						return nil
					}
				}
				return errors.New("the other one is")
			})
		})
	}
}

// TestNewConnectionsDoNotWaitForAProbe: who connects meanwhile meets a server
// that answers, although nobody noticed yet that one is gone.
func TestNewConnectionsDoNotWaitForAProbe(t *testing.T) {
	c := newCluster(t)
	gone, other := c.start("a"), c.start("b")
	slow := quick()
	slow.used, slow.idle, slow.again = time.Hour, time.Hour, time.Hour
	b := c.balancer(Options{Configured: []string{"https://" + gone.address, "https://" + other.address}, timing: slow})
	b.is(t, gone.address, Ready)
	b.is(t, other.address, Ready)
	gone.kill()
	for range 4 {
		if got, err := c.ask(b); err != nil || got != other.name {
			t.Errorf("%q answers, %v; want %s", got, err, other.name)
		}
	}
}

// TestTheOnlyServer keeps its connections: there is nothing better.
func TestTheOnlyServer(t *testing.T) {
	c := newCluster(t)
	f := c.start("a")
	b := c.balancer(Options{Configured: []string{"https://" + f.address}})
	b.is(t, f.address, Ready)
	s := c.stream(b)
	f.status.Store(500)
	b.is(t, f.address, NotReady)
	if got, err := c.ask(b); err != nil || got != f.name {
		t.Errorf("%q answers, %v", got, err)
	}
	f.status.Store(0)
	b.is(t, f.address, Ready)
	if !s.alive() {
		t.Error("its connection was ended")
	}
	f.kill()
	s.wait(t)
	if got, err := c.ask(b); err == nil {
		t.Errorf("%q answers", got)
	}
	b.is(t, f.address, Dead)
	c.startAt("back", f.address)
	b.is(t, f.address, Ready)
	if got, err := c.ask(b); err != nil || got != "back" {
		t.Errorf("%q answers, %v", got, err)
	}
}

// TestTheList: connections end with the server's place on the list, and what is
// learned outlives the process and the server that the node learned of.
func TestTheList(t *testing.T) {
	c, b, s, used, other := two(t)
	b.Learn(nil) // from a server that takes its leave
	b.Learn([]string{other.address})
	s.wait(t)
	if got, err := c.ask(b); err != nil || got != other.name {
		t.Errorf("%q answers, %v", got, err)
	}
	used.kill()

	dir := t.TempDir()
	first := c.balancer(Options{Dir: dir, Configured: []string{"https://" + used.address}})
	first.Learn([]string{other.address, used.address})
	st, err := os.Stat(filepath.Join(dir, FileName))
	if err != nil || st.Mode() != 0o600 {
		t.Fatalf("the list: %v, %v", st, err)
	}
	next := c.balancer(Options{Dir: dir, Configured: []string{"https://" + used.address}})
	if got := next.Candidates(t.Context()); !slices.Equal(got,
		[]string{"https://" + other.address, "https://" + used.address}) {
		t.Errorf("it would join by %q", got)
	}
	if got, err := c.ask(next); err != nil || got != other.name {
		t.Errorf("%q answers, %v", got, err)
	}
	if got := Recall(dir, next.URL()); !slices.Equal(got,
		[]string{"https://" + used.address, "https://" + other.address}) {
		t.Errorf("it remembers %q", got)
	}
	if got := Recall(dir, "https://192.0.2.1:6443"); got != nil {
		t.Errorf("it takes another server for the load balancer: %q", got)
	}

	// Told of other servers, it may be of another cluster.
	moved := c.idle(Options{Dir: dir, Configured: []string{"https://192.0.2.1:6443"}})
	if got := moved.Servers(); len(got) != 1 || got[0].Address != "192.0.2.1:6443" {
		t.Errorf("it knows %+v", got)
	}
	if Recall(dir, next.URL()) == nil {
		t.Error("what was known is gone before another cluster has answered")
	}
}

func TestADamagedList(t *testing.T) {
	c := newCluster(t)
	f := c.start("a")
	for name, content := range map[string]string{
		"empty": "", "cut off": `{"listen": "127.0`, "no address": `{"learned": ["x"]}`,
		"a name": `{"learned": ["host:6443"]}`, "port": `{"learned": ["127.0.0.1:0"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), quiet()
			hook := logtest.NewLocal(log.Logger)
			if err := os.WriteFile(filepath.Join(dir, FileName), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			b := c.balancer(Options{Dir: dir, Configured: []string{"https://" + f.address}, Log: log})
			if !warned(hook, "cannot be read") {
				t.Error("nobody was warned")
			}
			if got, err := c.ask(b); err != nil || got != f.name {
				t.Errorf("%q answers, %v", got, err)
			}
			b.Learn([]string{f.address})
			if k, err := read(dir); err != nil || !slices.Equal(k.Learned, []string{f.address}) {
				t.Errorf("the list is %+v, %v", k, err)
			}
		})
	}
}

// TestAForeignServer is not ready, however well it answers.
func TestAForeignServer(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	f, foreign := c.start("a"), other.start("foreign")
	b := c.balancer(Options{Configured: []string{"https://" + foreign.address, "https://" + f.address}})
	b.is(t, foreign.address, Dead)
	b.is(t, f.address, Ready)
	if foreign.cert.Load() {
		t.Error("it saw the certificate of the node")
	}
	if !f.cert.Load() {
		t.Error("the node does not ask as itself")
	}
	if got, err := c.ask(b); err != nil || got != f.name {
		t.Errorf("%q answers, %v", got, err)
	}
}

// TestBeforeTheJoin a server that answers counts as one, and once there is a
// credential only one of the cluster does.
func TestBeforeTheJoin(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	f := other.start("a")
	files := pki.NodeFilesIn(t.TempDir())
	b := c.balancer(Options{Configured: []string{"https://" + f.address}, Files: files})
	b.is(t, f.address, Ready)
	if f.cert.Load() {
		t.Error("it saw a certificate")
	}
	for from, to := range map[string]string{c.files.ServerCA: files.ServerCA, c.files.Client.Key: files.Client.Key,
		c.files.Client.Cert: files.Client.Cert} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.is(t, f.address, Dead)
}

// TestFallback: what the cluster names goes before what the node was told, as
// long as it answers.
func TestFallback(t *testing.T) {
	c := newCluster(t)
	told, named := c.start("told"), c.start("named")
	b := c.balancer(Options{Configured: []string{"https://" + told.address}})
	b.Learn([]string{named.address})
	b.is(t, told.address, Ready)
	b.is(t, named.address, Ready)
	for range 4 {
		if s := c.stream(b); s.server != "named" {
			t.Errorf("%s answers", s.server)
		}
	}
	named.kill()
	b.is(t, named.address, Dead)
	if got, err := c.ask(b); err != nil || got != "told" {
		t.Errorf("%q answers, %v", got, err)
	}
}

// TestNames: a name stands for all of its addresses, and follows them.
func TestNames(t *testing.T) {
	c := newCluster(t)
	a := c.start("a")
	_, port, err := net.SplitHostPort(a.address)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan []string, 1)
	answers <- []string{"127.0.0.2", "127.0.0.3"}
	b := c.balancer(Options{
		Configured: []string{"https://servers.example:" + port},
		lookup: func(_ context.Context, host string) ([]string, error) {
			if host != "servers.example" {
				t.Errorf("it asks for %q", host)
			}
			select {
			case found := <-answers:
				return found, nil
			default:
				return nil, errors.New("the name server is away")
			}
		},
	})
	known := func(want ...string) {
		t.Helper()
		until(t, fmt.Sprintf("the servers are %q", want), func() error {
			var got []string
			for _, s := range b.Servers() {
				got = append(got, strings.TrimSuffix(s.Address, ":"+port))
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("they are %q", got)
			}
			return nil
		})
	}
	known("127.0.0.2", "127.0.0.3")
	answers <- []string{"127.0.0.1"}
	known("127.0.0.1")
	b.is(t, a.address, Ready)
	if got := b.Candidates(t.Context()); !slices.Equal(got, []string{"https://servers.example:" + port}) {
		t.Errorf("it would join by %q", got)
	}
}

// TestItself is no server, although a name may stand for it.
func TestItself(t *testing.T) {
	c := newCluster(t)
	b := c.idle(Options{Listen: "127.0.0.1:6444", Configured: []string{"https://127.0.0.1:6444"}})
	if got := b.Servers(); len(got) != 0 {
		t.Errorf("it knows %+v", got)
	}
}

// TestProxy: servers are reached by the proxy that clients would use.
func TestProxy(t *testing.T) {
	c := newCluster(t)
	f := c.start("a")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "192.0.2.1:6443" || r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		server, err := net.Dial("tcp", f.address)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		}
		if err != nil {
			t.Error(err)
			return
		}
		(&link{client: &buffered{conn, rw.Reader}, server: server}).pump(time.Second)
	})}
	go proxy.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { proxy.Close() })
	via := &url.URL{Scheme: "http", Host: listener.Addr().String(), User: url.UserPassword("u", "p")}
	b := c.balancer(Options{Configured: []string{"https://192.0.2.1:6443"},
		proxy: func(u *url.URL) (*url.URL, error) { return via, nil }})
	b.is(t, "192.0.2.1:6443", Ready)
	if got, err := c.ask(b); err != nil || got != f.name {
		t.Errorf("%q answers, %v", got, err)
	}
}

// buffered is a connection of which some bytes were read already.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

func slice(name string, port int32, ready bool, ips ...string) *discoveryv1.EndpointSlice {
	https := "https"
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Ports: []discoveryv1.EndpointPort{{Name: &https, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: ips,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

// TestFollow: what the cluster says becomes the list, and its end does not.
func TestFollow(t *testing.T) {
	c := newCluster(t)
	b := c.balancer(Options{Configured: []string{"https://192.0.2.1:6443"}})
	other := slice("other", 6443, true, "192.0.2.99")
	other.Labels[discoveryv1.LabelServiceName] = "else"
	client := clientfake.NewClientset(slice("kubernetes", 6443, true, "192.0.2.1", "192.0.2.2"),
		slice("two", 7443, false, "192.0.2.3"), other)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- b.Follow(client).Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-ready:
	case <-time.After(patience):
		t.Fatal("it is never ready")
	}
	learned := func(want ...string) {
		t.Helper()
		until(t, fmt.Sprintf("it knows %q", want), func() error {
			var got []string
			for _, s := range b.Servers() {
				if s.Learned {
					got = append(got, s.Address)
				}
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("it knows %q", got)
			}
			return nil
		})
	}
	learned("192.0.2.1:6443", "192.0.2.2:6443")
	slices := client.DiscoveryV1().EndpointSlices("default")
	if _, err := slices.Update(ctx, slice("two", 7443, true, "192.0.2.3"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	learned("192.0.2.1:6443", "192.0.2.2:6443", "192.0.2.3:7443")
	if err := slices.Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	learned("192.0.2.3:7443")
	if err := slices.Delete(ctx, "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := slices.Create(ctx, slice("kubernetes", 6443, true, "192.0.2.4"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	learned("192.0.2.4:6443")
}

// TestGroups: the slices of service groups say of which the servers are, and Group names
// those that are ready.
func TestGroups(t *testing.T) {
	c := newCluster(t)
	a, other := c.start("a"), c.start("b")
	b := c.balancer(Options{Configured: []string{"https://" + a.address}})
	if got := b.Group("0"); got != nil {
		t.Errorf("it knows %q before the cluster has said anything", got)
	}
	of := func(group string, servers ...*fake) *discoveryv1.EndpointSlice {
		s := slice("kubernetes-"+group, 0, true)
		s.Labels["a4s.io/service-group"] = group
		if group == "" {
			s.Name = "kubernetes"
			delete(s.Labels, "a4s.io/service-group")
		}
		for _, f := range servers {
			host, port, err := net.SplitHostPort(f.address)
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(port)
			if err != nil {
				t.Fatal(err)
			}
			*s.Ports[0].Port = int32(n) // all of one slice have it
			s.Endpoints[0].Addresses = append(s.Endpoints[0].Addresses, host)
		}
		return s
	}
	zero, one := of("0", a), of("1", other)
	client := clientfake.NewClientset(of("", a))
	kept := client.DiscoveryV1().EndpointSlices("default")
	ctx, cancel := context.WithCancel(t.Context())
	done, ready := make(chan error, 2), make(chan struct{}, 2)
	beside := NewOthers("0")
	for _, c := range []component.Component{b.Follow(client), beside.Follow(client)} {
		go func() { done <- c.Run(ctx, func() { ready <- struct{}{} }) }()
	}
	t.Cleanup(func() { cancel(); <-done; <-done })
	for range 2 {
		select {
		case <-ready:
		case <-time.After(patience):
			t.Fatal("it is never ready")
		}
	}
	select {
	case <-b.Grouped():
		t.Error("it knows of groups that there are not")
	default:
	}
	for _, s := range []*discoveryv1.EndpointSlice{zero, one} {
		if _, err := kept.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-b.Grouped():
	case <-time.After(patience):
		t.Error("it does not hear of the groups")
	}
	until(t, "the node of a server of group 0 knows group 1 only", func() error {
		own, of1 := beside.Group("0"), beside.Group("1")
		if own != nil || !slices.Equal(of1, []string{other.address}) {
			return fmt.Errorf("it has %q and %q", own, of1)
		}
		return nil
	})
	has := func(group string, want ...*fake) {
		t.Helper()
		var addresses []string
		for _, f := range want {
			addresses = append(addresses, f.address)
		}
		until(t, fmt.Sprintf("group %s has %q", group, addresses), func() error {
			if got := b.Group(group); !slices.Equal(got, addresses) {
				return fmt.Errorf("it has %q", got)
			}
			return nil
		})
	}
	has("0", a)
	has("1", other)
	has("2")
	other.status.Store(http.StatusInternalServerError)
	has("1")
	other.status.Store(0)
	has("1", other)
	if err := kept.Delete(ctx, one.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has("1")
	zero.Labels["a4s.io/service-group"] = "1"
	if _, err := kept.Update(ctx, zero, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("0")
	has("1", a)
	until(t, "the node of a server has what there is", func() error {
		if got := beside.Group("1"); !slices.Equal(got, []string{a.address}) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// TestItStartsAgain: with its run end all connections, and the next one serves
// on with what is known.
func TestItStartsAgain(t *testing.T) {
	c := newCluster(t)
	f := c.start("a")
	b := c.idle(Options{Configured: []string{"https://192.0.2.1:6443"}})
	b.Learn([]string{f.address})
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- b.Component().Run(ctx, func() { close(ready) }) }()
		<-ready
		b.is(t, f.address, Ready)
		s := c.stream(b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.wait(t)
		if got, err := c.ask(b); err == nil {
			t.Errorf("%q answers after the end", got)
		}
	}
}
