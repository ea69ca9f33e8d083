package storage_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
)

// TestSeedETCDKeyPathsSystemSpaceKeepsItsKeys is the seed's first rule: the
// keys of the system space are those of plain Kubernetes.
func TestSeedETCDKeyPathsSystemSpaceKeepsItsKeys(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		accounts, pvs, ns, machines := open(serviceAccounts()), open(volumes()), open(namespaces()), open(nodes())
		accounts.create(t, "kube-system", "job-controller")
		pvs.create(t, "", "pv1.with.dots")
		ns.create(t, "", "kube-public")
		machines.create(t, "", "node.example.com")
		same(t, "serviceaccounts", accounts.keys(t), "/registry/serviceaccounts/kube-system/job-controller")
		same(t, "persistentvolumes", pvs.keys(t), "/registry/persistentvolumes/pv1.with.dots")
		same(t, "namespaces", ns.keys(t), "/registry/namespaces/kube-public")
		same(t, "nodes", machines.keys(t), "/registry/minions/node.example.com")
	})
}

// TestSeedETCDKeyPathsTenantComesFirst is the seed's second rule: a tenant's
// name stands before the namespace or, where there is none, before the name.
// What is written comes back under its composite name, by every way to ask.
func TestSeedETCDKeyPathsTenantComesFirst(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		for _, c := range []struct {
			resource
			namespace, name, key string
		}{
			{serviceAccounts(), "kube-system.tenant-a", "job-controller",
				"/registry/serviceaccounts/tenant-a/kube-system/job-controller"},
			{namespaces(), "", "kube-public.tenant-a", "/registry/namespaces/tenant-a/kube-public"},
			{volumes(), "", "pv.1.tenant-a.tenant", "/registry/persistentvolumes/tenant-a/pv.1"},
			{clusterRoles(), "", "own.tenant-a.tenant", "/registry/clusterroles/tenant-a/own"},
		} {
			s := open(c.resource)
			version := s.create(t, c.namespace, c.name)
			same(t, c.Resource, s.keys(t), c.key)
			for _, atLeast := range []string{"", "0", version} {
				got := s.newObject()
				if err := s.Get(in(t, "tenant-a"), s.key(c.namespace, c.name),
					apistorage.GetOptions{ResourceVersion: atLeast}, got); err != nil && atLeast != "0" {
					t.Fatalf("%s at %q: %v", c.Resource, atLeast, err)
				} else if want := nameOf(t, s.object(c.namespace, c.name)); err == nil && nameOf(t, got) != want {
					t.Errorf("%s at %q is %s", want, atLeast, nameOf(t, got))
				}
			}
			if err := s.Delete(in(t, "tenant-a"), s.key(c.namespace, c.name), s.newObject(), nil,
				apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			same(t, c.Resource, s.keys(t))
		}
	})
}

// TestSystemOnlyKindsAreTheSystems: a kind that tenants do not have has no
// keys of tenants, and in a tenant's namespace it is found where it lies.
func TestSystemOnlyKindsAreTheSystems(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		machines := open(nodes())
		if err := machines.Create(t.Context(), "/minions/n.t1.tenant", machines.object("", "n.t1.tenant"), nil,
			0); !apierrors.IsInvalid(err) {
			t.Errorf("a node with a reserved name: %v", err)
		}
		// As plain Kubernetes may have left it.
		machines.create(t, "", "n1")
		kv, err := machines.etcd.Get(t.Context(), "/registry/minions/n1")
		if err != nil {
			t.Fatal(err)
		}
		raw := strings.ReplaceAll(string(kv.Kvs[0].Value), `"n1"`, `"n.t1.tenant"`)
		if _, err := machines.etcd.Put(t.Context(), "/registry/minions/n.t1.tenant", raw); err != nil {
			t.Fatal(err)
		}
		got, _ := machines.list(t, in(t, space.System), "/minions", nil)
		same(t, "nodes", got, "n.t1.tenant", "n1")
		if err := machines.Get(t.Context(), "/minions/n.t1.tenant", apistorage.GetOptions{},
			machines.newObject()); err != nil {
			t.Errorf("reading what plain Kubernetes left: %v", err)
		}

		r := configMaps()
		r.Resource, r.prefix = "daemonsets", "/daemonsets"
		r.Group = "apps"
		daemons := open(r)
		daemons.create(t, "default.t1", "x")
		same(t, "daemonsets", daemons.keys(t), "/registry/daemonsets/t1/default/x")
		got, _ = daemons.list(t, t.Context(), daemons.key("default.t1", ""), nil)
		same(t, "those of a tenant's namespace", got, "default.t1/x")
		if err := daemons.Create(in(t, "t1"), daemons.key("default.t1", "y"), daemons.object("default.t1", "y"), nil,
			0); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "runs on every node") {
			t.Errorf("a tenant makes a DaemonSet: %v", err)
		}
	})
}

// TestNamesThatCannotBeComposed are refused whichever way they are made.
func TestNamesThatCannotBeComposed(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		s := open(volumes())
		upsert := func(name string) error {
			return s.GuaranteedUpdate(t.Context(), s.key("", name), s.newObject(), true, nil,
				apistorage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) {
					return s.object("", name), nil
				}), nil)
		}
		create := func(name string) error {
			return s.Create(t.Context(), s.key("", name), s.object("", name), s.newObject(), 0)
		}
		for name, make := range map[string]func(string) error{"create": create, "update": upsert} {
			for _, c := range []struct{ name, says string }{
				{strings.Repeat("n", 244) + ".t1.tenant", "at most 243 are possible in tenant t1"},
				{"x.tenant", "belong to tenants"},
			} {
				err := make(c.name)
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s of %.20s…: %v", name, c.name, err)
				}
				var status apierrors.APIStatus
				if errors.As(err, &status) && status.Status().Code != 422 {
					t.Errorf("%s of %.20s…: code %d", name, c.name, status.Status().Code)
				}
			}
			if err := make(strings.Repeat("n", 242) + name[:1] + ".t1.tenant"); err != nil {
				t.Errorf("%s of the longest name: %v", name, err)
			}
		}
		if n := len(s.keys(t)); n != 2 {
			t.Errorf("%d objects were made", n)
		}
	})
}

// TestLabelOfTheTenant: storage has the last word about it.
func TestLabelOfTheTenant(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		for _, c := range []struct {
			resource
			name, want string
		}{
			{namespaces(), "default.t1", "t1"},
			{namespaces(), "default", ""},
			{clusterRoles(), "r.t1.tenant", "t1"},
			{clusterRoles(), "r", ""},
			{volumes(), "pv.t1.tenant", "t1"},
			{volumes(), "pv", ""},
			{nodes(), "n", "forged"}, // not a kind that has it
		} {
			s := open(c.resource)
			labelOf := func(obj runtime.Object) string {
				switch o := obj.(type) {
				case *corev1.Namespace:
					return o.Labels[space.Label]
				case *rbacv1.ClusterRole:
					return o.Labels[space.Label]
				case *corev1.PersistentVolume:
					return o.Labels[space.Label]
				case *corev1.Node:
					return o.Labels[space.Label]
				}
				return "unknown"
			}
			forge := func(obj runtime.Object) runtime.Object {
				labels := map[string]string{space.Label: "forged"}
				switch o := obj.(type) {
				case *corev1.Namespace:
					o.Labels = labels
				case *rbacv1.ClusterRole:
					o.Labels = labels
				case *corev1.PersistentVolume:
					o.Labels = labels
				case *corev1.Node:
					o.Labels = labels
				}
				return obj
			}
			out := s.newObject()
			if err := s.Create(t.Context(), s.key("", c.name), forge(s.object("", c.name)), out, 0); err != nil {
				t.Fatal(err)
			}
			if got := labelOf(out); got != c.want {
				t.Errorf("%s %s is created with %q", c.Resource, c.name, got)
			}
			out = s.newObject()
			if err := s.GuaranteedUpdate(t.Context(), s.key("", c.name), out, false, nil,
				apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
					return forge(obj), nil
				}), nil); err != nil {
				t.Fatal(err)
			}
			if got := labelOf(out); got != c.want {
				t.Errorf("%s %s is updated to %q", c.Resource, c.name, got)
			}
		}
	})
}
