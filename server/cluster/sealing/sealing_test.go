package sealing

import (
	"errors"
	"testing"
)

// What was sealed for one purpose or place is nothing in another.
func TestBoxesDoNotOpenEachOther(t *testing.T) {
	secret := []byte("of one cluster")
	b := Box{Purpose: "keys", Label: "/here"}
	text, err := b.Seal(secret, []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Open(secret, text); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	for _, other := range []Box{{Purpose: "CAs", Label: b.Label}, {Purpose: b.Purpose, Label: "/there"}} {
		if got, err := other.Open(secret, text); !errors.Is(err, ErrSealed) || got != nil {
			t.Errorf("%+v: %q, %v", other, got, err)
		}
	}
}
