package preflight

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestFileWatches(t *testing.T) {
	if err := FileWatches(1); err != nil {
		t.Errorf("one: %v", err)
	}
	left := 2
	err := fileWatches(3, func() (int, error) {
		if left == 0 {
			return 0, unix.EMFILE
		}
		left--
		return unix.InotifyInit1(unix.IN_CLOEXEC)
	})
	var p *problem.Precondition
	if !errors.As(err, &p) || !errors.Is(err, unix.EMFILE) || !strings.Contains(p.Fix, "max_user_instances") {
		t.Errorf("with none left: %v", err)
	}
}
