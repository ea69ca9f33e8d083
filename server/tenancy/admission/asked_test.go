package admission

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

func TestWhoWroteIt(t *testing.T) {
	controller := func(name string) user.Info { return &user.DefaultInfo{Name: accountsOfControllers + name} }
	tenants := &user.DefaultInfo{Name: "admin", Extra: map[string][]string{space.Extra: {"t1"}}}
	account := &user.DefaultInfo{Name: "system:serviceaccount:kube-system.t1:replicaset-controller"}
	for _, c := range []struct {
		name          string
		user          user.Info
		resource, sub string
		op            admission.Operation
		want          author
	}{
		{"a user of the tenant", tenants, "pods", "", admission.Create, aUser},
		{"a user who deletes", tenants, "pods", "", admission.Delete, aUser},
		{"a service account with the name of a controller", account, "pods", "", admission.Create, aUser},
		{"a controller makes a pod", controller("replicaset-controller"), "pods", "", admission.Create, aWorkload},
		{"a controller adopts a pod", controller("replicaset-controller"), "pods", "", admission.Update, aWorkload},
		{"a controller deletes a pod", controller("replicaset-controller"), "pods", "", admission.Delete, theSystem},
		{"a controller says how many pods there are", controller("replicaset-controller"), "pods", "status",
			admission.Update, theSystem},
		{"a controller writes something else", controller("replicaset-controller"), "secrets", "",
			admission.Create, theSystem},
		{"the provisioner", controller("persistent-volume-binder"), "persistentvolumes", "",
			admission.Create, theSystem},
		{"the garbage collector", controller("generic-garbage-collector"), "pods", "", admission.Update, theSystem},
		{"a namespace gets its account", controller("service-account-controller"), "serviceaccounts", "",
			admission.Create, theSystem},
		{"a node", &user.DefaultInfo{Name: "system:node:n"}, "pods", "status", admission.Update, theSystem},
		{"a node's event", &user.DefaultInfo{Name: "system:node:n"}, "events", "", admission.Create, theSystem},
		{"the scheduler binds", &user.DefaultInfo{Name: "system:kube-scheduler"}, "pods", "binding",
			admission.Create, theSystem},
		{"an administrator of the cluster", &user.DefaultInfo{Name: "admin",
			Groups: []string{user.SystemPrivilegedGroup}}, "pods", "eviction", admission.Create, theSystem},
		{"nobody", nil, "pods", "", admission.Create, theSystem},
	} {
		attr := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "default.t1", "x",
			schema.GroupVersionResource{Version: "v1", Resource: c.resource}, c.sub, c.op, nil, false, c.user)
		if got := authorOf(attr); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
