package runbooks

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// Page is the page, seen from a package of tests.
const Page = "../../docs/operate/runbooks.md"

// Runbook is what one section of the page tells to type, and what it says that is printed. Each
// is one line, with single spaces.
type Runbook struct {
	Title           string
	Commands, Shows []string
}

// Read reads the page.
func Read(file string) ([]Runbook, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parse(string(text)), nil
}

var (
	fence   = regexp.MustCompile("^ *```([a-z]*)$")
	span    = regexp.MustCompile("`([^`]+)`")
	comment = regexp.MustCompile(`(^|\s)#\s.*$`)
	typed   = regexp.MustCompile(`^(a4s|systemctl|journalctl|curl|date|du|ls)( |$)`)
)

// parse takes what is in blocks, and of the text what is code: all of how something looks, and
// the commands of what to do.
func parse(page string) []Runbook {
	books := []Runbook{{}}
	at, looks := &books[0], false
	block, kind, prose := []string(nil), "", []string(nil)
	inside := false
	flush := func() {
		for _, m := range span.FindAllStringSubmatch(strings.Join(prose, " "), -1) {
			switch text := oneLine(m[1]); {
			case at.Title == "": // the table by which a reader finds a runbook
			case typed.MatchString(text):
				at.Commands = add(at.Commands, text)
			case looks:
				at.Shows = add(at.Shows, text)
			}
		}
		prose = nil
	}
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if m := fence.FindStringSubmatch(line); m != nil {
			if inside = !inside; inside {
				flush()
				block, kind = nil, m[1]
			} else {
				at.block(kind, block)
			}
			continue
		}
		if inside {
			block = append(block, line)
			continue
		}
		if title, ok := strings.CutPrefix(line, "## "); ok {
			flush()
			books = append(books, Runbook{Title: title})
			at, looks = &books[len(books)-1], false
			continue
		}
		for start, look := range map[string]bool{"**How it looks.**": true, "**Afterwards.**": true,
			"**What to do.**": false} {
			if strings.HasPrefix(line, start) {
				flush()
				looks = look
			}
		}
		prose = append(prose, line)
	}
	flush()
	return books
}

// block takes a block of code: commands, a session of them, settings, or what is printed.
func (r *Runbook) block(kind string, lines []string) {
	var shown []string
	for _, line := range lines {
		command, isTyped := strings.CutPrefix(strings.TrimSpace(line), "# ")
		switch {
		case kind == "console" && isTyped:
			r.Commands = add(r.Commands, oneLine(command))
		case kind == "sh":
			r.Commands = add(r.Commands, oneLine(comment.ReplaceAllString(line, "")))
		case kind == "yaml":
			shown = append(shown, comment.ReplaceAllString(line, ""))
		default:
			shown = append(shown, line)
		}
	}
	if kind == "yaml" {
		r.Commands = add(r.Commands, oneLine(strings.Join(shown, " ")))
		return
	}
	r.Shows = add(r.Shows, oneLine(strings.Join(shown, " ")))
}

func add(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// variable is what is another thing at each time: what the page leaves out, numbers of something,
// and spaces and ends of lines.
var variable = regexp.MustCompile(`\s*\.\.\.\s*|[0-9]+ [A-Za-z]|\s+`)

// Pattern finds what the page says that is printed. names are of the page, each before what the
// test has instead, "..." for anything.
func Pattern(shown string, names ...string) *regexp.Regexp {
	shown = strings.NewReplacer(names...).Replace(shown)
	var b strings.Builder
	last := 0
	for _, at := range variable.FindAllStringIndex(shown, -1) {
		b.WriteString(regexp.QuoteMeta(shown[last:at[0]]))
		switch found := shown[at[0]:at[1]]; {
		case strings.TrimSpace(found) == "...":
			b.WriteString(`[^\n]*`)
			if strings.HasSuffix(found, " ") {
				b.WriteString(`\s*`)
			}
		case strings.TrimSpace(found) == "":
			b.WriteString(`\s+`)
		default:
			_, unit, _ := strings.Cut(found, " ")
			b.WriteString(`[0-9]+\s+` + unit)
		}
		last = at[1]
	}
	b.WriteString(regexp.QuoteMeta(shown[last:]))
	return regexp.MustCompile(b.String())
}
