package gateway

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 64)
	for name, want := range map[string]bool{"a": true, "a.x": true, "*.x": true, "a-b.c1": true, "": false, "*": false,
		"A.x": false, "a..x": false, ".x": false, "a.": false, "-a.x": false, "a-.x": false, "*.*.x": false,
		"a.*.x": false,
		"*a.x":  false, "1.2.3.4": false, "*.1.2.3.4": false, "a_b.x": false, "a.x:80": false, "::1": false,
		"ä.x":       false,
		long + ".x": false, strings.Repeat("a.", 126) + "a": true, strings.Repeat("a.", 127) + "a": false,
		"*." + strings.Repeat("a.", 126) + "a": false, "a/b": false} {
		if got := isHost(name); got != want {
			t.Errorf("%.60q is a host: %t", name, got)
		}
	}
	for name, want := range map[string]bool{"a": true, long: true, "1.2.3.4": true, "*.x": false, "": false,
		"a/b": false} {
		if got := isObjectName(name); got != want {
			t.Errorf("%.60q is a name: %t", name, got)
		}
	}
}

func TestIntersection(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"", "", ""}, {"", "a.x", "a.x"}, {"", "*.x", "*.x"}, {"a.x", "a.x", "a.x"}, {"*.x", "a.x", "a.x"},
		{"*.x", "a.b.x", "a.b.x"}, {"*.x", "*.b.x", "*.b.x"}, {"*.x", "*.x", "*.x"}, {"*.x", "x", "no"},
		{"*.x", "ax", "no"}, {"*.x", "*.y", "no"}, {"a.x", "b.x", "no"}, {"*.b.x", "*.a.x", "no"}, {"*.b.x", "b.x",
			"no"},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			got, ok := intersection(pair[0], pair[1])
			if ok != (c.want != "no") || ok && got != c.want {
				t.Errorf("%q: %q, %t; want %q", pair, got, ok, c.want)
			}
		}
	}
}

func TestWider(t *testing.T) {
	for host, want := range map[string][]string{"a.b.x": {"*.b.x", "*.x", ""}, "*.b.x": {"*.x", ""}, "x": {""},
		"*.x": {""},
		"":    nil} {
		got := slices.Collect(wider(host))
		if !slices.Equal(got, want) {
			t.Errorf("wider than %q are %q, want %q", host, got, want)
		}
		for _, w := range got {
			if !covers(w, host) || moreSpecific(host, w) >= 0 || moreSpecific(w, host) <= 0 {
				t.Errorf("%q is not wider than %q", w, host)
			}
		}
		for range wider(host) { // may end early
			break
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcdef", 5, "ab..."}, {"aäääää", 5, "a..."}, {"aäääää", 6, "aä..."},
		{"", 5, ""}} {
		if got := clip(c.text, c.most); got != c.want {
			t.Errorf("%q is clipped to %q, want %q", c.text, got, c.want)
		}
	}
	if got := quote("a\x1b[31m\n" + strings.Repeat("x", 100)); strings.ContainsAny(got, "\x1b\n") || len(got) > 110 {
		t.Errorf("it is quoted as %q", got)
	}
}
