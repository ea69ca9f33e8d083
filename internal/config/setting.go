package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a setting's value.
type Kind int

// The kinds of settings.
const (
	String Kind = iota
	Bool
	Int
	List
	// Duration is used by short-lived commands only; see Scan.
	Duration
)

// Setting is one setting of a mode: a command-line flag, a key of the
// configuration file and, for some, an environment variable.
type Setting struct {
	// Name is the flag and the file key.
	Name string
	// Aliases are further names of the flag; files do not know them.
	Aliases []string
	// Former are the names that it had in earlier versions. Flags and files understand
	// them, and nothing shows them.
	Former []string
	// Env is the environment variable, empty if there is none.
	Env string
	// Category groups settings in the help and in the documentation.
	Category string
	// Usage says what the setting does.
	Usage string
	// Placeholder stands for the value in the help.
	Placeholder string
	// Default is the default of a scalar in text form.
	Default string
	// DefaultText describes a default that is derived at run time.
	DefaultText string
	// Choices are the valid values of an enumeration.
	Choices []string
	// Commas says that one value of a List may hold several.
	Commas bool
	// FlagOnly keeps the setting out of files.
	FlagOnly bool

	// target is a *string, *bool, *int or *[]string in the mode's struct.
	target any
}

// Kind returns the type of the setting's value.
func (s *Setting) Kind() Kind {
	switch s.target.(type) {
	case *bool:
		return Bool
	case *int:
		return Int
	case *[]string:
		return List
	default:
		return String
	}
}

// Names returns all names of the flag, the canonical one first.
func (s *Setting) Names() []string {
	return append([]string{s.Name}, s.Aliases...)
}

// set writes values, the last one for a scalar, to the mode's struct.
func (s *Setting) set(values []string) error {
	if t, ok := s.target.(*[]string); ok {
		*t = s.split(values)
		return nil
	}
	if len(values) == 0 {
		return nil
	}
	last := values[len(values)-1]
	if err := checkKind(s.Kind(), last); err != nil {
		return err
	}
	switch t := s.target.(type) {
	case *string:
		*t = last
	case *bool:
		*t, _ = strconv.ParseBool(last) // checked above
	case *int:
		*t, _ = strconv.Atoi(last)
	default:
		return fmt.Errorf("setting %s has a target of type %T", s.Name, s.target)
	}
	return nil
}

func (s *Setting) split(values []string) []string {
	if !s.Commas {
		return slices.Clone(values)
	}
	var out []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			out = append(out, strings.TrimSpace(part))
		}
	}
	return out
}

// applyDefaults sets every scalar of the table to its default.
func applyDefaults(table []Setting) error {
	for i := range table {
		s := &table[i]
		if s.Default == "" {
			continue
		}
		if err := s.set([]string{s.Default}); err != nil {
			return fmt.Errorf("default of %s: %w", s.Name, err)
		}
	}
	return nil
}

// find finds a setting by its name or a former one, nil if there is none.
func find(table []Setting, name string) *Setting {
	for i := range table {
		if table[i].Name == name || slices.Contains(table[i].Former, name) {
			return &table[i]
		}
	}
	return nil
}
