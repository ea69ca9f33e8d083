package tenantadmin

import (
	"fmt"
	"strings"
	"testing"
)

// TestLinesSayWhere: pods of equal names are told apart when a node is drained.
func TestLinesSayWhere(t *testing.T) {
	out := &strings.Builder{}
	for _, where := range []string{"", " in partition tp2"} {
		n, err := fmt.Fprint(linesOf{out, where}, "evicting pod a/x\nevicting pod a/y\n")
		if err != nil || n != 34 {
			t.Errorf("%d, %v", n, err)
		}
	}
	want := "evicting pod a/x\nevicting pod a/y\n" +
		"evicting pod a/x in partition tp2\nevicting pod a/y in partition tp2\n"
	if got := out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
