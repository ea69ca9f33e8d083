// Package netdump reads complete lists from the kernel's netlink.
//
// Invariants: a list that changed while the kernel dumped it is read again,
// never used as it is; a list that never stands still is an error.
//
// agent and internal packages may import it. It imports netlink only.
package netdump

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// tries is how often a dump is repeated. Each takes well under a millisecond.
const tries = 50

// Complete returns the result of list once the kernel was not interrupted.
func Complete[T any](list func() ([]T, error)) ([]T, error) {
	var out []T
	var err error
	for range tries {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return nil, fmt.Errorf("%d times: %w", tries, err)
}
