package netdump

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestInterruptedDumpIsReadAgain(t *testing.T) {
	calls := 0
	got, err := Complete(func() ([]int, error) {
		calls++
		if calls < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || !slices.Equal(got, []int{1, 2}) || calls != 3 {
		t.Errorf("Complete = %v, %v after %d calls", got, err, calls)
	}
}

func TestOtherErrorsAndEndlessChangeAreReturned(t *testing.T) {
	boom := errors.New("boom")
	if _, err := Complete(func() ([]int, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("Complete = %v, want %v", err, boom)
	}
	got, err := Complete(func() ([]int, error) { return []int{1}, netlink.ErrDumpInterrupted })
	if !errors.Is(err, netlink.ErrDumpInterrupted) || got != nil {
		t.Errorf("Complete = %v, %v, want an error and no partial list", got, err)
	}
}
