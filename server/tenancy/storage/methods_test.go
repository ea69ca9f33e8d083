package storage_test

import (
	"reflect"
	"testing"

	apistorage "k8s.io/apiserver/pkg/storage"
)

// TestEveryMethodOfAStorageIsDecided: a storage that is made around another has it embedded, so
// a method that is new in a version of Kubernetes would go past the keys and the border of
// spaces (mapped), the limits of tenants (limits) and the service groups (groups/serving),
// and the compiler would say nothing. Whoever adds a name here has looked at all of them.
func TestEveryMethodOfAStorageIsDecided(t *testing.T) {
	decided := map[string]string{
		"Create":                       "keys, border and limits",
		"Delete":                       "keys, border and limits",
		"GuaranteedUpdate":             "keys, border and limits",
		"Get":                          "keys and border; groups",
		"GetList":                      "keys and border; groups",
		"Watch":                        "keys and border; groups",
		"GetCurrentResourceVersion":    "groups: that of the whole datastore",
		"Versioner":                    "knows no keys",
		"Stats":                        "knows no keys",
		"ReadinessCheck":               "knows no keys",
		"RequestWatchProgress":         "knows no keys",
		"CompactRevision":              "knows no keys",
		"EnableResourceSizeEstimation": "the keys are the cache's own",
	}
	of := reflect.TypeFor[apistorage.Interface]()
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		if decided[name] == "" {
			t.Errorf("%s is new, and passes what is made around a storage: decide there, then here", name)
		}
		delete(decided, name)
	}
	for name := range decided {
		t.Errorf("%s is no method of a storage any more", name)
	}
}
