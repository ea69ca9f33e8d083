package tenantapi

import (
	"slices"
	"testing"
)

func TestHostEntries(t *testing.T) {
	for host, want := range map[string][]string{
		"": nil, "x": {"x"}, "a.x": {"a.x", "*.x"}, "a.b.x": {"a.b.x", "*.b.x", "*.x"}, "*.x": {"*.x"},
		"*.b.x": {"*.b.x", "*.x"},
	} {
		if got := slices.Collect(HostEntries(host)); !slices.Equal(got, want) {
			t.Errorf("%q may be had by %q, want %q", host, got, want)
		}
	}
}
