package wire

import (
	"encoding/binary"
	"math/bits"
)

// Most of an object is passed as it is, so what is skipped decides how fast
// the translation is. Eight bytes are looked at together, and blocks of 64.

const (
	each  = 0x0101010101010101 // a byte in every byte of a word
	highs = 0x80 * each
	lows  = 0x7f * each
)

// zeros has the high bit of every byte of w that is zero, and no other.
func zeros(w uint64) uint64 { return ^((w&lows + lows) | w | lows) }

// gathered are the high bits of the bytes of w; no other bit may be set.
func gathered(w uint64) uint64 { return (w >> 7) * 0x0102040810204080 >> 56 }

// plainUntil is where the first quote or backslash is in b[from:], or len(b).
func plainUntil(b []byte, from int) int {
	i := from
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		if found := zeros(w^'"'*each) | zeros(w^'\\'*each); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b) && b[i] != '"' && b[i] != '\\'; i++ {
	}
	return i
}

// stringEnd is where the string ends whose content begins at from: at its
// quote, or len(b) without one. Escaped reports whether anything is.
func stringEnd(b []byte, from int) (end int, escaped bool) {
	for i := from; ; i += 2 {
		if i = plainUntil(b, min(i, len(b))); i == len(b) || b[i] == '"' {
			return i, escaped
		}
		escaped = true
	}
}

// block are 64 bytes of JSON, a bit for each.
type block struct{ quotes, escapes, brackets, opening uint64 }

func (k *block) read(b []byte) {
	*k = block{}
	_ = b[63]
	for i := 0; i < 64; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		k.quotes |= gathered(zeros(w^'"'*each)) << i
		if e := zeros(w ^ '\\'*each); e != 0 {
			k.escapes |= gathered(e) << i
		}
		// Brackets and braces are 0x5b, 0x5d, 0x7b and 0x7d; what else looks
		// like them here are letters, which are in strings only.
		if c := zeros((w | 0x26*each) ^ 0x7f*each); c != 0 {
			k.brackets |= gathered(c) << i
			k.opening |= gathered(w<<6&highs) << i
		}
	}
}

// structure finds the brackets of JSON that are not in strings, block by block.
type structure struct {
	block
	inside  uint64 // all ones in a string
	escaped uint64 // the first byte of the next block is
}

// next are the brackets in the first 64 bytes of b, and which of them open.
func (s *structure) next(b []byte) (brackets, opening uint64) {
	if len(b) >= 64 {
		s.read(b)
	} else {
		var last [64]byte
		copy(last[:], b)
		s.read(last[:])
	}
	if s.escapes|s.escaped != 0 {
		taken := s.escapedBytes(&s.escaped)
		s.quotes &^= taken
		s.brackets &^= taken
	}
	brackets = s.outside(&s.inside)
	return brackets, brackets & s.block.opening
}

// nestedEnd is behind the object or list that begins at from, or -1 when it
// does not end.
func nestedEnd(b []byte, from int) int {
	var s structure
	depth := 0
	for at := from; at < len(b); at += 64 {
		brackets, opening := s.next(b[at:])
		closing := bits.OnesCount64(brackets &^ opening)
		if closing < depth {
			depth += bits.OnesCount64(opening) - closing
			continue
		}
		for ; brackets != 0; brackets &= brackets - 1 {
			if opening&brackets&-brackets != 0 {
				depth++
			} else if depth--; depth <= 0 {
				return at + bits.TrailingZeros64(brackets) + 1
			}
		}
	}
	return -1
}

// outside are the brackets that are not in strings. Inside is all ones if the
// block begins in one, and then if the next does.
func (k *block) outside(inside *uint64) uint64 {
	strings := k.quotes
	for shift := 1; shift < 64; shift *= 2 {
		strings ^= strings << shift
	}
	strings ^= *inside
	*inside = uint64(int64(strings) >> 63)
	return k.brackets &^ strings
}

// deeper reports whether objects and lists are nested beyond a limit.
func deeper(b []byte, limit int) bool {
	var s structure
	depth := 0
	for at := 0; at < len(b); at += 64 {
		brackets, opening := s.next(b[at:])
		opened := bits.OnesCount64(opening)
		if depth+opened <= limit {
			depth += 2*opened - bits.OnesCount64(brackets)
			continue
		}
		for ; brackets != 0; brackets &= brackets - 1 {
			if opening&brackets&-brackets == 0 {
				depth--
			} else if depth++; depth > limit {
				return true
			}
		}
	}
	return false
}

// escapedBytes are those behind a backslash that is not escaped itself. Carry
// is 1 when the first byte of the block is one, and then of the next.
func (k *block) escapedBytes(carry *uint64) uint64 {
	var all uint64
	next := *carry
	*carry = 0
	for {
		all |= next
		first := k.escapes &^ all
		if next != 0 {
			// Nothing before what is escaped matters any more.
			first &^= next - 1
		}
		first &= -first
		if first == 0 {
			return all
		}
		if next = first << 1; next == 0 {
			*carry = 1
			return all
		}
	}
}
