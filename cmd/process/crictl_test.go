package process

import (
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

// TestEndpointOfCrictl: the node's, unless somebody names another.
func TestEndpointOfCrictl(t *testing.T) {
	for _, tc := range []struct {
		args, variable string
		other, asks    bool
	}{
		{args: "ps", asks: true},
		{args: "-t 5s exec -it c sh", asks: true},
		{args: "ps", variable: "unix:///x", other: true, asks: true},
		{args: "--runtime-endpoint unix:///x ps", other: true, asks: true},
		{args: "--runtime-endpoint=unix:///x ps", other: true, asks: true},
		{args: "-r unix:///x ps", other: true, asks: true},
		{args: ""},
		{args: "--help"},
		{args: "ps --help"},
		{args: "completion bash"},
		{args: "config --list"},
		{args: "--version"},
	} {
		args := strings.Fields(tc.args)
		if got := otherEndpoint(args, tc.variable); got != tc.other {
			t.Errorf("%q with %q: another endpoint: %v", tc.args, tc.variable, got)
		}
		if got := asksRuntime(args); got != tc.asks {
			t.Errorf("%q: asks the runtime: %v", tc.args, got)
		}
	}
}

// TestCrictlWithoutANode says what is missing before crictl's own attempts.
func TestCrictlWithoutANode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	var p *problem.Precondition
	if err := answers(t.Context(), socket); !errors.As(err, &p) || !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(p.Fix, "a4s agent") {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the test is over
	if err := answers(t.Context(), socket); err != nil {
		t.Errorf("somebody listens: %v", err)
	}
}
