package config

import (
	"fmt"
	"slices"
	"strings"
)

// helpWidth is the width that the help is wrapped to.
const helpWidth = 100

// Categories returns the categories of a table in the order of first use.
func Categories(table []Setting) []string {
	var out []string
	for i := range table {
		if !slices.Contains(out, table[i].Category) {
			out = append(out, table[i].Category)
		}
	}
	return out
}

// Help renders the flags of a table, grouped, for a terminal. The order of
// groups is that of the table.
func Help(table []Setting) string {
	var b strings.Builder
	for _, category := range Categories(table) {
		fmt.Fprintf(&b, "\n%s:\n", category)
		for i := range table {
			if s := &table[i]; s.Category == category {
				b.WriteString(HelpEntry(s.synopsis(), s.describe()))
			}
		}
	}
	return b.String()
}

// HelpEntry renders one line of help in two columns, wrapped.
func HelpEntry(head, text string) string {
	const usageColumn = 38
	head = "  " + head
	var b strings.Builder
	if len(head) >= usageColumn-1 {
		b.WriteString(head + "\n")
		head = ""
	}
	for _, line := range wrap(text, helpWidth-usageColumn) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-*s%s", usageColumn, head, line), " ") + "\n")
		head = ""
	}
	return b.String()
}

// synopsis is "-d, --data-dir PATH".
func (s *Setting) synopsis() string {
	long := Dashed(s.Name)
	if len(s.Name) > 1 {
		long = "    " + long
	}
	for _, a := range s.Aliases {
		if len(a) == 1 {
			long = Dashed(a) + ", " + Dashed(s.Name)
		}
	}
	if s.Kind() != Bool {
		long += " " + s.Placeholder
	}
	return long
}

// describe is the usage with choices, default and environment variable.
func (s *Setting) describe() string {
	out := s.Usage
	if len(s.Choices) > 0 {
		out += ": " + strings.Join(s.Choices, ", ")
	}
	if s.Kind() == List {
		out += "; may be repeated"
	}
	if d := s.defaultText(); d != "" {
		out += " (default: " + d + ")"
	}
	if s.Env != "" {
		out += " [$" + s.Env + "]"
	}
	return out
}

func (s *Setting) defaultText() string {
	if s.DefaultText != "" {
		return s.DefaultText
	}
	return s.Default
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
