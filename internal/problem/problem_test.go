package problem

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestErrorsNameSourceValueAndRemedy(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&Input{Source: "--node-ip", Value: "x", Want: "an IP address"},
			`--node-ip: invalid value "x": want an IP address`},
		{&Input{Source: "/etc/a4s/config.yaml", Err: fs.ErrPermission, Want: "a file that root can read"},
			`/etc/a4s/config.yaml: permission denied: want a file that root can read`},
		{&Precondition{What: "port 6443/tcp", Err: errors.New("in use"),
			Fix: "stop its owner or set --https-listen-port"},
			`port 6443/tcp: in use: stop its owner or set --https-listen-port`},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("Error() = %q, want %q", got, tc.want)
		}
	}
}

func TestExitCode(t *testing.T) {
	wrapped := fmt.Errorf("starting: %w", &Precondition{What: "disk", Err: fs.ErrNotExist})
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("any"), ExitBadInput},
		{&Input{Source: "--x"}, ExitBadInput},
		{wrapped, ExitPrecondition},
		{errors.Join(errors.New("a"), wrapped), ExitPrecondition},
	} {
		if got := ExitCode(tc.err); got != tc.want {
			t.Errorf("ExitCode(%v) = %d, want %d", tc.err, got, tc.want)
		}
	}
	if !errors.Is(wrapped, fs.ErrNotExist) {
		t.Error("the cause of a Precondition is not reachable by errors.Is")
	}
}
