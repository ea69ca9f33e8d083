package groupwatch

import (
	"fmt"
	"testing"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// TestManyWatches: a client that has more watches than are remembered begins anew with those that
// are not, and loses no event.
func TestManyWatches(t *testing.T) {
	var m memory
	closed := false
	where := position{partitionapi.Rest: 5, "1": 7}
	m.remember("first", 7, where, &closed)
	for i := range maxWatches {
		m.remember(fmt.Sprint(i), 8, where, &closed)
	}
	last := fmt.Sprint(maxWatches - 1)
	if at, ok := m.find(last, 8); !ok || at["1"] != 7 {
		t.Errorf("the last watch is at %v, %t", at, ok)
	}
	if at, ok := m.find("first", 7); ok {
		t.Errorf("a watch that is forgotten goes on, as from a list, at %v", at)
	}
	if at, ok := m.find("first", 9); !ok || at != nil {
		t.Errorf("a watch from a later list does not: %v, %t", at, ok)
	}
	m.forget("first")
	if at, ok := m.find("first", 6); !ok || at != nil {
		t.Errorf("a watch from a list that was made since does not: %v, %t", at, ok)
	}
}
