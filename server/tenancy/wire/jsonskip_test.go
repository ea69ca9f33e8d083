package wire

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// slowEnds finds the end of the string, object or list at the beginning of b
// byte by byte, or -1.
func slowEnds(b []byte) int {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\\': // outside of strings there is none in JSON
			i++
			continue
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		}
		if !inString && depth <= 0 && i < len(b) {
			return i + 1
		}
	}
	return -1
}

// sameEnds compares what looks at many bytes together with what does not, for
// everything that begins in b.
func sameEnds(t *testing.T, b []byte) {
	t.Helper()
	for i, c := range b {
		want := slowEnds(b[i:])
		if want >= 0 {
			want += i
		}
		switch c {
		case '"':
			end, escaped := stringEnd(b, i+1)
			if got := end + 1; end == len(b) && want >= 0 || end < len(b) && got != want {
				t.Fatalf("the string at %d of %q ends at %d, not %d", i, b, got, want)
			}
			if end < len(b) && escaped != strings.Contains(string(b[i:end]), `\`) {
				t.Fatalf("the string at %d of %q: escaped %v", i, b, escaped)
			}
		case '{', '[':
			if got := nestedEnd(b, i); got != want {
				t.Fatalf("what begins at %d of %q ends at %d, not %d", i, b, got, want)
			}
		}
	}
}

// TestSkippingLikeByteByByte puts what is difficult at every place of a block.
func TestSkippingLikeByteByByte(t *testing.T) {
	parts := []string{`{`, `}`, `[`, `]`, `"`, `\`, `\\`, `\"`, `\u0022`, `a`, `:`, `,`, ` `, "\n", "\x00", "é",
		`"}{]["`, strings.Repeat(`\`, 63), strings.Repeat("x", 60)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		var b strings.Builder
		for n := random.IntN(40); n >= 0; n-- {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		sameEnds(t, []byte(b.String()))
	}
}

// FuzzSkip: a document ends where it ends, wherever it begins and whatever
// comes behind it.
func FuzzSkip(f *testing.F) {
	f.Add([]byte(`{"a":["\\\"",{"b":"}"}],"c":"`+strings.Repeat(`\\`, 40)+`"}`), byte(3))
	f.Fuzz(func(t *testing.T, b []byte, before byte) {
		b = bytes.TrimSpace(b)
		if !json.Valid(b) || !bytes.ContainsAny(b[:1], `{["`) {
			return
		}
		src := append(bytes.Repeat([]byte(" "), int(before)), b...)
		src = append(src, `"}]{`...)
		s := scanner{src: src, pos: int(before)}
		if s.skip(); s.err != nil || s.pos != int(before)+len(b) {
			t.Fatalf("%q ends at %d, not %d: %v", b, s.pos-int(before), len(b), s.err)
		}
	})
}
