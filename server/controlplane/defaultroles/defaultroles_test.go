package defaultroles

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// all are the objects of a cluster that has the roles.
func all() (objects []runtime.Object) {
	p := upstream()
	for _, r := range p.roles {
		objects = append(objects, &r)
	}
	for _, b := range p.bindings {
		objects = append(objects, &b)
	}
	return objects
}

func TestRolesOfANewCluster(t *testing.T) {
	client := fake.NewClientset(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "a4s:node"}})
	var lists, namespaced atomic.Int32
	client.PrependReactor("list", "clusterroles", func(clienttesting.Action) (bool, runtime.Object, error) {
		return lists.Add(1) == 1, nil, errors.New("not yet")
	})
	client.PrependReactor("create", "roles", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return namespaced.Add(1) == 1, nil, apierrors.NewNotFound(rbacv1.Resource("namespaces"), a.GetNamespace())
	})
	looks := 0
	o := Options{
		Client: client, Log: logrus.NewEntry(logrus.StandardLogger()),
		Hook: func(context.Context) error { t.Error("it waited for upstream's hook"); return nil },
		Sees: func(roles, bindings sets.Set[string]) bool { looks++; return looks > 1 },
	}
	if err := o.await(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := upstream()
	if n, err := o.have(t.Context(), p); err != nil || n != len(p.roles)+len(p.bindings) || n < 100 {
		t.Errorf("the cluster has %d of %d, %v", n, len(p.roles)+len(p.bindings), err)
	}
	for namespace, roles := range p.namespaced {
		for _, r := range roles {
			if _, err := client.RbacV1().Roles(namespace).Get(t.Context(), r.Name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	if looks != 2 {
		t.Errorf("it looked %d times whether requests are judged by the roles", looks)
	}
}

// What exists is upstream's to bring up to date.
func TestRolesOfAnExistingClusterAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		has  []runtime.Object
		hook int
	}{
		"complete":        {all(), 0},
		"of another time": {all()[3:], 1},
	} {
		client := fake.NewClientset(c.has...)
		hooks := 0
		o := Options{
			Client: client, Log: logrus.NewEntry(logrus.StandardLogger()),
			Hook: func(context.Context) error { hooks++; return nil },
			Sees: func(_, _ sets.Set[string]) bool { return true },
		}
		if err := o.await(t.Context()); err != nil || hooks != c.hook {
			t.Errorf("%s: %v, it waited %d times for upstream's hook, want %d", name, err, hooks, c.hook)
		}
		for _, a := range client.Actions() {
			if a.GetVerb() != "list" {
				t.Errorf("%s: %s %s", name, a.GetVerb(), a.GetResource().Resource)
			}
		}
	}
}

func TestRolesThatAreRefused(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "clusterrolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(rbacv1.Resource("clusterrolebindings"), "x", nil)
	})
	o := Options{Client: client, Log: logrus.NewEntry(logrus.StandardLogger())}
	if err := o.await(t.Context()); err == nil {
		t.Errorf("%v, want the refusal", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	o.Sees = func(_, _ sets.Set[string]) bool { return false }
	o.Client = fake.NewClientset(all()...)
	if err := o.await(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}
