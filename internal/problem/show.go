package problem

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is what somebody else has written, as it can be shown on a terminal: in it
// are letters, signs, spaces, ends of lines and tabs. What else a terminal may obey
// is shown by its number, as JSON writes it: control characters, those that turn the
// direction of writing or have no width, and bytes that are no UTF-8.
func Text(text string) string {
	if !strings.ContainsFunc(text, unsafe) {
		return text // an invalid byte is unsafe, too
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == utf8.RuneError || !unsafe(r):
			b.WriteString(text[i : i+size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// unsafe tells the characters that are not shown as they are. The replacement
// character stands for bytes that are no UTF-8 as well.
func unsafe(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsGraphic(r) || r == utf8.RuneError
}

// ends are what would end the line or the column of a table.
var ends = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Line is Text in one line, and in one column of a table.
func Line(text string) string { return ends.Replace(Text(text)) }

// Lines is text of several lines, each of which begins as another line of the
// output may begin: Show leaves its ends of lines in.
type Lines string

// Show prints as fmt.Fprintf does, with everything in args in one line: all that
// a4s' commands print of objects, of answers and of errors goes through it.
func Show(w io.Writer, format string, args ...any) (int, error) {
	shown := make([]any, len(args))
	for i, arg := range args {
		shown[i] = safe(arg)
	}
	return fmt.Fprintf(w, format, shown...)
}

func safe(arg any) any {
	v := reflect.ValueOf(arg)
	switch v.Kind() {
	case reflect.Invalid, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return arg // durations, too
	}
	switch a := arg.(type) {
	case Lines:
		return Text(string(a))
	case error, fmt.Stringer:
		return Line(fmt.Sprint(a))
	}
	if v.Kind() == reflect.String {
		return Line(v.String())
	}
	return Line(fmt.Sprint(arg))
}

// Terminal shows on w what is written as Text. What ends within a character waits
// for the rest of it.
func Terminal(w io.Writer) io.Writer { return &terminal{w: w} }

type terminal struct {
	w    io.Writer
	rest []byte // the beginning of a character
}

// Write implements io.Writer.
func (t *terminal) Write(p []byte) (int, error) {
	all := append(t.rest, p...)
	whole := len(all)
	for back := 1; back < utf8.UTFMax && back <= len(all); back++ {
		if at := len(all) - back; utf8.RuneStart(all[at]) {
			if !utf8.FullRune(all[at:]) {
				whole = at
			}
			break
		}
	}
	t.rest = append([]byte(nil), all[whole:]...)
	if _, err := io.WriteString(t.w, Text(string(all[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Short is a text of at most so many bytes, and "..." if that is not all.
func Short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Number is "1 error" or "2 errors".
func Number(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
