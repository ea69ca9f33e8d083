package owners

import (
	"reflect"
	"testing"

	"k8s.io/client-go/metadata"
)

// TestEveryMethodOfTheCollectorsClientIsDecided: a method that is new would take UIDs that are
// the graph's alone to the API.
func TestEveryMethodOfTheCollectorsClientIsDecided(t *testing.T) {
	decided := map[string]string{
		"Get": "translated", "Delete": "translated", "Patch": "translated",
		"List": "the collector does not call it", "Watch": "the collector does not call it",
		"DeleteCollection": "the collector does not call it",
	}
	of := reflect.TypeFor[metadata.ResourceInterface]()
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		if decided[name] == "" {
			t.Errorf("%s is new: translate it, or say here why it need not be", name)
		}
		delete(decided, name)
	}
	for name := range decided {
		t.Errorf("%s is no method of the client any more", name)
	}
}
