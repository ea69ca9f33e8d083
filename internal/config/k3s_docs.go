package config

import (
	"fmt"
	"slices"
	"strings"
)

// K3sFlags is the table of flags of docs/reference/from-k3s.md: each of k3s', and what it is here.
func K3sFlags(ofK3sAll []string) string {
	ours := map[string]*Setting{}
	for _, table := range [][]Setting{ServerSettings(&Server{}), AgentSettings(&Agent{})} {
		for i := range table {
			ours[table[i].Name] = &table[i]
		}
	}
	var b strings.Builder
	b.WriteString("| k3s | a4s |\n|---|---|\n")
	for _, name := range slices.Sorted(slices.Values(ofK3sAll)) {
		here := "same"
		if ours[name] == nil {
			switch s := ofK3s(name); {
			case s == nil:
				here = "unknown"
			case s.accepted:
				here = "accepted, not needed: " + s.instead
			default:
				here = "refused; use " + s.instead
				if why, nothing := strings.CutPrefix(s.instead, "nothing: "); nothing {
					here = "not here: " + why
				}
			}
		}
		fmt.Fprintf(&b, "| `--%s` | %s |\n", name, here)
	}
	return b.String()
}
