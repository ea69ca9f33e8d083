package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

// Causes of a problem.Input that Scan and the file loader return.
var (
	// ErrUnknownFlag means that no setting has this flag.
	ErrUnknownFlag = errors.New("unknown flag")
	// ErrUnknownKey means that no setting has this file key.
	ErrUnknownKey = errors.New("unknown key")
	// ErrUnknownCommand means that there is no such command.
	ErrUnknownCommand = errors.New("unknown command")
	// ErrNoValue means that a flag that needs a value has none.
	ErrNoValue = errors.New("no value")
	// ErrOtherMode means that the setting belongs to another command.
	ErrOtherMode = errors.New("not a setting of this command")
	// ErrHelp means that -h or --help was given.
	ErrHelp = errors.New("help was asked for")
)

// Spec is what Scan has to know about a flag.
type Spec struct {
	// Names are all names, the canonical one first; Former are names that are understood and
	// not told.
	Names, Former []string
	Kind          Kind
}

// has reports whether the flag has this name, or had it.
func (s *Spec) has(name string) bool {
	return slices.Contains(s.Names, name) || slices.Contains(s.Former, name)
}

// Given is one flag found on the command line.
type Given struct {
	// Name is the canonical name.
	Name string
	// Written is the flag as it was written, with its dashes.
	Written string
	Value   string
}

// Specs returns what Scan has to know about a table, help included.
func Specs(table []Setting) []Spec {
	specs := make([]Spec, 0, len(table)+1)
	for i := range table {
		specs = append(specs, Spec{Names: table[i].Names(), Former: table[i].Former, Kind: table[i].Kind()})
	}
	return append(specs, HelpSpec())
}

// HelpSpec describes the help flag, which every command has.
func HelpSpec() Spec { return Spec{Names: []string{"help", "h"}, Kind: Bool} }

// Scan reads flags up to the first argument that is none, or past "--", by
// the rules of the flag package: one dash or two, "=value" or the next
// argument. It keeps the text of a flag as it was written, for errors.
// command is the command's full name for error messages.
func Scan(command string, specs []Spec, args []string) (given []Given, rest []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return given, args[1:], nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			return given, args, nil
		}
		args = args[1:]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		written := strings.TrimSuffix(arg, "="+value)
		if !hasValue {
			written = arg
		}
		i := slices.IndexFunc(specs, func(s Spec) bool { return s.has(name) })
		if i < 0 {
			return nil, nil, UnknownFlag(command, namesOf(specs), name, written)
		}
		spec := specs[i]
		switch {
		case spec.Kind == Bool && !hasValue:
			value = "true"
		case !hasValue && (len(args) == 0 || takenForFlag(specs, args[0])):
			return nil, nil, &problem.Input{Source: written, Err: ErrNoValue, Want: spec.Kind.Want() + " after it"}
		case !hasValue:
			value, args = args[0], args[1:]
		}
		if err := checkKind(spec.Kind, value); err != nil {
			return nil, nil, &problem.Input{Source: written, Value: value, Want: spec.Kind.Want()}
		}
		given = append(given, Given{Name: spec.Names[0], Written: written, Value: value})
	}
	return given, nil, nil
}

// takenForFlag reports whether arg is one of our flags, so that a flag whose
// value was forgotten does not swallow the next one. Any other text that
// begins with a dash is a value ("--kubelet-arg=-x" has the same meaning).
func takenForFlag(specs []Spec, arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	return slices.ContainsFunc(specs, func(s Spec) bool { return s.has(name) })
}

// namesOf are all names of flags.
func namesOf(specs []Spec) (names []string) {
	for _, s := range specs {
		names = append(names, s.Names...)
	}
	return names
}

// UnknownFlag is the error of a flag that a command has not, written as it was, which says
// which of its names was probably meant.
func UnknownFlag(command string, names []string, name, written string) error {
	in := &problem.Input{Source: written, Err: ErrUnknownFlag, Want: `one that "` + command + ` --help" lists`}
	if near := Nearest(name, names); near != "" {
		in.Want = Dashed(near) + `, or ` + in.Want
	}
	return in
}

// Dashed is the name of a flag as it is written.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// checkKind reports whether value is of the kind.
func checkKind(kind Kind, value string) error {
	var err error
	switch kind {
	case Bool:
		_, err = strconv.ParseBool(value)
	case Int:
		_, err = strconv.Atoi(value)
	case Duration:
		_, err = time.ParseDuration(value)
	}
	return err
}

// Want is what a value of the kind looks like.
func (kind Kind) Want() string {
	switch kind {
	case Bool:
		return "true or false"
	case Int:
		return "a whole number"
	case Duration:
		return `a duration such as "24h" or "30m"`
	default:
		return "a value"
	}
}

// Nearest returns the candidate that a typing mistake most likely meant, or
// "" when none is near.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", 1+max(1, min(3, len(word)/3))
	for _, c := range candidates {
		if len(c) < 2 {
			continue
		}
		if d := distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best != "" {
		return best
	}
	// Half a name, as in "cidr" for "cluster-cidr", is a hint if it is unique.
	var containing []string
	for _, c := range candidates {
		if len(word) >= 3 && strings.Contains(c, word) {
			containing = append(containing, c)
		}
	}
	if len(containing) == 1 {
		return containing[0]
	}
	return ""
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
