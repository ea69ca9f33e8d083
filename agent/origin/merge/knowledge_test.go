package merge

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// TestKnowledge is every transition from every state.
func TestKnowledge(t *testing.T) {
	type step struct {
		from state
		by   string
	}
	by := map[string]func(*knowledge) bool{"never": (*knowledge).never, "recalled": (*knowledge).recalled,
		"silent": (*knowledge).silent, "waived": (*knowledge).waived,
		"answered": func(k *knowledge) bool { k.answered(); return true }}
	want := map[step]struct {
		to      state
		changes bool
	}{
		{waiting, "never"}: {known, true}, {unknown, "never"}: {known, true},
		{waiting, "waived"}: {known, true}, {unknown, "waived"}: {known, true}, {known, "waived"}: {known, false},
		{waiting, "recalled"}: {known, true}, {unknown, "recalled"}: {known, true},
		{waiting, "silent"}: {unknown, true}, {unknown, "silent"}: {unknown, false},
		{waiting, "answered"}: {known, true}, {unknown, "answered"}: {known, true},
		{known, "never"}: {known, false}, {known, "recalled"}: {known, false},
		{known, "silent"}: {known, false}, {known, "answered"}: {known, true},
	}
	for name, do := range by {
		for _, from := range []state{waiting, unknown, known} {
			k := knowledge{is: from}
			changes := do(&k)
			if w, ok := want[step{from, name}]; !ok || k.is != w.to || changes != w.changes {
				t.Errorf("from %d %s leads to %d, changes %t", from, name, k.is, changes)
			}
		}
	}
}

// TestPast is every answer of the disk: only a mark without a directory says that there is
// nothing, and an error never does.
func TestPast(t *testing.T) {
	answers := map[string]error{"is there": nil, "is not": fs.ErrNotExist,
		"is not, in a path": &fs.PathError{Err: syscall.ENOENT}, "EIO": syscall.EIO, "EMFILE": syscall.EMFILE,
		"EACCES": fs.ErrPermission, "anything": errors.New("anything")}
	for m, mark := range answers {
		for d, directory := range answers {
			got, err := pastOf(mark, directory)
			want := had
			missing := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
			switch {
			case mark != nil && !missing(mark), directory != nil && !missing(directory):
				want = unclear
			case mark == nil && missing(directory):
				want = none
			}
			if got != want || (err != nil) != (want == unclear) {
				t.Errorf("%s: %d, %v, want %d", fmt.Sprintf("the mark %s, the directory %s", m, d), got, err, want)
			}
		}
	}
	if new(member).past != unclear {
		t.Error("of a member that was not admitted something is known")
	}
}
