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
