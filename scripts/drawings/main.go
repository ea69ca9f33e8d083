// Command drawings writes the drawings of ways through a4s, docs/images/*.svg, from the texts
// beside them that say which layers there are. A text has a line for each thing:
//
//	title TEXT               what the drawing shows
//	desc TEXT                the same for who does not see it
//	ways TEXT | TEXT         what the two columns are; one if nothing comes back
//	part TEXT                a heading over the layers that follow
//	layer NAME | FILE | TEXT | TEXT     a layer of a4s, what it does on each way
//	option, upstream, outside           as layer: one that is not always there, one of Kubernetes or
//	                                    etcd, and what is no part of the server
//
// A layer has one line. What does not fit into it is an error, and so is a file that is not there.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	texts, err := filepath.Glob("docs/images/*.txt")
	if err == nil && len(texts) == 0 {
		err = errors.New("there is no docs/images/*.txt here: run it in the root of the repository")
	}
	for _, text := range texts {
		if err == nil {
			err = write(text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "drawings:", err)
		os.Exit(1)
	}
}

func write(text string) error {
	svg, err := draw(".", text)
	if err != nil {
		return fmt.Errorf("drawing %s: %w", text, err)
	}
	return os.WriteFile(strings.TrimSuffix(text, ".txt")+".svg", []byte(svg), 0o644)
}

// Sizes are in pixels, lengths in characters of that size.
const (
	width, margin, row, heading = 980, 40, 46, 34
	middle                      = 545 // where the second column begins
	longest, longestAlone       = 84, 140
	longestBack                 = 64
)

const style = `  svg { font-family: ui-sans-serif, system-ui, sans-serif; font-size: 12px; }
  .page { fill: #ffffff; } text { fill: #1c2430; } .soft { fill: #57606a; } .head { font-weight: 600; font-size: 14px; }
  .name { font-weight: 600; } .file { font-family: ui-monospace, monospace; font-size: 11px; fill: #57606a; }
  .layer, .option { fill: #d7e8ff; stroke: #1f6feb; } .option { stroke-dasharray: 4 3; }
  .upstream { fill: #f4f5f7; stroke: #8a94a3; } .outside { fill: #ffe4c7; stroke: #bc6a10; }
  .line { stroke: #57606a; fill: none; stroke-width: 1.5; } .tip { fill: #57606a; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .soft, .file { fill: #9da7b3; }
    .layer, .option { fill: #12305c; stroke: #58a6ff; } .upstream { fill: #161b22; stroke: #6e7681; }
    .outside { fill: #4d2e0a; stroke: #e3973a; } .line { stroke: #9da7b3; } .tip { fill: #9da7b3; }
  }
`

// drawing is one that is being made.
type drawing struct {
	root        string
	title, desc string
	back        bool // something comes back
	y           int
	rows        strings.Builder
}

// draw makes the drawing of a text. Files are looked for below root.
func draw(root, text string) (string, error) {
	file, err := os.Open(filepath.Join(root, text))
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was read
	d := &drawing{root: root, y: 16}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if err := d.line(lines.Text()); err != nil {
			return "", fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return d.finish(filepath.Base(text)), nil
}

func (d *drawing) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	fields := strings.Split(rest, "|")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	switch word {
	case "", "#":
	case "title":
		d.title = rest
	case "desc":
		d.desc = rest
	case "ways":
		d.back = len(fields) > 1
		d.y += 16
		d.text(margin+12, "soft", "", "&#8595; "+html.EscapeString(fields[0]))
		if d.back {
			d.text(middle, "soft", "", "&#8593; "+html.EscapeString(fields[1]))
		}
	case "part":
		d.y += heading
		d.text(margin, "head", "", html.EscapeString(rest))
		d.y += 10
	case "layer", "option", "upstream", "outside":
		return d.layer(word, fields)
	default:
		return fmt.Errorf("there is no word %q", word)
	}
	return nil
}

func (d *drawing) layer(class string, fields []string) error {
	if len(fields) < 3 || len(fields) > 4 {
		return fmt.Errorf("it has %d fields, want NAME | FILE | TEXT or NAME | FILE | TEXT | TEXT", len(fields))
	}
	name, files, in, back := fields[0], fields[1], fields[2], slices.Concat(fields, []string{""})[3]
	most := longest
	if !d.back || back == "" {
		most = longestAlone
	}
	if len(in) > most || len(back) > longestBack {
		return fmt.Errorf("%s does not fit into one line of %d and %d characters", name, most, longestBack)
	}
	for _, file := range strings.Split(files, ", ") {
		if class == "upstream" || file == "" {
			continue // it is not in this tree
		}
		if _, err := os.Stat(filepath.Join(d.root, file)); err != nil {
			return fmt.Errorf("the file of %s: %w", name, err)
		}
	}
	fmt.Fprintf(&d.rows, "<rect class=%q x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>\n",
		class, margin, d.y, width-2*margin, row-6)
	d.y += 16
	d.text(margin+12, "name", "", html.EscapeString(name))
	d.text(width-margin-12, "file", ` text-anchor="end"`, html.EscapeString(files))
	d.y += 17
	d.text(margin+12, "", "", html.EscapeString(in))
	if back != "" {
		d.text(middle, "", "", html.EscapeString(back))
	}
	d.y += row - 33
	return nil
}

func (d *drawing) text(x int, class, more, text string) {
	fmt.Fprintf(&d.rows, "<text class=%q x=\"%d\" y=\"%d\"%s>%s</text>\n", class, x, d.y, more, text)
}

func (d *drawing) finish(source string) string {
	height := d.y + 14
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d">
<title id="t">%s</title>
<desc id="d">%s</desc>
<!-- Written by scripts/drawings from %s: change that, and run make docs. -->
<style>
%s</style>
<defs><marker id="m" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>
<rect class="page" width="%d" height="%d" rx="8"/>
`, width, height, html.EscapeString(d.title), html.EscapeString(d.desc), source, style, width, height)
	fmt.Fprintf(&b, "<path class=\"line\" d=\"M22 44V%d\" marker-end=\"url(#m)\"/>\n", height-16)
	if d.back {
		fmt.Fprintf(&b, "<path class=\"line\" d=\"M%d %dV44\" marker-end=\"url(#m)\"/>\n", width-22, height-16)
	}
	b.WriteString(d.rows.String())
	b.WriteString("</svg>\n")
	return b.String()
}
