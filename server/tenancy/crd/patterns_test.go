package crd

import (
	"regexp/syntax"
	"strings"
	"testing"
)

// TestStepsOfPatterns: what is told of a pattern without compiling it is about what it compiles to, and is no less
// than half.
func TestStepsOfPatterns(t *testing.T) {
	for _, pattern := range []string{
		"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "^.{1,253}$", "(a{10}){10}",
		"(a{0,10}b){3,}", "a|b|c", "(?i)kelvin", "^$", "x*y+z?", strings.Repeat("c{1000}|", 100) + "d",
		"((a?){30}){30}", "[[:word:]]{2,200}",
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		got, is := steps(pattern), int64(len(program.Inst))
		if got*2+10 < is || got > 4*is+20 {
			t.Errorf("%.40s has %d steps, %d are told", pattern, is, got)
		}
	}
	if steps("") != 0 || steps("(") != 0 {
		t.Error("what compiles to nothing has steps")
	}
	if got := steps(strings.Repeat(`\pL`, 10)); got < 500 {
		t.Errorf("classes of thousands of characters are %d steps", got)
	}
}
