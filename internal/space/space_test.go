package space_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

// TestSeedETCDKeyPaths has the four examples of the seed's section of that
// name, and what is ambiguous about them.
func TestSeedETCDKeyPaths(t *testing.T) {
	for _, c := range []struct {
		layout            space.Layout
		prefix, key, want string
	}{
		{space.ClusterScoped, "/registry/apiregistration.k8s.io/apiservices",
			"/registry/apiregistration.k8s.io/apiservices/v1beta1.node.k8s.io",
			"/registry/apiregistration.k8s.io/apiservices/v1beta1.node.k8s.io"},
		{space.Namespaced, "/registry/serviceaccounts", "/registry/serviceaccounts/kube-system/job-controller",
			"/registry/serviceaccounts/kube-system/job-controller"},
		{space.Namespaces, "/registry/namespaces", "/registry/namespaces/kube-public.tenant-a",
			"/registry/namespaces/tenant-a/kube-public"},
		{space.Namespaced, "/registry/serviceaccounts",
			"/registry/serviceaccounts/kube-system.tenant-a/job-controller",
			"/registry/serviceaccounts/tenant-a/kube-system/job-controller"},
		{space.ClusterScoped, "/persistentvolumes", "/persistentvolumes/pv1.t1.tenant", "/persistentvolumes/t1/pv1"},
		{space.ClusterScoped, "/crds", "/crds/foos.example.com.t1.tenant", "/crds/t1/foos.example.com"},
		{space.Namespaced, "/services/specs", "/services/specs/default.t1/web", "/services/specs/t1/default/web"},
		// Prefixes of lists.
		{space.Namespaced, "/pods", "/pods/default.t1/", "/pods/t1/default/"},
		{space.Namespaced, "/pods", "/pods/default.t1", "/pods/t1/default"},
		{space.Namespaced, "/pods", "/pods/t1/", "/pods/t1/"}, // the system's namespace t1
		{space.Namespaced, "/pods", "/pods", "/pods"},
		{space.Namespaced, "/pods", "/pods/", "/pods/"},
		// Names with dots are names, not spaces.
		{space.Namespaced, "/pods", "/pods/default/web.t1", "/pods/default/web.t1"},
		{space.Namespaced, "/pods", "/podsother/default.t1/web", "/podsother/default.t1/web"},
		{space.ClusterScoped, "/crds", "/crds/foos.example.tenant", "/crds/example/foos"},
	} {
		if got := space.StoredKey(c.layout, c.prefix, c.key); got != c.want {
			t.Errorf("%s: %s, want %s", c.key, got, c.want)
		}
	}
	if got := space.TenantPrefix("/pods", "t1"); got != "/pods/t1/" {
		t.Errorf("prefix %s", got)
	}
}

func TestReservedWordsAndLimits(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind error
	}{
		{space.ValidateTenant("t1"), nil},
		{space.ValidateTenant(strings.Repeat("a", 24)), nil},
		{space.ValidateTenant("0-a"), nil},
		{space.ValidateTenant(strings.Repeat("a", 25)), space.ErrTooLong},
		{space.ValidateTenant("system"), space.ErrReserved},
		{space.ValidateTenant("all"), space.ErrReserved},
		{space.ValidateTenant(""), space.ErrInvalid},
		{space.ValidateTenant("T1"), space.ErrInvalid},
		{space.ValidateTenant("a.b"), space.ErrInvalid},
		{space.ValidateTenant("-a"), space.ErrInvalid},
		{space.ValidateTenant("a-"), space.ErrInvalid},
		{space.CheckClusterName("t1", strings.Repeat("n", 243)), nil},
		{space.CheckClusterName("t1", strings.Repeat("n", 244)), space.ErrTooLong},
		{space.CheckClusterName(space.System, "x.tenant"), space.ErrReserved},
		{space.CheckClusterName(space.System, "x.tenants"), nil},
	} {
		if !errors.Is(c.err, c.kind) {
			t.Errorf("%v, want %v", c.err, c.kind)
		}
	}
	for tenant, want := range map[string]int{"t1": 60, space.System: 63, "": 63} {
		if room := space.Room(tenant); room != want {
			t.Errorf("a namespace of %q has room for %d characters, want %d", tenant, room, want)
		}
	}
}

// isNamespace reports whether native can be a namespace of tenant, as server/controlplane/apiserver decides.
func isNamespace(tenant, native string) bool {
	return native != "" && !strings.Contains(native, ".") && len(native) <= space.Room(tenant)
}

func TestUsersAndGroups(t *testing.T) {
	for _, c := range []struct{ native, composite, tenant string }{
		{"system:serviceaccount:default:builder", "system:serviceaccount:default.t1:builder", "t1"},
		{"alice", "alice", ""},
		{"system:admin", "system:admin", ""},
		{"system:serviceaccount:", "system:serviceaccount:", ""},
		{"system:serviceaccount:x", "system:serviceaccount:x", ""},
	} {
		if got := space.User("t1", c.native); got != c.composite {
			t.Errorf("%s: %s", c.native, got)
		}
		if tenant, native := space.SplitUser(c.composite); tenant != c.tenant || native != c.native {
			t.Errorf("%s: %s of %q", c.composite, native, tenant)
		}
	}
	if got := space.Group("t1", "system:serviceaccounts:default"); got != "system:serviceaccounts:default.t1" {
		t.Error(got)
	}
	if tenant, native := space.SplitGroup("system:serviceaccounts:default.t1"); tenant != "t1" ||
		native != "system:serviceaccounts:default" {
		t.Errorf("%s of %q", native, tenant)
	}
	for native, composite := range map[string]string{"system:masters": "system:masters.t1",
		"system:masters.t2": "system:masters.t2.t1"} {
		if got := space.Group("t1", native); got != composite {
			t.Error(got)
		}
		if tenant, split := space.SplitGroup(composite); tenant != "t1" || split != native {
			t.Errorf("%s of %q", split, tenant)
		}
	}
	if got := space.Group(space.System, space.Masters); got != space.Masters {
		t.Error(got)
	}
	if tenant, native := space.SplitGroup(space.Masters); tenant != "" || native != space.Masters {
		t.Errorf("%s of %q", native, tenant)
	}
	if got := space.Group("t1", "system:serviceaccounts"); got != "system:serviceaccounts" {
		t.Error(got)
	}
}

// valid reports whether two names can be in a cluster.
func valid(tenant, native string) bool {
	return (tenant == space.System || space.ValidateTenant(tenant) == nil) && native != "" &&
		!strings.Contains(native, "/")
}

// FuzzNames: splitting is the inverse of composing, and two different names
// never share a composite name or a stored key.
func FuzzNames(f *testing.F) {
	f.Add("t1", "default", "system", "default.t1")
	f.Add("t1", "pv1", "t2", "pv1")
	f.Add("system", "x.t1.tenant", "t1", "x")
	f.Add("a", "b.a", "a", "b")
	f.Add("tenant", "x", "system", "x.tenant.tenant")
	f.Fuzz(func(t *testing.T, tenant1, native1, tenant2, native2 string) {
		if !valid(tenant1, native1) || !valid(tenant2, native2) {
			return
		}
		same := tenant1 == tenant2 && native1 == native2
		if isNamespace(tenant1, native1) {
			if tenant, native := space.SplitNamespace(space.Namespace(tenant1, native1)); tenant != tenant1 ||
				native != native1 {
				t.Errorf("namespace %s of %s comes back as %s of %s", native1, tenant1, native, tenant)
			}
			if isNamespace(tenant2, native2) {
				key := func(tenant, native string) string {
					return space.StoredKey(space.Namespaced, "/pods", "/pods/"+space.Namespace(tenant, native)+"/x")
				}
				if !same && (space.Namespace(tenant1, native1) == space.Namespace(tenant2, native2) ||
					key(tenant1, native1) == key(tenant2, native2)) {
					t.Errorf("%s of %s and %s of %s are the same", native1, tenant1, native2, tenant2)
				}
			}
		}
		if inSpace(tenant1, native1) {
			if tenant, native := space.SplitClusterName(space.ClusterName(tenant1, native1)); tenant != tenant1 ||
				native != native1 {
				t.Errorf("%s of %s comes back as %s of %s", native1, tenant1, native, tenant)
			}
			if inSpace(tenant2, native2) {
				key := func(tenant, native string) string {
					return space.StoredKey(space.ClusterScoped, "/pvs", "/pvs/"+space.ClusterName(tenant, native))
				}
				if !same && (space.ClusterName(tenant1, native1) == space.ClusterName(tenant2, native2) ||
					key(tenant1, native1) == key(tenant2, native2)) {
					t.Errorf("%s of %s and %s of %s are the same", native1, tenant1, native2, tenant2)
				}
			}
		}
		user := "system:serviceaccount:" + native1 + ":x"
		if !strings.ContainsAny(native1, ":.") {
			if tenant, native := space.SplitUser(space.User(tenant1, user)); tenant != tenant1 || native != user {
				t.Errorf("%s of %s comes back as %s of %s", user, tenant1, native, tenant)
			}
		}
	})
}

// inSpace reports whether a cluster-scoped object can have the name.
func inSpace(tenant, native string) bool {
	return space.CheckClusterName(tenant, native) == nil && !strings.HasPrefix(native, ".") &&
		!strings.HasSuffix(native, ".")
}
