package serving

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/storage"
)

// TestUncachedStreams: of the groups that a server was ever asked for, those are kept that are asked
// for.
func TestUncachedStreams(t *testing.T) {
	made, open := 0, map[string]bool{}
	broken := errors.New("it cannot be made")
	s := &streams{make: func(group string) (storage.Interface, func(), error) {
		if group == "broken" {
			return nil, nil, broken
		}
		made++
		open[group] = true
		return nil, func() {
			if !open[group] {
				t.Errorf("%s is stopped twice", group)
			}
			delete(open, group)
		}, nil
	}}
	get := func(group string) {
		t.Helper()
		if _, err := s.of(group); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * maxStreams {
		get(fmt.Sprint(i))
		get("used")
	}
	if made != 3*maxStreams+1 || len(open) != maxStreams || !open["used"] || !open[fmt.Sprint(3*maxStreams-1)] {
		t.Errorf("%d were made, open are %d: %v", made, len(open), open)
	}
	if _, err := s.of("broken"); !errors.Is(err, broken) || len(open) != maxStreams {
		t.Errorf("%v, open are %d", err, len(open))
	}
	s.stop()
	if len(open) > 0 {
		t.Errorf("still open are %v", open)
	}
}
