package netfilter

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Chain is one iptables chain that a caller may own.
type Chain struct {
	Table string
	Name  string
	// Comments are those of the rules that jump here from other chains.
	Comments []string
}

type ruleLine struct {
	chain   string
	text    string // as saved, without "-A "
	target  string // of -j or -g
	comment string
}

type savedTable struct {
	name   string
	chains []string // without the built-in ones
	rules  []ruleLine
}

// RemoveChains deletes the chains that own picks from the IPv4 and IPv6 rules,
// with the jumps to them. own sees all user-defined chains of one table at
// once, because ownership of one may depend on which others exist. It returns
// how many chains went.
func RemoveChains(ctx context.Context, own func([]Chain) []Chain) (int, error) {
	total := 0
	var errs []error
	for _, prefix := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(prefix + "-save"); err != nil {
			continue // no such tool, so nobody here made such rules
		}
		saved, err := run(ctx, "", prefix+"-save")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		script, n := removal(parseSave(string(saved)), own)
		if n == 0 {
			continue
		}
		if _, err := run(ctx, script, prefix+"-restore", "--wait", "10", "--noflush"); err != nil {
			errs = append(errs, fmt.Errorf("removing %d chains: %w", n, err))
			continue
		}
		total += n
	}
	return total, errors.Join(errs...)
}

// WithPrefix owns the chains whose names begin with one of the prefixes.
func WithPrefix(prefixes ...string) func([]Chain) []Chain {
	return func(chains []Chain) []Chain {
		return slices.DeleteFunc(slices.Clone(chains), func(c Chain) bool {
			return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c.Name, p) })
		})
	}
}

// removal returns the iptables-restore --noflush input that deletes what own
// picks: declaring a chain empties it, then the jumps from chains of others
// go, then the chains.
func removal(tables []savedTable, own func([]Chain) []Chain) (string, int) {
	var b strings.Builder
	total := 0
	for _, t := range tables {
		mine := map[string]bool{}
		for _, c := range own(t.describe()) {
			mine[c.Name] = true
		}
		if len(mine) == 0 {
			continue
		}
		fmt.Fprintf(&b, "*%s\n", t.name)
		for _, c := range t.chains {
			if mine[c] {
				fmt.Fprintf(&b, ":%s - [0:0]\n", c)
			}
		}
		for _, r := range t.rules {
			if mine[r.target] && !mine[r.chain] {
				fmt.Fprintf(&b, "-D %s\n", r.text)
			}
		}
		for _, c := range t.chains {
			if mine[c] {
				fmt.Fprintf(&b, "-X %s\n", c)
				total++
			}
		}
		b.WriteString("COMMIT\n")
	}
	return b.String(), total
}

func (t savedTable) describe() []Chain {
	out := make([]Chain, len(t.chains))
	for i, name := range t.chains {
		out[i] = Chain{Table: t.name, Name: name}
		for _, r := range t.rules {
			if r.target == name && r.comment != "" {
				out[i].Comments = append(out[i].Comments, r.comment)
			}
		}
	}
	return out
}

// parseSave reads the output of iptables-save.
func parseSave(saved string) []savedTable {
	var tables []savedTable
	for line := range strings.Lines(saved) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "*"); ok {
			tables = append(tables, savedTable{name: name})
			continue
		}
		if len(tables) == 0 {
			continue
		}
		t := &tables[len(tables)-1]
		if decl, ok := strings.CutPrefix(line, ":"); ok {
			// Built-in chains have a policy, the others a dash.
			if f := strings.Fields(decl); len(f) >= 2 && f[1] == "-" {
				t.chains = append(t.chains, f[0])
			}
		} else if text, ok := strings.CutPrefix(line, "-A "); ok {
			t.rules = append(t.rules, parseRule(text))
		}
	}
	return tables
}

func parseRule(text string) ruleLine {
	r := ruleLine{text: text}
	words := splitWords(text)
	for i, w := range words {
		switch {
		case i == 0:
			r.chain = w
		case i+1 >= len(words):
		case w == "-j" || w == "-g":
			r.target = words[i+1]
		case w == "--comment":
			r.comment = words[i+1]
		}
	}
	return r
}

// splitWords splits a saved rule as iptables-restore does: blanks separate,
// double quotes group, a backslash takes the next character as it is.
func splitWords(s string) []string {
	var words []string
	var cur strings.Builder
	inWord, quoted, escaped := false, false, false
	for _, r := range s {
		switch {
		case escaped:
			cur.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped, inWord = true, true
		case r == '"':
			quoted, inWord = !quoted, true
		case r == ' ' && !quoted:
			if inWord {
				words = append(words, cur.String())
				cur.Reset()
				inWord = false
			}
		default:
			cur.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, cur.String())
	}
	return words
}
