package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/problem"
)

// Source is where a configuration is read from.
type Source struct {
	// Args are the arguments after the command's name.
	Args []string
	// LookupEnv is os.LookupEnv. An empty variable counts as unset.
	LookupEnv func(string) (string, bool)
	// DefaultFile is used instead of DefaultConfigFile if it is set.
	DefaultFile string
	// CheckS3 makes LoadLocal check Local.S3, which most commands do without.
	CheckS3 bool
}

// LoadServer reads, validates and completes the configuration of `a4s
// server`. The strings are warnings for the log. The error is ErrHelp if help
// was asked for, and a problem.Input, or several joined, for bad input.
func LoadServer(src Source) (*Server, []string, error) {
	s := &Server{}
	l := loader{command: "a4s server", other: "a4s agent", table: ServerSettings(s),
		otherTable: AgentSettings(&Agent{})}
	if err := l.load(src); err != nil {
		return nil, nil, err
	}
	l.warnings = append(l.warnings, s.disableAsHere(l.source("disable"))...)
	l.warnings = append(l.warnings, s.EtcdS3.ignoredSecret(l.source)...)
	if err := s.validate(l.source); err != nil {
		return nil, nil, err
	}
	if err := s.complete(l.source); err != nil {
		return nil, nil, err
	}
	s.given = l.origins
	return s, l.warnings, nil
}

// LoadAgent is LoadServer for `a4s agent`. Keys in files that only a server
// knows are ignored with a warning, so that both can share a file.
func LoadAgent(src Source) (*Agent, []string, error) {
	a := &Agent{}
	l := loader{command: "a4s agent", other: "a4s server", table: AgentSettings(a),
		otherTable: ServerSettings(&Server{}), ignoreOther: true}
	if err := l.load(src); err != nil {
		return nil, nil, err
	}
	if err := a.validate(l.source); err != nil {
		return nil, nil, err
	}
	if err := a.complete(l.source); err != nil {
		return nil, nil, err
	}
	return a, l.warnings, nil
}

// DefaultServer returns a Server that holds the defaults and nothing else.
func DefaultServer() (*Server, error) {
	s := &Server{}
	return s, applyDefaults(ServerSettings(s))
}

type loader struct {
	command, other    string
	table, otherTable []Setting
	ignoreOther       bool

	origins  map[string]string // setting name -> where its value came from
	warnings []string
}

// source names a setting by where its value came from.
func (l *loader) source(name string) string {
	if o, ok := l.origins[name]; ok {
		return o
	}
	return Dashed(name)
}

func (l *loader) load(src Source) error {
	l.origins = map[string]string{}
	if err := applyDefaults(l.table); err != nil {
		return err
	}
	given, err := l.scan(src.Args)
	if err != nil {
		return err
	}
	path, mustExist := l.configFile(src, given)
	entries, err := readFiles(path, mustExist)
	if err != nil {
		return err
	}
	if err := l.applyEntries(entries); err != nil {
		return err
	}
	if err := l.applyEnv(src.LookupEnv); err != nil {
		return err
	}
	l.k3sVariables(src.LookupEnv)
	if err := l.applyFlags(given); err != nil {
		return err
	}
	return find(l.table, "config").set([]string{path})
}

func (l *loader) scan(args []string) ([]Given, error) {
	given, rest, err := Scan(l.command, Specs(l.table), args)
	if errors.Is(err, ErrUnknownFlag) {
		given, rest, err = l.scanWithK3s(args)
	}
	if err != nil {
		return nil, l.explainFlag(err, args)
	}
	if slices.ContainsFunc(given, func(g Given) bool { return g.Name == "help" }) {
		return nil, ErrHelp
	}
	if len(rest) > 0 {
		return nil, &problem.Input{Source: "argument of " + l.command, Value: rest[0], Want: "nothing but flags"}
	}
	return given, nil
}

// scanWithK3s is Scan where k3s has the flags that a4s does not: it takes those that ask for what
// a4s does anyway. Else it returns why not, or which flag nobody has.
func (l *loader) scanWithK3s(args []string) (given []Given, rest []string, err error) {
	all, rest, err := Scan(l.command, append(Specs(l.table), specsOfK3s()...), args)
	if in := (*problem.Input)(nil); errors.As(err, &in) && errors.Is(err, ErrUnknownFlag) {
		// It is another one, with what is near it among our own.
		return nil, nil, UnknownFlag(l.command, namesOf(Specs(l.table)), strings.TrimLeft(in.Source, "-"), in.Source)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, g := range all {
		s := ofK3s(g.Name)
		if s == nil {
			given = append(given, g)
			continue
		}
		warning, err := s.take(g.Written, g.Value)
		if err != nil {
			return nil, nil, err
		}
		l.warnings = append(l.warnings, warning)
	}
	return given, rest, nil
}

// explainFlag replaces the error for an unknown flag by a better one if the
// other mode has that flag.
func (l *loader) explainFlag(err error, args []string) error {
	both := slices.Concat(Specs(l.table), Specs(l.otherTable), specsOfK3s())
	given, _, errBoth := Scan(l.command, both, args)
	if errBoth != nil {
		return err
	}
	for _, g := range given {
		if g.Name != "help" && find(l.table, g.Name) == nil && ofK3s(g.Name) == nil {
			return &problem.Input{Source: g.Written, Err: ErrOtherMode, Want: "it with \"" + l.other + "\" only"}
		}
	}
	return err
}

func (l *loader) configFile(src Source, given []Given) (path string, mustExist bool) {
	for _, g := range slices.Backward(given) {
		if g.Name == "config" {
			return g.Value, true
		}
	}
	if v, ok := lookup(src.LookupEnv, find(l.table, "config").Env); ok {
		return v, true
	}
	if src.DefaultFile != "" {
		return src.DefaultFile, false
	}
	return DefaultConfigFile, false
}

func lookup(lookupEnv func(string) (string, bool), name string) (string, bool) {
	if lookupEnv == nil || name == "" {
		return "", false
	}
	v, ok := lookupEnv(name)
	return v, ok && v != ""
}

func (l *loader) applyEntries(entries []entry) error {
	lists := map[string][]string{}
	for i := range entries {
		e := &entries[i]
		s := find(l.table, e.key)
		if s == nil {
			if err := l.notOurs(e); err != nil {
				return err
			}
			continue
		}
		switch {
		case s.FlagOnly:
			return &problem.Input{Source: e.source(), Err: ErrUnknownKey, Want: "it as a flag only, " + Dashed(s.Name)}
		case s.Kind() != List && e.isList:
			return &problem.Input{Source: e.source(), Err: fmt.Errorf("a list"), Want: s.Kind().Want()}
		case s.Kind() != List && e.appends:
			return &problem.Input{Source: e.source(), Err: fmt.Errorf("%q does not hold a list", s.Name),
				Want: fmt.Sprintf("%q without the +", s.Name)}
		}
		values := e.values
		if e.appends {
			values = slices.Concat(lists[s.Name], values)
		}
		lists[s.Name] = values
		if err := s.set(values); err != nil {
			return &problem.Input{Source: e.source(), Value: values[0], Want: s.Kind().Want()}
		}
		l.origins[s.Name] = e.source()
	}
	return nil
}

// notOurs decides about a key that the mode's table lacks.
func (l *loader) notOurs(e *entry) error {
	if find(l.otherTable, e.key) != nil {
		if l.ignoreOther {
			l.warnings = append(l.warnings,
				fmt.Sprintf("%s: ignored, it is a setting of %q only", e.source(), l.other))
			return nil
		}
		return &problem.Input{Source: e.source(), Err: ErrOtherMode, Want: "it with \"" + l.other + "\" only"}
	}
	if s := ofK3s(e.key); s != nil {
		value := ""
		if len(e.values) > 0 {
			value = e.values[0]
		}
		warning, err := s.take(e.source(), value)
		if err == nil {
			l.warnings = append(l.warnings, warning)
		}
		return err
	}
	names := make([]string, 0, len(l.table))
	for i := range l.table {
		if !l.table[i].FlagOnly {
			names = append(names, l.table[i].Name)
		}
	}
	in := &problem.Input{Source: e.source(), Err: ErrUnknownKey,
		Want: `the name of a flag that "` + l.command + ` --help" lists, without dashes`}
	if near := Nearest(e.key, names); near != "" {
		in.Want = fmt.Sprintf("%q, or %s", near, in.Want)
	}
	return in
}

func (l *loader) applyEnv(lookupEnv func(string) (string, bool)) error {
	for i := range l.table {
		s := &l.table[i]
		v, ok := lookup(lookupEnv, s.Env)
		if !ok {
			continue
		}
		if err := s.set([]string{v}); err != nil {
			return &problem.Input{Source: "environment variable " + s.Env, Value: v, Want: s.Kind().Want()}
		}
		l.origins[s.Name] = "environment variable " + s.Env
	}
	return nil
}

func (l *loader) applyFlags(given []Given) error {
	values := map[string][]string{}
	for _, g := range given {
		values[g.Name] = append(values[g.Name], g.Value)
		l.origins[g.Name] = g.Written
	}
	for name, vs := range values {
		if err := find(l.table, name).set(vs); err != nil {
			return fmt.Errorf("%s: %w", l.source(name), err) // Scan checked the kinds
		}
	}
	return nil
}
