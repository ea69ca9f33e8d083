package architecture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Where the commands and their flags are written down: the help that the tests of cmd
// compare, and for server and agent the page that is made of their flags.
const (
	helpFile     = "cmd/testdata/help.txt"
	settingsPage = "docs/reference/configuration.md"
)

// commands are what a4s can be asked to do, by their words, with their flags.
type commands map[string]map[string]bool

var (
	helpOf     = regexp.MustCompile(`^\$ a4s((?: [a-z0-9-]+)*) --help$`)
	helpFlag   = regexp.MustCompile(`^ {2,6}(?:(-[a-zA-Z]), )?(--[a-z0-9-]+)`)
	settingRow = regexp.MustCompile("^\\| `--[a-z0-9-]+`")
	anyFlag    = regexp.MustCompile("`(--?[a-zA-Z0-9-]+)`")
	// typed is a command as a document shows it; what follows a quote is an argument.
	typed = regexp.MustCompile(`^(?:\$ |# )?(?:sudo )?(?:\./|bin/)?a4s ([^|;#&"'<>()]*)`)
	word  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// readCommands reads the help of all commands, and the settings.
func readCommands(t *testing.T, root string) commands {
	t.Helper()
	read := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(text), "\n")
	}
	found, name := commands{}, ""
	for _, line := range read(helpFile) {
		if m := helpOf.FindStringSubmatch(line); m != nil {
			name = strings.TrimSpace(m[1])
			found[name] = map[string]bool{"-h": true, "--help": true}
			continue
		}
		if m := helpFlag.FindStringSubmatch(line); m != nil {
			found[name][m[1]], found[name][m[2]] = true, true
		}
	}
	for _, line := range read(settingsPage) {
		if cells := strings.Split(line, "|"); settingRow.MatchString(line) {
			for _, m := range anyFlag.FindAllStringSubmatch(cells[1], -1) {
				found["server"][m[1]], found["agent"][m[1]] = true, true
			}
		}
	}
	if len(found) < 30 || len(found["server"]) < 50 || !found["tenant create"]["--server"] {
		t.Fatalf("%s and %s were not understood: %d commands", helpFile, settingsPage, len(found))
	}
	return found
}

// check says what is wrong with what follows "a4s".
func (c commands) check(line string) error {
	words, name := strings.Fields(line), ""
	for len(words) > 0 && word.MatchString(words[0]) {
		next := strings.TrimSpace(name + " " + words[0])
		if c[next] == nil {
			break
		}
		name, words = next, words[1:]
	}
	if name == "kubectl" || name == "ctr" || name == "crictl" || name == "completion" || name == "help" {
		return nil // the rest is that of others
	}
	above := slices.ContainsFunc(c.names(), func(n string) bool { return strings.HasPrefix(n, name+" ") })
	if (name == "" || above) && len(words) > 0 && word.MatchString(words[0]) {
		return fmt.Errorf("there is no command %q", strings.TrimSpace("a4s "+name+" "+words[0]))
	}
	for _, w := range words {
		flag, _, _ := strings.Cut(strings.TrimRight(w, ".,:"), "=")
		if strings.HasPrefix(flag, "-") && strings.Trim(flag, "-") != "" && !c[name][flag] {
			return fmt.Errorf("%q has no flag %s", "a4s "+name, flag)
		}
	}
	return nil
}

func (c commands) names() (all []string) {
	for name := range c {
		all = append(all, name)
	}
	return all
}

// shown are the commands of a document, in blocks of code and in lines of text.
func shown(text []byte) (found []string) {
	add := func(code string) {
		if m := typed.FindStringSubmatch(strings.TrimSpace(code)); m != nil {
			found = append(found, m[1])
		}
	}
	code := false
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if code {
			add(line)
		}
	}
	whole := strings.ReplaceAll(strings.Join(prose(text), "\n"), "\n", " ")
	for _, m := range quoted.FindAllString(whole, -1) {
		add(strings.Trim(m, "`"))
	}
	return found
}

// TestCommandsOfDocumentsExist: what a document tells its reader to type can be typed. What
// decisions and the changelog tell of has been so at their time.
func TestCommandsOfDocumentsExist(t *testing.T) {
	root, names := pages(t)
	known, seen := readCommands(t, root), 0
	for _, name := range names {
		if strings.HasPrefix(name, "docs/developing/adr/") || name == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range shown(text) {
			seen++
			if err := known.check(line); err != nil {
				t.Errorf("%s shows %q: %v", name, "a4s "+strings.TrimSpace(line), err)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d commands were found: are they written in another way?", seen)
	}
}

// TestMissingCommandsAreFound makes sure that the check above can fail.
func TestMissingCommandsAreFound(t *testing.T) {
	root, _ := pages(t)
	known := readCommands(t, root)
	for line, good := range map[string]bool{
		"tenant create team-a --output team-a.yaml":  true,
		"server --service-group-id 0 --cluster-init": true,
		"kubectl get pods --of-its-own":              true,
		"groups drain 1 --undo":                      true,
		"tenant make team-a":                         false,
		"tenants":                                    false,
		"groups drain 1 --redo":                      false,
		"server --no-such-setting":                   false,
	} {
		if err := known.check(line); (err == nil) != good {
			t.Errorf("a4s %s: %v", line, err)
		}
	}
	got := shown([]byte("Run `a4s doctor` or\n\n```sh\nbin/a4s status\n# a4s top tenants\n" +
		"sudo a4s killall  # all\n```\n"))
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if want := []string{"status", "top tenants", "killall", "doctor"}; !slices.Equal(got, want) {
		t.Errorf("the commands are %q, want %q", got, want)
	}
}
