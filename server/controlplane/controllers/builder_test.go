package controllers

import (
	"reflect"
	"testing"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/a4s-io/a4s/server/controlplane/controllers/gate"
)

// TestEveryMethodOfABuilderIsDecided: the builders that are made around another have it
// embedded. A client that upstream's controllers get by a method that is new would send its
// requests past the gate, in which tenants take turns, and would see all nodes.
func TestEveryMethodOfABuilderIsDecided(t *testing.T) {
	decided := map[string]string{
		"Config":               "of the gate; no controller of nodes makes its client of one",
		"Client":               "of the gate, and of nodes",
		"ConfigOrDie":          "nobody calls it",
		"ClientOrDie":          "nobody calls it",
		"DiscoveryClient":      "asks about no objects",
		"DiscoveryClientOrDie": "asks about no objects",
	}
	field, ok := reflect.TypeFor[app.ControllerContext]().FieldByName("ClientBuilder")
	if !ok || field.Type != reflect.TypeFor[gate.Builder]() {
		t.Fatalf("the controllers are made with a %v, not with a gate.Builder", field.Type)
	}
	for i := range field.Type.NumMethod() {
		name := field.Type.Method(i).Name
		if decided[name] == "" {
			t.Errorf("%s is new, and passes what is made around a builder: decide there, then here", name)
		}
		delete(decided, name)
	}
	for name := range decided {
		t.Errorf("%s is no method of a builder any more", name)
	}
}

// TestEveryFieldOfAContextIsDecided: upstream's own maker of it is not used, and what is new
// there and not set here would be missing in controllers that nobody knows of.
func TestEveryFieldOfAContextIsDecided(t *testing.T) {
	decided := map[string]string{
		"ClientBuilder": "set", "InformerFactory": "set", "ObjectOrMetadataInformerFactory": "set",
		"ComponentConfig": "set", "RESTMapper": "set", "InformersStarted": "set", "ResyncPeriod": "set",
		"ControllerManagerMetrics": "set", "GraphBuilder": "set, if there is a garbage collector",
	}
	of := reflect.TypeFor[app.ControllerContext]()
	for i := range of.NumField() {
		name := of.Field(i).Name
		if decided[name] == "" {
			t.Errorf("%s is new: set it as upstream does, then say so here", name)
		}
		delete(decided, name)
	}
	for name := range decided {
		t.Errorf("%s is no field of a context any more", name)
	}
}
