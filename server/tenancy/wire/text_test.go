package wire

import (
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

func TestText(t *testing.T) {
	tests := []struct{ tenant, in, want string }{
		{"t1", "", ""},
		{"t1", "nothing to see. Really.", "nothing to see. Really."},
		{"t1", `namespaces "default.t1" not found`, `namespaces "default" not found`},
		{"t1", "default.t1", "default"},
		{"t1", "in default.t1.", "in default."},
		{"t1", "default.t1/web, (x.t1): y.t1", "default/web, (x): y"},
		{"t1", "pv pv1.t1.tenant is bound", "pv pv1 is bound"},
		{"t1", "a.b.t1.tenant", "a.b"},
		{"t1", "pv pv1.t2.tenant is bound", "pv <hidden> is bound"},
		{"t1", `User "system:serviceaccount:default.t1:a" cannot`, `User "system:serviceaccount:default:a" cannot`},
		{"t1", `User "system:serviceaccount:default.t2:a" cannot`, `User "system:serviceaccount:<hidden>:a" cannot`},
		{"t1", "system:serviceaccounts:default.t2", "system:serviceaccounts:<hidden>"},
		{"t1", "system:serviceaccount:kube-system:a", "system:serviceaccount:kube-system:a"},
		{"t1", "default.t2 and default.t11 and xt1 and web.default.t1.svc",
			"default.t2 and default.t11 and xt1 and web.default.t1.svc"},
		{"t1", "a.example.t1", "a.example.t1"},
		{"t1", ".t1 and .tenant and x.tenant", ".t1 and .tenant and x.tenant"},
		{"t1", "\"\x00.t1\" and \"\x00.t1.tenant\"", "\"\x00\" and \"\x00\""},
		{"t1", "größe default.t1 größe", "größe default größe"},
		{space.System, "default.t1 pv.t1.tenant", "default.t1 pv.t1.tenant"},
		{space.All, "default.t1 pv.t1.tenant", "default.t1 pv.t1.tenant"},
	}
	for _, tt := range tests {
		if got := (&View{Tenant: tt.tenant}).Text(tt.in); got != tt.want {
			t.Errorf("%s: Text(%q) = %q, want %q", tt.tenant, tt.in, got, tt.want)
		}
	}
}
