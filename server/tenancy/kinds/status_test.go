package kinds

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestStatusFieldsAreAllDecided fails when Kubernetes adds a field, until
// somebody has decided who writes it.
func TestStatusFieldsAreAllDecided(t *testing.T) {
	decided := map[string]bool{}
	for _, f := range StatusFields() {
		decided[f.Kind+"."+f.Field] = true
	}
	for kind, status := range map[string]any{"Pod": corev1.PodStatus{}, "Service": corev1.ServiceStatus{}} {
		for i := range reflect.TypeOf(status).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(status).Field(i).Tag.Get("json"), ",")
			if key := kind + "." + name; !decided[key] {
				t.Errorf("%s is not decided", key)
			} else {
				delete(decided, key)
			}
		}
	}
	for key := range decided {
		t.Errorf("%s is no field any more", key)
	}
}
