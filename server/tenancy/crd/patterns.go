package crd

import "regexp/syntax"

// bytesOfStep is about what a step of a pattern takes while it can be compiled: 42 bytes were measured.
const bytesOfStep = 42

// Steps of different patterns that one CRD can have, and all of a tenant: 4 and 42 MB. Sixty known CRDs have 6,000
// together.
const (
	stepsOfOne = 100_000
	stepsOfAll = 10 * stepsOfOne
)

// steps are about the instructions that a regular expression compiles to, told without compiling it: ten characters
// can make a thousand. What does not compile has none.
func steps(pattern string) int64 {
	if pattern == "" {
		return 0
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	program, runes := measure(parsed)
	return program + runes*4/bytesOfStep
}

// measure counts instructions, and the characters of classes, which repetitions share.
func measure(r *syntax.Regexp) (program, runes int64) {
	program = 1
	switch r.Op {
	case syntax.OpLiteral:
		program = int64(len(r.Rune))
	case syntax.OpCharClass:
		runes = int64(len(r.Rune))
	case syntax.OpRepeat:
		return measureRepeated(r)
	}
	for _, sub := range r.Sub {
		p, u := measure(sub)
		program, runes = program+p, runes+u
	}
	return program, runes
}

func measureRepeated(r *syntax.Regexp) (program, runes int64) {
	program, runes = measure(r.Sub[0])
	if r.Min != r.Max {
		program++ // the one to leave at
	}
	times := r.Max
	if times < 0 {
		times = r.Min + 1
	}
	return program * int64(times), runes
}
