package problem

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Exit codes of the a4s command.
const (
	// ExitBadInput is the exit code for bad input and for any failure that
	// is not a failed precondition of the machine.
	ExitBadInput = 1
	// ExitPrecondition is the exit code for a machine that cannot run what
	// was asked: an occupied port, a full disk, a damaged data directory.
	ExitPrecondition = 2
)

// Input is a mistake in what the user gave: a flag, a configuration key, a
// file or an argument.
type Input struct {
	// Source names where the value came from, such as "--node-ip" or
	// "/etc/a4s/config.yaml: key \"node-ip\"".
	Source string
	// Value is the offending value, empty when there is none to show.
	Value string
	// Want says what would be valid, as a clause: "an IP address".
	Want string
	// Err is the cause, if there is one.
	Err error
}

// Error formats the mistake as source, value, cause and remedy.
func (e *Input) Error() string {
	var b strings.Builder
	b.WriteString(e.Source)
	if e.Value != "" {
		fmt.Fprintf(&b, ": invalid value %q", e.Value)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Want != "" {
		fmt.Fprintf(&b, ": want %s", e.Want)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Input) Unwrap() error { return e.Err }

// Precondition is a property of the machine that a4s needs and did not find.
type Precondition struct {
	// What names the thing that was checked, such as "port 6443/tcp
	// (--https-listen-port)".
	What string
	// Fix says what the operator can do about it, as a clause.
	Fix string
	// Err is the cause, if there is one.
	Err error
}

// Error formats the failed precondition as subject, cause and remedy.
func (e *Precondition) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Fix != "" {
		fmt.Fprintf(&b, ": %s", e.Fix)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Precondition) Unwrap() error { return e.Err }

// ExitCode returns the exit code for err: 0 for nil, ExitPrecondition when a
// Precondition is in its chain, ExitBadInput otherwise.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var p *Precondition
	if errors.As(err, &p) {
		return ExitPrecondition
	}
	return ExitBadInput
}

// WithoutPath drops the path from an error of package os, for a problem that names it already.
func WithoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
