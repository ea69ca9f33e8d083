//go:build linux

package machine

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDiskThatCannotBeOpenedYet(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []error
		want    error
	}{
		"at once":     {[]error{nil}, nil},
		"soon":        {[]error{unix.ENXIO, fmt.Errorf("mounting: %w", unix.ENXIO), nil}, nil},
		"not a disk":  {[]error{unix.EINVAL}, unix.EINVAL},
		"soon, wrong": {[]error{unix.ENXIO, unix.EINVAL}, unix.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := whenOpen(t.Context(), func() error { calls++; return tc.answers[calls-1] })
			if err != tc.want || calls != len(tc.answers) {
				t.Errorf("%v after %d calls", err, calls)
			}
		})
	}
}
