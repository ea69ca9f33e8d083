package spaces_test

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var updateParity = flag.Bool("update", false, "rewrite the differences in docs/tenants/tenants.md")

// The table stands between these lines.
const (
	parityBegin = "<!-- parity: made of the intentions of TestParity by go test ./tests/integration/spaces -run " +
		"TestParityIsDocumented -update -->\n"
	parityEnd = "<!-- /parity -->\n"
)

// TestParityIsDocumented compares the table of intended differences with that
// of the documentation. That each entry of it is met, TestParity tells.
func TestParityIsDocumented(t *testing.T) {
	const path = "../../../docs/tenants/tenants.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), parityBegin)
	got, after, closed := strings.Cut(rest, parityEnd)
	if !ok || !closed {
		t.Fatalf("%s has not the lines %s and %s", path, parityBegin, parityEnd)
	}
	var want strings.Builder
	want.WriteString("| | In a tenant | Why |\n|---|---|---|\n")
	named := map[string]bool{}
	for _, i := range parityIntentions() {
		if named[i.name] || strings.ContainsAny(i.what+i.why, "|\n") {
			t.Errorf("the intention %q comes twice, or is no row of a table", i.name)
		}
		named[i.name] = true
		want.WriteString("| " + i.name + " | " + i.what + " | " + i.why + " |\n")
	}
	if got == want.String() {
		return
	}
	if !*updateParity {
		t.Fatalf("the differences in %s are others than those of TestParity: run this test with -update", path)
	}
	if err := os.WriteFile(path, []byte(before+parityBegin+want.String()+parityEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
