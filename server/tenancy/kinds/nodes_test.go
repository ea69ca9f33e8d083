package kinds

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNodeFieldsAreAllDecided fails when Kubernetes adds a field, until somebody
// has decided whether tenants see it.
func TestNodeFieldsAreAllDecided(t *testing.T) {
	decided := map[string]bool{}
	for _, f := range NodeFields() {
		decided[f.Path] = true
	}
	var walk func(of reflect.Type, at string)
	walk = func(of reflect.Type, at string) {
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue // of the type
			}
			path, inner := strings.TrimPrefix(at+"."+name, "."), f.Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			switch path {
			case "metadata", "spec", "status", "status.nodeInfo", "status.conditions":
				walk(inner, path)
				continue
			}
			if !decided[path] {
				t.Errorf("%s is not decided", path)
			}
			delete(decided, path)
		}
	}
	walk(reflect.TypeOf(corev1.Node{}), "")
	for path := range decided {
		t.Errorf("%s is no field any more", path)
	}
}
