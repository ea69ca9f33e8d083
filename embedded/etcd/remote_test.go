package etcd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/problem"
)

const relayPatience = 20 * time.Second

// echo is a member that says its name to whoever connects.
type echo struct {
	net.Listener
	url string
}

func newEcho(t *testing.T, name string) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: l, url: "https://" + l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, name)
		}
	}()
	t.Cleanup(func() { l.Close() })
	return e
}

// caller is a client of a relay.
type caller struct {
	net.Conn
	lines *bufio.Reader
}

// relayOf runs a relay.
func relayOf(t *testing.T, urls ...string) (*relay, func() (*caller, string)) {
	t.Helper()
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	r := &relay{log: logrus.NewEntry(quiet)}
	r.replace(urls)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.accept(context.Background(), l)
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		r.end()
	})
	return r, func() (*caller, string) {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(relayPatience)); err != nil {
			t.Fatal(err)
		}
		c := &caller{conn, bufio.NewReader(conn)}
		name, err := c.lines.ReadString('\n')
		if err != nil {
			return c, ""
		}
		return c, name[:len(name)-1]
	}
}

// ended fails unless the other side ends the connection.
func (c *caller) ended(t *testing.T) {
	t.Helper()
	if _, err := c.lines.ReadByte(); !errors.Is(err, io.EOF) && !isReset(err) {
		t.Errorf("the connection did not end: %v", err)
	}
}

func isReset(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

// TestRelay: connections go to a member that answers, and leave one that does not, or
// that is no member any more.
func TestRelay(t *testing.T) {
	a, b := newEcho(t, "a"), newEcho(t, "b")
	dead := newEcho(t, "dead")
	dead.Close()
	r, call := relayOf(t, dead.url, a.url)
	for range 5 {
		if _, name := call(); name != "a" {
			t.Fatalf("%q answers", name)
		}
	}
	r.replace([]string{a.url, b.url})
	r.report(b.url, errors.New("no leader"))
	first, name := call()
	if name != "a" {
		t.Errorf("%q answers while b is in doubt", name)
	}
	r.report(b.url, nil)
	r.report(a.url, errors.New("no leader"))
	r.report(a.url, errors.New("no leader"))
	first.ended(t)
	second, name := call()
	if name != "b" {
		t.Errorf("%q answers in the place of a", name)
	}
	// Nobody is left: what there is stays.
	r.report(b.url, errors.New("no leader"))
	r.report(b.url, errors.New("no leader"))
	r.mu.Lock()
	links := 0
	for _, target := range r.targets {
		links += len(target.links)
	}
	r.mu.Unlock()
	if links != 1 {
		t.Errorf("%d connections are left", links)
	}
	r.report(a.url, nil)
	second.ended(t)
	if third, name := call(); name != "a" {
		t.Errorf("%q answers", name)
	} else {
		r.replace([]string{b.url})
		third.ended(t)
	}
	r.replace([]string{dead.url})
	if _, name := call(); name != "" {
		t.Errorf("%q answers for a member that is gone", name)
	}
}

// TestRemoteRemembers: the members that another server named are known at the next start.
func TestRemoteRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db", "members.json")
	open := func() (*Remote, error) {
		return NewRemote(RemoteOptions{File: path, Log: logrus.NewEntry(logrus.New())})
	}
	r, err := open()
	if err != nil || r.Known() {
		t.Fatalf("%v %+v", err, r)
	}
	if err := r.Learn([]string{"https://127.0.0.1:2379"}); err == nil {
		t.Error("it learns of a member that cannot be reached")
	}
	two := []string{"https://192.0.2.1:2379", "https://192.0.2.2:2379"}
	if err := r.Learn([]string{two[1], "https://127.0.0.1:2379", two[0]}); err != nil {
		t.Fatal(err)
	}
	if r, err = open(); err != nil || !slices.Equal(r.urls(), two) {
		t.Errorf("%v %q", err, r.urls())
	}
	for _, junk := range []string{"{", "{}", `{"members":["http://x"]}`, `{"members":["x"]}`} {
		if err := os.WriteFile(path, []byte(junk), 0o600); err != nil {
			t.Fatal(err)
		}
		var pre *problem.Precondition
		if _, err := open(); !errors.As(err, &pre) {
			t.Errorf("%s: %v", junk, err)
		}
	}
}

// TestRemoteFollows: new members are used and kept, learners are not used, and another
// cluster ends the component.
func TestRemoteFollows(t *testing.T) {
	r, err := NewRemote(RemoteOptions{File: filepath.Join(t.TempDir(), "members.json"),
		Log: logrus.NewEntry(logrus.New())})
	if err != nil {
		t.Fatal(err)
	}
	one := Member{ID: 1, Name: "one", ClientURLs: []string{"https://192.0.2.1:2379"}}
	two := Member{ID: 2, Name: "two", ClientURLs: []string{"https://192.0.2.2:2379"}, Learner: true}
	if err := r.take(view{cluster: 7, members: []Member{one, two}}, Room{Size: 1, Quota: 2}); err != nil {
		t.Fatal(err)
	}
	if got := r.urls(); !slices.Equal(got, one.ClientURLs) || len(r.Members()) != 2 || r.Room().Quota != 2 {
		t.Errorf("%q %v %v", got, r.Members(), r.Room())
	}
	two.Learner = false
	if err := r.take(view{cluster: 7, members: []Member{two}}, Room{}); err != nil {
		t.Fatal(err)
	}
	kept, err := readRemote(r.o.File)
	if err != nil || !slices.Equal(kept.Members, two.ClientURLs) {
		t.Errorf("%v %q", err, kept.Members)
	}
	if err := r.take(view{cluster: 8, members: []Member{two}}, Room{}); !errors.Is(err, errOther) {
		t.Errorf("another cluster: %v", err)
	}
}
