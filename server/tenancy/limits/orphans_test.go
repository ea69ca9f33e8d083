package limits

import (
	"fmt"
	"slices"
	"testing"
)

// TestUndefinedPlacesAreLookedForBetweenTheDefinedOnes: what the datastore
// counts while it answers must not grow with what the defined places hold.
func TestUndefinedPlacesAreLookedForBetweenTheDefinedOnes(t *testing.T) {
	const root = "/registry"
	places := []string{root + "/pods", root + "/a", root + "/a.b/things", root + "/a.b", root + "/services/specs"}
	gaps := between(root, places)
	if !slices.IsSortedFunc(gaps, func(a, b keyRange) int {
		if a.end <= b.from {
			return -1
		}
		return 1
	}) {
		t.Errorf("%v: not in order, or they overlap", gaps)
	}
	for key, want := range map[string]bool{
		root + "/pods/t-1/web":              false,
		root + "/pods/":                     false,
		root + "/a/x":                       false,
		root + "/a.b/x":                     false,
		root + "/a.b/things/t-1/x":          false,
		root + "/services/specs/default/x":  false,
		root + "/services/endpoints/t-1/x":  true,
		root + "/podsecurity/x":             true,
		root + "/pods.example.com/web/t/x":  true,
		root + "/a.c/things/t-1/x":          true,
		root + "/z.example.com/things/t/x":  true,
		root + "/0.example.com/things/t/x":  true,
		"/registry.example.com/things/t-1/": false,
		"/a":                                false,
	} {
		if got := slices.ContainsFunc(gaps,
			func(g keyRange) bool { return g.from <= key && key < g.end }); got != want {
			t.Errorf("%s is looked at: %v, want %v (%s)", key, got, want, fmt.Sprint(gaps))
		}
	}
}
