package sizes

import (
	"os"
	"strconv"
	"testing"
)

// Of is the number that a variable of the environment has, or the usual one without it. What is
// no number fails the test.
func Of(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
