package tenantadmin

import (
	"strings"
	"testing"
)

func TestSplitAddress(t *testing.T) {
	for server, want := range map[string][2]string{
		"https://h:6443":                      {"https://h:6443", ""},
		"https://h:6443/":                     {"https://h:6443", ""},
		"https://h:6443/tenants/t1":           {"https://h:6443", "t1"},
		"https://h:6443/tenants/t1/":          {"https://h:6443", "t1"},
		"https://h/behind/proxy/tenants/t1":   {"https://h/behind/proxy", "t1"},
		"https://h/tenants/t1/tenants/t2":     {"https://h/tenants/t1", "t2"},
		"https://h:6443/tenants/t1/elsewhere": {"https://h:6443/tenants/t1/elsewhere", ""},
	} {
		cluster, tenant := SplitAddress(server)
		if cluster != want[0] || tenant != want[1] {
			t.Errorf("SplitAddress(%q) = %q, %q", server, cluster, tenant)
		}
		if tenant != "" && Address(cluster, tenant) != strings.TrimSuffix(server, "/") {
			t.Errorf("Address(%q, %q) is not %q", cluster, tenant, server)
		}
	}
}

func TestBindingNamesAreNamesOfObjects(t *testing.T) {
	seen := map[string]string{}
	for _, user := range []string{"alice", "alice@example.com", "a/b", "a%b", "a b", "CN=x,O=y", "ä",
		strings.Repeat("x", 64), strings.Repeat("x", 65)} {
		name := bindingName("view", user)
		if strings.ContainsAny(name, "/% ,=") || len(name) > 120 {
			t.Errorf("%q becomes %q", user, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q both become %q", user, other, name)
		}
		seen[name] = user
	}
}
