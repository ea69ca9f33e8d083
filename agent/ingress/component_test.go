package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// TestMain is the child where the tests are called as such, as main does.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != Command {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := Main(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// free returns an address that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	defer l.Close() //nolint:errcheck // it is closed below in any case
	return l.Addr().String()
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // it may be closed
	return l
}

// node runs a Node whose child is this test.
type node struct {
	*Node
	t *testing.T
	*component.Group
}

func newNode(t *testing.T) *node {
	log := logrus.New()
	log.SetOutput(t.Output())
	entry := logrus.NewEntry(log)
	n := &node{t: t, Node: New(Options{RunDir: t.TempDir(), HTTP: free(t), HTTPS: free(t), Output: io.Discard,
		Log: entry}), Group: component.NewGroup(entry)}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// serving has requests for a host go to a pod that answers with its name.
func (n *node) serving(name string) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, name) // the client sees it
	}))
	n.t.Cleanup(pod.Close)
	b := backend("default.t1/"+name+":80", joinapi.ProtocolHTTP)
	b.Backend.Tenant = "t1"
	b.Backend.Endpoints = []netip.AddrPort{netip.MustParseAddrPort(pod.Listener.Addr().String())}
	h := host(name, "t1")
	h.Host.Paths[0].Backend = b.Backend.ID
	n.told.set("", linesOf(h, b))
}

// get asks for a host, with a connection of its own.
func (n *node) get(name string) (string, error) {
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.HTTP, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Host = name
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(text)), err
}

func (n *node) await(what string, holds func() bool) {
	n.t.Helper()
	for late := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			n.t.Fatalf("timed out until %s; components are %+v", what, n.States())
		}
	}
}

func (n *node) awaitServed(name string) {
	n.t.Helper()
	n.await(name+" is served", func() bool {
		got, err := n.get(name)
		return err == nil && got == "200 "+name
	})
}

// child is the process of the child, 0 for none.
func (n *node) child() int {
	text, err := os.ReadFile(PIDFile(n.RunDir))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		n.t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.Fields(string(text))[0])
	return pid
}

func TestWithoutAHostThePortsAreFree(t *testing.T) {
	n := newNode(t)
	n.told.set("", linesOf(backend("b", "")))
	if err := n.StartAndWait(t.Context(), n.Component()); err != nil {
		t.Fatal(err)
	}
	l := listen(t, n.HTTP)
	listen(t, n.HTTPS).Close() //nolint:errcheck // it was free
	if n.child() != 0 {
		t.Error("there is a child")
	}
	// The port is another's now: that is said, and tried again.
	n.serving("a.x")
	n.await("the error names the port", func() bool {
		err := n.States()[0].LastError
		return strings.Contains(err, n.HTTP) && strings.Contains(err, "in use") &&
			strings.Contains(err, "exclude-from")
	})
	if n.child() != 0 {
		t.Error("there is a child")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n.awaitServed("a.x")
}

func TestTheChildServes(t *testing.T) {
	n := newNode(t)
	n.serving("a.x")
	n.Start(t.Context(), n.Component())
	n.awaitServed("a.x")
	if got, err := n.get("b.x"); err != nil || !strings.HasPrefix(got, "404 ") {
		t.Errorf("for a host that nobody has: %q, %v", got, err)
	}
	n.serving("b.x")
	n.awaitServed("b.x")
	first := n.child()
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", first))
	if err != nil || strings.TrimSpace(string(score)) != outOfMemory {
		t.Errorf("its score is %q, %v", score, err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.await("there is another child", func() bool { return n.child() != first })
	n.awaitServed("b.x")
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(n.child(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child has survived: %v", err)
	}
	listen(t, n.HTTP)
	listen(t, n.HTTPS)
}

// The ports stay this process' while a child is replaced that was no failure from the start.
func TestClientsWaitForTheNextChild(t *testing.T) {
	n := newNode(t)
	n.settles = 0
	n.serving("a.x")
	n.Start(t.Context(), n.Component())
	n.awaitServed("a.x")
	for range 3 {
		pid := n.child()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n.await("it is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
		if got, err := n.get("a.x"); err != nil || got != "200 a.x" {
			t.Errorf("the next one answers %q, %v", got, err)
		}
	}
	if s := n.States()[0]; s.Restarts != 0 {
		t.Errorf("the component was started again: %+v", s)
	}
}

func TestTheChildIsNobodys(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	n := newNode(t)
	n.serving("a.x")
	n.Start(t.Context(), n.Component())
	n.awaitServed("a.x")
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.child()))
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{"Uid:": "65534 65534 65534 65534", "Gid:": "65534 65534 65534 65534",
		"Groups:": "", "CapEff:": "0000000000000000", "CapPrm:": "0000000000000000"} {
		_, rest, _ := strings.Cut(string(text), "\n"+line)
		rest, _, _ = strings.Cut(rest, "\n")
		if got := strings.Join(strings.Fields(rest), " "); got != want {
			t.Errorf("%s %s, want %s", line, got, want)
		}
	}
}

// Who calls it by hand has no listeners for it.
func TestTheChildAloneIsRefused(t *testing.T) {
	var said strings.Builder
	attr := &os.ProcAttr{Files: []*os.File{nil, nil, nil}}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	attr.Files[2] = w
	p, err := os.StartProcess("/proc/self/exe", []string{Command}, attr)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&said, r); err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait()
	if err != nil || state.ExitCode() != 1 || !strings.Contains(said.String(), Command+" runs as a child of") {
		t.Errorf("it ended with %v, %v: %s", state, err, said.String())
	}
}
