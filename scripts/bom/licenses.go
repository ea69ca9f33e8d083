package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"golang.org/x/mod/module"
	"sigs.k8s.io/yaml"
)

// minConfidence is how much of a licence's text must be there.
const minConfidence = 0.9

// licenseFile matches the names of files that state licences.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|unlicense|patents|notice)([-._].*)?$`)

// policy says which licences may be shipped.
type policy struct {
	// Allowed are SPDX identifiers.
	Allowed []string `json:"allowed"`
	// Decisions are about parts whose licence is not recognized or not
	// allowed in general.
	Decisions []decision `json:"decisions"`
}

// decision is what somebody found out about one part.
type decision struct {
	// Name is the module path or the library, without a version.
	Name string `json:"name"`
	// Licenses are SPDX identifiers.
	Licenses []string `json:"licenses"`
	Reason   string   `json:"reason"`
}

func readPolicy(file string) (*policy, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p := &policy{}
	if err := yaml.UnmarshalStrict(content, p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range p.Decisions {
		if d.Name == "" || len(d.Licenses) == 0 || d.Reason == "" {
			return nil, fmt.Errorf("%s: the decision on %q needs a name, licenses and a reason", file, d.Name)
		}
	}
	return p, nil
}

// judge finds the licences of all parts and returns what the policy has
// against them.
func (p *policy) judge(ctx context.Context, reader licenseReader, parts map[string]*part) error {
	var problems []error
	needed := map[string]bool{}
	for _, q := range parts {
		if err := reader.read(ctx, q); err != nil {
			return fmt.Errorf("the licence of %s: %w", q.key(), err)
		}
		i := slices.IndexFunc(p.Decisions, func(d decision) bool { return d.Name == q.name })
		if i >= 0 {
			needed[q.name] = true
			q.licenses = p.Decisions[i].Licenses
			continue
		}
		if len(q.licenses) == 0 {
			problems = append(problems,
				fmt.Errorf("%s: no licence was recognized; if it has one, write a decision", q.key()))
		}
		for _, l := range q.licenses {
			if !slices.Contains(p.Allowed, l) {
				problems = append(problems, fmt.Errorf("%s: %s is not among the allowed licences", q.key(), l))
			}
		}
	}
	for _, d := range p.Decisions {
		if !needed[d.Name] {
			problems = append(problems,
				fmt.Errorf("the decision on %s is not needed any more: nothing of that name is shipped", d.Name))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// licenseReader fills in licenses and texts of a part.
type licenseReader interface {
	read(ctx context.Context, p *part) error
}

// moduleReader finds the files of modules in the module cache and recognizes
// them.
type moduleReader struct {
	known *classifier.Classifier
	cache string
}

func newLicenseReader(ctx context.Context) (*moduleReader, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOMODCACHE: %w", err)
	}
	r := &moduleReader{known: classifier.NewClassifier(0.8), cache: strings.TrimSpace(string(out))}
	// The texts of known licences are in the module that was built in.
	const recognizer = "github.com/google/licenseclassifier/v2"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this program does not know what it was built from")
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == recognizer })
	if i < 0 {
		return nil, fmt.Errorf("this program was built without %s", recognizer)
	}
	return r, r.known.LoadLicenses(filepath.Join(r.cache, recognizer+"@"+info.Deps[i].Version, "assets"))
}

func (r *moduleReader) read(ctx context.Context, p *part) error {
	if p.library != "" {
		// The licences of such a file are many, and few of them those of the
		// library: only a decision can tell.
		return p.addText(filepath.Join("/usr/share/doc", p.library, "copyright"))
	}
	dir := p.root
	if dir == "" {
		name, err := module.EscapePath(p.name)
		if err != nil {
			return err
		}
		version, err := module.EscapeVersion(p.version)
		if err != nil {
			return err
		}
		dir = filepath.Join(r.cache, name+"@"+version)
		if _, err := os.Stat(dir); err != nil {
			if out, err := exec.CommandContext(ctx, "go", "mod", "download", p.key()).CombinedOutput(); err != nil {
				return fmt.Errorf("downloading it: %w: %s", err, out)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && licenseFile.MatchString(e.Name()) && !strings.HasSuffix(e.Name(), ".go") {
			if err := p.addText(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, t := range p.texts {
		for _, m := range r.known.Match([]byte(t.content)).Matches {
			if m.MatchType == "License" && m.Confidence >= minConfidence && !slices.Contains(p.licenses, m.Name) {
				p.licenses = append(p.licenses, m.Name)
			}
		}
	}
	slices.Sort(p.licenses)
	return nil
}

func (p *part) addText(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p.texts = append(p.texts, text{filepath.Base(file), string(content)})
	return nil
}

// licenseNames is every licence, for a line on the terminal.
func (s *shipment) licenseNames() string {
	var names []string
	for _, p := range s.parts {
		names = append(names, p.licenses...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// licenseList is a table of all parts, and the texts after it, each once.
func (s *shipment) licenseList() []byte {
	var b strings.Builder
	b.WriteString("What a4s ships, and under which licences. The texts follow the table.\n\n")
	seen := map[string]string{}
	for _, p := range s.sorted() {
		fmt.Fprintf(&b, "%-75s %s\n", p.key(), strings.Join(p.licenses, " and "))
	}
	for _, p := range s.sorted() {
		for _, t := range p.texts {
			fmt.Fprintf(&b, "\n%s\n%s, %s\n", strings.Repeat("=", 100), p.key(), t.name)
			if first, ok := seen[t.content]; ok {
				fmt.Fprintf(&b, "The same as that of %s.\n", first)
				continue
			}
			seen[t.content] = p.key() + ", " + t.name
			fmt.Fprintf(&b, "\n%s\n", strings.TrimRight(t.content, "\n"))
		}
	}
	return []byte(b.String())
}
