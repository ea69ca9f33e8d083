package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

// flagsOfK3s are all flags of k3s server and k3s agent.
func flagsOfK3s(t *testing.T) (names []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/k3s-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if name := strings.TrimSpace(line); name != "" && name[0] != '#' {
			names = append(names, name)
		}
	}
	if len(names) < 100 {
		t.Fatalf("only %d flags", len(names))
	}
	return names
}

// ownFlags are the names of all flags of a4s server and a4s agent.
func ownFlags() map[string]bool {
	own := map[string]bool{}
	for _, table := range [][]Setting{ServerSettings(&Server{}), AgentSettings(&Agent{})} {
		for i := range table {
			own[table[i].Name] = true
		}
	}
	return own
}

// TestEveryFlagOfK3sIsKnown: it is a flag here, is accepted, or is refused with what to use instead.
func TestEveryFlagOfK3sIsKnown(t *testing.T) {
	ours, others := ownFlags(), map[string]bool{}
	for _, s := range settingsOfK3s() {
		others[s.name] = true
	}
	for _, name := range flagsOfK3s(t) {
		if ours[name] == others[name] {
			t.Errorf("--%s: is a flag here: %v; in the table of others: %v", name, ours[name], others[name])
		}
		delete(others, name)
	}
	if len(others) > 0 {
		t.Errorf("no flags of k3s: %v", slices.Sorted(maps.Keys(others)))
	}
}

// TestFlagsOfK3s: what is not needed is taken with a warning, from the command line and from a file;
// for the rest the error says what to use.
func TestFlagsOfK3s(t *testing.T) {
	file := func(text string) []string {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--config", path}
	}
	for _, c := range []struct {
		what    string
		args    []string
		warning string // "" for an error
		want    string
	}{
		{"accepted", []string{"--disable-cloud-controller"},
			"--disable-cloud-controller: not needed, there is none", ""},
		{"accepted with a value", []string{"--etcd-snapshot-reconcile-interval", "10m", "--debug"},
			"snapshots are looked for when they are asked for", ""},
		{"in a file", file("disable-cloud-controller: true\n"), `key "disable-cloud-controller": not needed`, ""},
		{"made of something else", []string{"--disable", "traefik,servicelb"},
			`--disable: "traefik" is called "ingress" here`, ""},
		{"carried under another name", []string{"--disable=coredns"}, `--disable: "coredns" is called "dns" here`, ""},
		{"the opposite", []string{"--disable-cloud-controller=false"}, "", "true, or nothing: there is none"},
		{"another name", []string{"--cluster-secret", "x"}, "", "--token"},
		{"nothing", []string{"--rootless"}, "", "nothing: a4s runs as root"},
		{"nothing, in a file", file("vpn-auth: name=x\n"), "", "nothing: make the network"},
		{"nobody's", []string{"--disable-cloud-controller", "--no-such"}, "", `one that "a4s server --help" lists`},
		{"no such thing wanted", []string{"--docker=false"}, "--docker: not needed, that is so", ""},
		{"no such thing wanted, in a file", file("selinux: false\n"), `key "selinux": not needed`, ""},
		{"no truth", []string{"--docker=x"}, "", "true or false"},
	} {
		s, warnings, err := LoadServer(Source{Args: c.args, DefaultFile: filepath.Join(t.TempDir(), "none")})
		if c.warning == "" {
			var in *problem.Input
			if !errors.As(err, &in) || !strings.Contains(in.Want, c.want) {
				t.Errorf("%s: %v", c.what, err)
			} else if c.what == "nobody's" && in.Source != "--no-such" {
				t.Errorf("%s: %s is blamed", c.what, in.Source)
			}
			continue
		}
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], c.warning) {
			t.Errorf("%s: %q, %v", c.what, warnings, err)
		}
		if err == nil && slices.Contains(s.Disable, "traefik") {
			t.Errorf("%s: %v is disabled", c.what, s.Disable)
		}
	}
	s, _, err := LoadServer(Source{Args: []string{"--disable=coredns", "--disable=runtimes"},
		DefaultFile: filepath.Join(t.TempDir(), "none")})
	if err != nil || !slices.Equal(s.Disable, []string{"dns", "runtimeclasses"}) {
		t.Errorf("%v, %v", s, err)
	}
}

// TestFlagsOfTheOtherMode: a flag of k3s beside it does not hide whose it is.
func TestFlagsOfTheOtherMode(t *testing.T) {
	for _, args := range [][]string{{"--cluster-init"}, {"--prefer-bundled-bin", "--cluster-init"}} {
		_, _, err := LoadAgent(Source{Args: args, DefaultFile: filepath.Join(t.TempDir(), "none")})
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != "--cluster-init" || !errors.Is(err, ErrOtherMode) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestVariablesOfK3s are not read, which is said.
func TestVariablesOfK3s(t *testing.T) {
	_, warnings, err := LoadServer(Source{DefaultFile: filepath.Join(t.TempDir(), "none"),
		LookupEnv: func(name string) (string, bool) {
			return "secret", name == "K3S_TOKEN" || name == "K3S_CLUSTER_SECRET"
		}})
	want := []string{"environment variable K3S_TOKEN: ignored, a4s reads A4S_TOKEN",
		"environment variable K3S_CLUSTER_SECRET: ignored, it is a setting of k3s that a4s does not have"}
	if err != nil || !slices.Equal(warnings, want) {
		t.Errorf("%q, %v", warnings, err)
	}
}

// tableOfFlags is each flag of k3s, and what it is here.
func tableOfFlags(ofK3sAll []string) string {
	own := ownFlags()
	var b strings.Builder
	b.WriteString("| k3s | a4s |\n|---|---|\n")
	for _, name := range slices.Sorted(slices.Values(ofK3sAll)) {
		here, s := "same", ofK3s(name)
		switch {
		case own[name]:
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
		fmt.Fprintf(&b, "| `--%s` | %s |\n", name, here)
	}
	return b.String()
}

// TestFlagsOfK3sAreDocumented: docs/reference/from-k3s.md has a row for each.
func TestFlagsOfK3sAreDocumented(t *testing.T) {
	const path, begin, end = "../../docs/reference/from-k3s.md", "<!-- flags -->\n", "<!-- end of flags -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks %q and %q", path, begin, end)
	}
	want := tableOfFlags(flagsOfK3s(t))
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if got != want || strings.Contains(want, "| unknown |") {
		t.Errorf("%s is stale; run go test ./internal/config -update", path)
	}
}
