package cas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/replicated"
	"github.com/a4s-io/a4s/tests/databases"
	"github.com/a4s-io/a4s/tests/nstest"
)

// fleet is several servers on one etcd.
type fleet struct {
	t       *testing.T
	there   *databases.Etcd
	etcd    *clientv3.Client
	log     *logrus.Entry
	servers []*server
}

// server is one of a fleet. Its files survive its end.
type server struct {
	f     *fleet
	name  string
	dir   string // of all its files
	group *component.Group
	*Controller
}

func (f *fleet) dial() (*clientv3.Client, error) {
	tls, err := transport.TLSInfo{TrustedCAFile: f.there.CAFile, CertFile: f.there.CertFile,
		KeyFile: f.there.KeyFile}.ClientConfig()
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{Endpoints: []string{f.there.Endpoint}, TLS: tls, Logger: zap.NewNop()})
}

func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, there: databases.StartEtcd(t), log: logrus.NewEntry(logrus.New())}
	var err error
	if f.etcd, err = f.dial(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.etcd.Close() })
	for _, name := range names {
		f.join(name).start()
	}
	return f
}

// join makes a server with what the first one shares.
func (f *fleet) join(name string) *server {
	f.t.Helper()
	s := &server{f: f, name: name, dir: f.t.TempDir()}
	if len(f.servers) > 0 {
		files, err := pki.ReadShared(f.servers[0].tls())
		if err == nil {
			err = pki.InstallShared(s.tls(), files)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	f.servers = append(f.servers, s)
	f.t.Cleanup(s.stop)
	return s
}

func (s *server) tls() string  { return filepath.Join(s.dir, "tls") }
func (s *server) next() string { return filepath.Join(s.dir, "next") }

func (f *fleet) members() []replicated.Member {
	var out []replicated.Member
	for _, s := range f.servers {
		out = append(out, replicated.Member{ID: "id-" + s.name, Name: s.name})
	}
	return out
}

func (s *server) start() {
	t := s.f.t
	t.Helper()
	err := TakeOver(s.tls(), s.next(), filepath.Join(t.TempDir(), "backup"), s.f.log)
	if err == nil {
		_, err = pki.Ensure(s.tls(), pki.Options{})
	}
	if err == nil {
		s.Controller, err = New(Options{
			Dir: s.tls(), Path: s.next(),
			Cluster: &replicated.Cluster{
				Name: s.name, Several: true, Members: s.f.members,
				Secret: func() ([]byte, error) { return os.ReadFile(filepath.Join(s.tls(), "service.key")) },
			},
			Reach: func(_ context.Context, m replicated.Member) error {
				i := slices.IndexFunc(s.f.servers, func(o *server) bool { return o.name == m.Name })
				if s.f.servers[i].group == nil {
					return errors.New("it is down")
				}
				return nil
			},
			Store: func() (replicated.Store, error) { return s.f.dial() },
			Log:   s.f.log,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.group = component.NewGroup(s.f.log)
	s.group.Start(context.Background(), s.Component())
	s.until("has reported to the others", func() bool {
		members, err := s.document.MemberReports(t.Context(), s.f.etcd)
		i := slices.IndexFunc(members, func(m replicated.MemberReport[report]) bool { return m.ID == "id-"+s.name })
		if err != nil || i < 0 || members[i].Report == nil {
			return false
		}
		r := members[i].Report
		return r.Running == s.running && (r.Next != "") == s.Waiting()
	})
}

func (s *server) stop() {
	if s.group == nil {
		return
	}
	if err := s.group.Stop(); err != nil {
		s.f.t.Error(err)
	}
	s.group = nil
}

func (s *server) restart() { s.f.t.Helper(); s.stop(); s.start() }

func (s *server) until(what string, ok func() bool) {
	s.f.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.f.t.Fatalf("not within a minute: %s %s", s.name, what)
		}
	}
}

func (s *server) replace(req joinapi.CAsRequest) *joinapi.CAsResponse {
	s.f.t.Helper()
	resp, _, err := s.Replace(s.f.t.Context(), req)
	if err != nil {
		s.f.t.Fatal(err)
	}
	return resp
}

func (s *server) refuses(says string, req joinapi.CAsRequest) {
	s.f.t.Helper()
	_, _, err := s.Replace(s.f.t.Context(), req)
	var pre *problem.Precondition
	if !errors.As(err, &pre) || !strings.Contains(err.Error(), says) {
		s.f.t.Errorf("server %s: %v, want a refusal that says %q", s.name, err, says)
	}
}

// same fails unless all servers have the same CAs, and returns how many
// certificates the bundle of the members has.
func (f *fleet) same() int {
	f.t.Helper()
	seen := map[string]bool{}
	n := 0
	for _, s := range f.servers {
		files, err := pki.ReadCAs(s.tls())
		if err != nil {
			f.t.Fatal(err)
		}
		seen[pki.HashCAs(files)] = true
		n = strings.Count(string(files["etcd/peer-ca.crt"]), "BEGIN")
	}
	if len(seen) != 1 {
		f.t.Errorf("%d servers have %d different sets of CAs", len(f.servers), len(seen))
	}
	return n
}

func TestServersTakeNewCAs(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, "one", "two")
	one, two := f.servers[0], f.servers[1]
	begin, finish := joinapi.CAsRequest{}, joinapi.CAsRequest{Finish: true}

	two.stop()
	one.refuses("two does not answer", begin)
	if _, err := f.etcd.Delete(t.Context(), reportsPrefix+"id-two"); err != nil {
		t.Fatal(err)
	}
	two.group = component.NewGroup(f.log) // a version that reports nothing
	one.refuses("two does not say which CAs", begin)
	two.restart()
	one.refuses("none was replaced", finish)
	if r, _, err := one.document.Load(t.Context(), f.etcd); !errors.Is(err, replicated.ErrNone) {
		t.Fatalf("after refusals the datastore has %+v, %v", r, err)
	}

	resp := two.replace(begin)
	if len(resp.Replaced) != 5 || fmt.Sprint(resp.Servers) != "[one two]" || len(resp.Missing) > 0 ||
		!one.Waiting() || !two.Waiting() {
		t.Errorf("%+v", resp)
	}
	value, err := f.etcd.Get(t.Context(), recordKey)
	if err != nil || strings.Contains(string(value.Kvs[0].Value), "PRIVATE") {
		t.Errorf("the datastore has keys in clear: %v", err)
	}
	if n := f.same(); n != 1 {
		t.Errorf("a running server has %d certificates of members already", n)
	}
	one.refuses("wait for the restart of one, two", begin)
	one.refuses("wait for the restart of one, two", finish)

	// It was interrupted between the two things that a start does.
	file, err := os.ReadFile(one.next())
	if err != nil {
		t.Fatal(err)
	}
	one.restart()
	one.stop()
	if err := os.WriteFile(one.next(), file, 0o600); err != nil {
		t.Fatal(err)
	}
	one.start()
	if one.Waiting() {
		t.Error("it waits for what it has")
	}
	one.refuses("two has the CAs of this server, but was not restarted since", finish)
	// One that loses what it fetched, or finds it damaged, fetches it again.
	two.stop()
	if err := os.WriteFile(two.next(), file[:len(file)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	two.start()
	if !two.Waiting() {
		t.Error("it has not fetched the new CAs again")
	}
	// Another server joins, and has to follow to the end.
	three := f.join("three")
	three.start()
	two.restart()
	if n := f.same(); n != 3 {
		t.Errorf("there are %d certificates of members, want the new one, the same by the old one, and the old one", n)
	}
	for _, s := range f.servers {
		former, err := pki.Former(pki.FilesIn(s.tls()).FormerCAs)
		if err != nil || len(former) != 1 {
			t.Errorf("server %s knows the former hashes %v, %v", s.name, former, err)
		}
	}
	three.replace(finish)
	for _, s := range f.servers {
		s.restart()
	}
	if n := f.same(); n != 1 {
		t.Errorf("there are %d certificates of members at the end", n)
	}
	one.refuses("none was replaced", finish)

	// Whoever replaces CAs by hand is not brought back.
	three.stop()
	f.servers = f.servers[:2]
	two.stop()
	f.servers = f.servers[:1]
	one.stop()
	if _, err := pki.Rotate(one.tls(), pki.RotateOptions{Backup: filepath.Join(t.TempDir(), "backup")}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(one.next(), file, 0o600); err != nil {
		t.Fatal(err)
	}
	one.start()
	if one.Waiting() || f.same() != 3 {
		t.Error("the datastore has undone a replacement")
	}
	one.replace(finish)
	one.restart()
	if n := f.same(); n != 1 {
		t.Errorf("there are %d certificates of members after another end", n)
	}
}

// Two servers that replace CAs at the same time must not both succeed.
func TestOneReplacementAtATime(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, "one", "two")
	errs := make(chan error)
	for _, s := range f.servers {
		go func() {
			_, _, err := s.Replace(t.Context(), joinapi.CAsRequest{})
			errs <- err
		}()
	}
	failed := 0
	for range f.servers {
		var pre *problem.Precondition
		if err := <-errs; errors.As(err, &pre) {
			failed++
		} else if err != nil {
			t.Error(err)
		}
	}
	if failed != 1 {
		t.Errorf("%d of two were refused", failed)
	}
	for _, s := range f.servers {
		s.restart()
	}
	if n := f.same(); n != 3 {
		t.Errorf("there are %d certificates of members", n)
	}
}
