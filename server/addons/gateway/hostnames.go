package gateway

import (
	"iter"
	"net/netip"
	"strings"
)

const (
	mostName  = 253
	mostLabel = 63
)

// anyHost is every host.
const anyHost = ""

// isName reports whether s is a DNS name in lower case.
func isName(s string, longestLabel int) bool {
	if s == "" || len(s) > mostName {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > longestLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}

// isObjectName reports whether s can be the name of an object.
func isObjectName(s string) bool { return isName(s, mostName) }

// isPrecise reports whether s is the name of a host, without a wildcard. Addresses are none.
func isPrecise(s string) bool {
	if !isName(s, mostLabel) {
		return false
	}
	_, err := netip.ParseAddr(s)
	return err != nil
}

// isHost reports whether s is the name of a host, or one with a wildcard as its first label.
func isHost(s string) bool {
	if rest, ok := strings.CutPrefix(s, "*."); ok {
		return len(s) <= mostName && isPrecise(rest)
	}
	return isPrecise(s)
}

// covers reports whether every name of the host narrow is one of the host wide.
func covers(wide, narrow string) bool {
	if wide == anyHost || wide == narrow {
		return true
	}
	return strings.HasPrefix(wide, "*.") && strings.HasSuffix(narrow, wide[1:]) && len(narrow) >= len(wide)
}

// intersection is the host that has the names of both.
func intersection(a, b string) (host string, ok bool) {
	switch {
	case covers(a, b):
		return b, true
	case covers(b, a):
		return a, true
	}
	return "", false
}

// wider yields the other hosts that cover a host, the most specific first.
func wider(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := host; ; {
			var more bool
			if _, rest, more = strings.Cut(rest, "."); !more {
				break
			}
			if w := "*." + rest; w != host && !yield(w) {
				return
			}
		}
		if host != anyHost {
			yield(anyHost)
		}
	}
}

// moreSpecific compares hosts that have names in common: below 0 if a has fewer names.
func moreSpecific(a, b string) int {
	switch {
	case a == b:
		return 0
	case covers(b, a):
		return -1
	}
	return 1
}
