package space_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

func TestQualifiedNames(t *testing.T) {
	for _, c := range []struct{ partition, composite, want string }{
		{"tp2", "kube-system", "kube-system.tp2.system"},
		{"", "kube-system", "kube-system"},
		{"tp2", "default.t1", "default.t1"},
		{"", "default.t1", "default.t1"},
		{"tp2", "", ""},
		{"system", "system", "system.system.system"},
	} {
		got := space.QualifyNamespace(c.partition, c.composite)
		if got != c.want {
			t.Errorf("%s of %q is %s, want %s", c.composite, c.partition, got, c.want)
		}
		if tenant, _ := space.SplitNamespace(got); c.composite == "kube-system" && !space.IsSystem(tenant) {
			t.Errorf("%s counts as a namespace of tenant %s", got, tenant)
		}
	}
	for _, c := range []struct{ partition, composite, want string }{
		{"tp2", "pv1", "pv1.tp2.system.tenant"},
		{"tp2", "a.b", "a.b.tp2.system.tenant"},
		{"", "pv1", "pv1"},
		{"tp2", "pv1.t1.tenant", "pv1.t1.tenant"},
	} {
		if got := space.QualifyClusterName(c.partition, c.composite); got != c.want {
			t.Errorf("%s of %q is %s, want %s", c.composite, c.partition, got, c.want)
		}
	}
	// What looks like one and is none stays as it is.
	for _, name := range []string{"", "system", ".system", "x.system", ".tp.system", "x..system", "a.b.tp.system",
		"kube-system", "default.t1", "x.tp.systems", ".x.system"} {
		if partition, composite := space.UnqualifyNamespace(name); partition != "" || composite != name {
			t.Errorf("namespace %q comes back as %q of %q", name, composite, partition)
		}
	}
	for _, name := range []string{"", ".system.tenant", "x.system.tenant", ".tp.system.tenant", "x.t1.tenant", "x"} {
		if partition, composite := space.UnqualifyClusterName(name); partition != "" || composite != name {
			t.Errorf("name %q comes back as %q of %q", name, composite, partition)
		}
	}
}

func TestNamesOfPartitions(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
	}{
		{"main", nil}, {"tp-2", nil}, {strings.Repeat("a", 24), nil}, {strings.Repeat("a", 25), space.ErrTooLong},
		{"", space.ErrInvalid}, {"a.b", space.ErrInvalid}, {"../x", space.ErrInvalid}, {"A", space.ErrInvalid},
	} {
		if err := space.ValidatePartition(c.name); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestNoTenantHasAQualifiedName relies on what tenants may be called.
func TestNoTenantHasAQualifiedName(t *testing.T) {
	if err := space.ValidateTenant(space.System); !errors.Is(err, space.ErrReserved) {
		t.Errorf("a tenant can be called %q: %v", space.System, err)
	}
	for _, tenant := range []string{"tp2.system", "x.system", ".system"} {
		if err := space.ValidateTenant(tenant); err == nil {
			t.Errorf("a tenant can be called %q", tenant)
		}
	}
	if err := space.CheckClusterName(space.System, "x.tp2.system.tenant"); !errors.Is(err, space.ErrReserved) {
		t.Errorf("the system space can have a qualified name: %v", err)
	}
}

// FuzzQualifiedNames makes names of two partitions and of one tenant.
func FuzzQualifiedNames(f *testing.F) {
	f.Add("tp2", "kube-system", "tp3", "kube-system", "t1", "default")
	f.Add("", "default", "system", "default", "tp2", "default")
	f.Add("a", "b", "b", "a", "a-system", "b")
	f.Add("tp2", "a.b", "b", "a", "t", "a.tp2.system")
	f.Fuzz(func(t *testing.T, partition1, name1, partition2, name2, tenant, native string) {
		partition := func(p string) bool { return p == "" || space.ValidatePartition(p) == nil }
		if !partition(partition1) || !partition(partition2) {
			return
		}
		same := partition1 == partition2 && name1 == name2
		inNamespaces := func(name string) bool { return isNamespace(space.System, name) }
		if inNamespaces(name1) {
			q := space.QualifyNamespace(partition1, name1)
			if p, n := space.UnqualifyNamespace(q); p != partition1 || n != name1 {
				t.Errorf("namespace %q of %q comes back as %q of %q", name1, partition1, n, p)
			}
			if inNamespaces(name2) && !same && q == space.QualifyNamespace(partition2, name2) {
				t.Errorf("%q of %q and %q of %q are both %q", name1, partition1, name2, partition2, q)
			}
			if space.ValidateTenant(tenant) == nil && isNamespace(tenant, native) {
				composite := space.Namespace(tenant, native)
				if composite == q {
					t.Errorf("%q of tenant %q is %q of partition %q", native, tenant, name1, partition1)
				}
				if p, n := space.UnqualifyNamespace(composite); p != "" || n != composite ||
					space.QualifyNamespace(partition1, composite) != composite {
					t.Errorf("%q of tenant %q is changed", native, tenant)
				}
			}
		}
		if name1 == "" || !inSpace(space.System, name1) {
			return
		}
		q := space.QualifyClusterName(partition1, name1)
		if p, n := space.UnqualifyClusterName(q); p != partition1 || n != name1 {
			t.Errorf("name %q of %q comes back as %q of %q", name1, partition1, n, p)
		}
		if name2 != "" && inSpace(space.System, name2) && !same && q == space.QualifyClusterName(partition2, name2) {
			t.Errorf("%q of %q and %q of %q are both %q", name1, partition1, name2, partition2, q)
		}
		if space.ValidateTenant(tenant) == nil && native != "" && inSpace(tenant, native) {
			composite := space.ClusterName(tenant, native)
			if p, n := space.UnqualifyClusterName(composite); p != "" || n != composite || composite == q {
				t.Errorf("%q of tenant %q is %q of %q", native, tenant, n, p)
			}
		}
	})
}
