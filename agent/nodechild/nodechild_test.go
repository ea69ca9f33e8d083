package nodechild

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/host/nodeaddr"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func TestHandover(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	setup := Setup{
		Config: config.Agent{Common: config.Common{DataDir: "/data", Verbosity: 2}, NodeName: "n1",
			KubeletArgs: []string{"v=4"}},
		Addr: nodeaddr.Choice{IPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Iface: "eth0"},
	}
	server := make(chan Server, 1)
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(send(out, setup, server, nil), out.Close()) }()
	h, err := Receive(in)
	if err != nil {
		t.Fatal(err)
	}
	if c := h.Setup.Config; c.DataDir != "/data" || c.Verbosity != 2 || c.NodeName != "n1" ||
		len(c.KubeletArgs) != 1 || h.Setup.Addr.IPs[0] != setup.Addr.IPs[0] || h.Setup.Addr.Iface != "eth0" {
		t.Errorf("the node gets %+v", h.Setup)
	}
	server <- Server{URL: "https://127.0.0.1:6443", Token: "secret"}
	if s, err := h.Server(t.Context()); err != nil || s.URL != "https://127.0.0.1:6443" || s.Token != "secret" {
		t.Errorf("the server is %+v, %v", s, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, err := h.Server(t.Context()); !errors.Is(err, errNoServer) {
		t.Errorf("after the end of the server: %v", err)
	}
}

// A node that waits for its server ends when it is told to.
func TestWaitingForTheServerEndsWithItsContext(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	go func() { _ = send(out, Setup{}, nil, t.Context().Done()) }()
	h, err := Receive(in)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Server(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
}

func TestWords(t *testing.T) {
	for _, tc := range []struct {
		name, said, passed, last string
		own                      bool
	}{
		{"nothing", "one\ntwo\nhalf", "one\ntwo\n", "", false},
		{"a panic", "one\npanic: boom\n\ngoroutine 1 [running]:\npanic: again\n",
			"one\npanic: boom\n\ngoroutine 1 [running]:\npanic: again\n", "panic: boom", false},
		{"a signal", "SIGSEGV: segmentation violation\nPC=0x1\n", "SIGSEGV: segmentation violation\nPC=0x1\n",
			"SIGSEGV: segmentation violation", false},
		{"a part that ends the process", `level=info msg=x` + "\n" + `time="t" level=error msg="Failed to start" ` +
			`error="no \"state\""` + "\n", `level=info msg=x` + "\n" + `time="t" level=error msg="Failed to start" ` +
			`error="no \"state\""` + "\n", `Failed to start: no "state"`, false},
		{"it gave up", "one\na4s: disk full\n", "one\n", "disk full", true},
	} {
		var out bytes.Buffer
		w := &words{out: &out}
		for _, b := range []byte(tc.said) { // in the smallest parts
			if n, err := w.Write([]byte{b}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if out.String() != tc.passed || w.last() != tc.last || w.byItself() != tc.own {
			t.Errorf("%s: %q was passed on, the end is %q (%v)", tc.name, out.String(), w.last(), w.byItself())
		}
	}
	var out bytes.Buffer
	w := &words{out: &out}
	if _, err := w.Write(bytes.Repeat([]byte("x"), maxLine+10)); err != nil || out.Len() <= maxLine {
		t.Errorf("of a line without an end, %d bytes were passed on: %v", out.Len(), err)
	}
}

// A node that gives up while it starts ends the start of the server, with its own
// exit code; one that a signal ends is started again.
func TestStartThatFails(t *testing.T) {
	for _, tc := range []struct {
		script string
		code   int
	}{
		{"echo 'a4s: no space' >&2; exit 2", problem.ExitPrecondition},
		{"echo 'a4s: no space' >&2; exit 1", problem.ExitBadInput},
	} {
		n := New(Options{Log: logrus.WithField("component", Name)})
		said := &words{out: &bytes.Buffer{}}
		cmd := exec.Command("sh", "-c", tc.script)
		cmd.Stderr = said
		n.ended(cmd.Run(), said, false)
		err := n.Wait(t.Context(), started(t))
		if problem.ExitCode(err) != tc.code || !strings.HasPrefix(err.Error(), "no space") {
			t.Errorf("%s: %v with exit code %d", tc.script, err, problem.ExitCode(err))
		}
	}
	n := New(Options{Log: logrus.WithField("component", Name)})
	for _, tc := range []struct {
		script string
		ready  bool
	}{
		{"echo 'panic: boom' >&2; exit 2", false},
		{"echo 'a4s: lost' >&2; exit 1", true},
	} {
		said := &words{out: &bytes.Buffer{}}
		cmd := exec.Command("sh", "-c", tc.script)
		cmd.Stderr = said
		if err := n.ended(cmd.Run(), said, tc.ready); err == nil || !strings.HasSuffix(err.Error(), said.last()) {
			t.Errorf("%s: %v", tc.script, err)
		}
		if len(n.first) != 0 {
			t.Errorf("%s ends the start", tc.script)
		}
	}
}

// started is a group whose node starts for ever.
func started(t *testing.T) *component.Group {
	t.Helper()
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	group.Start(t.Context(),
		component.Component{Name: Name, Run: func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }})
	t.Cleanup(func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	})
	return group
}
