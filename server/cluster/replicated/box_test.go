package replicated

import (
	"bytes"
	"errors"
	"slices"
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

func TestSealedContent(t *testing.T) {
	b := Box{Purpose: "keys", Label: "/here"}
	text := []byte("the keys")
	sealed, err := b.Seal([]byte("of one cluster"), text)
	if err != nil || bytes.Contains(sealed, text) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, err := b.Open([]byte("of one cluster"), sealed); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%q, %v", got, err)
	}
	changed := slices.Clone(sealed)
	changed[len(changed)-1]++
	for what, try := range map[string]struct {
		secret string
		sealed []byte
	}{"of another cluster": {"of another", sealed}, "changed": {"of one cluster", changed},
		"cut off": {"of one cluster", sealed[:5]}} {
		if got, err := b.Open([]byte(try.secret), try.sealed); !errors.Is(err, ErrSealed) || got != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}
