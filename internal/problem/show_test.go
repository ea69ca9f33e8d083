package problem

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"
)

// hostile has a bit of everything that a terminal may obey.
const hostile = "a\x1b]0;t\x07\x1b[2Jb\rc\u009b31md\u202ee\u2066f\u200bg\u2028h" +
	"\u0085i\x7fj\x00k\U000e0001l\xffm\tn\nä漢👍"

func TestText(t *testing.T) {
	const want = `a\u001b]0;t\u0007\u001b[2Jb\u000dc\u009b31md\u202ee\u2066f\u200bg\u2028h\u0085i\u007fj\u0000k` +
		`\udb40\udc01l\xffm` + "\tn\nä漢👍"
	if got := Text(hostile); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := Line(hostile); got != strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(want) {
		t.Errorf("in one line: %q", got)
	}
	for _, plain := range []string{"", "x", "ä\u00a0漢 👍 é\n\t", "\ufffd"} {
		if got := Text(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
}

// TestTerminal: the same comes out however it is cut.
func TestTerminal(t *testing.T) {
	for cut := range len(hostile) {
		var out bytes.Buffer
		w := Terminal(&out)
		for _, part := range []string{hostile[:cut], hostile[cut:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if out.String() != Text(hostile) {
			t.Errorf("cut at %d: %q", cut, out.String())
		}
	}
	var out bytes.Buffer
	w := Terminal(&out)
	for _, b := range []byte("漢\xe6\xbc") {
		if _, err := w.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "漢" || !utf8.ValidString(out.String()) {
		t.Errorf("%q", out.String())
	}
	if _, err := Terminal(iotest.TruncateWriter(&out, 0)).Write([]byte("x")); err != nil {
		t.Error(err)
	}
}

// TestTerminalLeavesJSON: what is shown of JSON means the same.
func TestTerminalLeavesJSON(t *testing.T) {
	text := strings.ToValidUTF8(hostile, "")
	var out bytes.Buffer
	if err := json.NewEncoder(Terminal(&out)).Encode(text); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != text {
		t.Errorf("%q, %v", back, err)
	}
	if strings.ContainsFunc(out.String(), unsafe) {
		t.Errorf("%q", out.String())
	}
}

type named string

func TestShow(t *testing.T) {
	var out bytes.Buffer
	if _, err := Show(&out, "%s|%v|%s|%s|%-4d|%.1f|%t|%s|%v|%s\n", "a\nb\t\x1b", errors.New("c\nd"), named("e\nf"),
		time.Second, 7, 1.25, true, []string{"g\nh"}, nil, Lines("i\nj\x1b")); err != nil {
		t.Fatal(err)
	}
	const want = `a\nb\t\u001b|c\nd|e\nf|1s|7   |1.2|true|[g\nh]|<nil>|i` + "\n" + `j\u001b` + "\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"aé", 2, "a..."}, {"", 0, ""}} {
		if got := Short(c.text, c.most); got != c.want {
			t.Errorf("%q in %d bytes: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
