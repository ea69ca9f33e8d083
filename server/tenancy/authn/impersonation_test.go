package authn

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

func TestRewriteImpersonation(t *testing.T) {
	const extra = "Impersonate-Extra-A4s.io%2ftenant"
	header := func(pairs ...string) http.Header {
		h := http.Header{"Accept": {"*/*"}}
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		tenant string
		given  http.Header
		want   http.Header // nil when refused
		of     string      // what ImpersonatedTenant says of the given ones
	}{
		"nobody":  {"t1", header(), header(), ""},
		"no user": {"t1", header("Impersonate-Group", "devs"), header("Impersonate-Group", "devs"), ""},
		"user": {"t1", header("Impersonate-User", "bob", "Impersonate-Uid", "7"),
			header("Impersonate-User", "bob", "Impersonate-Uid", "7", extra, "t1"), ""},
		"groups": {"t1", header("Impersonate-User", "bob", "Impersonate-Group", "devs", "Impersonate-Group",
			"system:serviceaccounts:default"), header("Impersonate-User", "bob", "Impersonate-Group", "devs",
			"Impersonate-Group", "system:serviceaccounts:default.t1", extra, "t1"), ""},
		"service account": {"t1", header("Impersonate-User", "system:serviceaccount:default:web"),
			header("Impersonate-User", "system:serviceaccount:default.t1:web", extra, "t1"), ""},
		"own inner name": {"t1", header("Impersonate-User", "system:serviceaccount:default.t1:web"),
			header("Impersonate-User", "system:serviceaccount:default.t1:web", extra, "t1"), "t1"},
		"inner name of another": {"t1", header("Impersonate-User", "system:serviceaccount:default.t2:web"), nil, "t2"},
		"group of another": {"t1",
			header("Impersonate-User", "bob", "Impersonate-Group", "system:serviceaccounts:default.t2"), nil, ""},
		"own extra": {"t1", header("Impersonate-User", "bob", extra, "t1"),
			header("Impersonate-User", "bob", extra, "t1"), "t1"},
		"other extras stay": {"t1", header("Impersonate-User", "bob", "Impersonate-Extra-Scopes", "x"),
			header("Impersonate-User", "bob", "Impersonate-Extra-Scopes", "x", extra, "t1"), ""},
		"another extra":       {"t1", header("Impersonate-User", "bob", extra, "t2"), nil, "t2"},
		"two extras":          {"t1", header("Impersonate-User", "bob", extra, "t1", extra, "t2"), nil, space.All},
		"extra of the system": {"t1", header("Impersonate-User", "bob", extra, "system"), nil, ""},
		"empty extra":         {"t1", header("Impersonate-User", "bob", extra, ""), nil, ""},
		"escaped extra": {"t1",
			header("Impersonate-User", "bob", "Impersonate-Extra-%61%34s.Io%2fTenant", "t2"), nil, "t2"},
		"escaped own extra": {"t1", header("Impersonate-User", "bob", "Impersonate-Extra-A4s%2eio%2ftenant", "t1"),
			header("Impersonate-User", "bob", extra, "t1"), "t1"},
		"extra against name": {"t1",
			header("Impersonate-User", "system:serviceaccount:default.t1:web", extra, "t2"), nil, space.All},
		"in the system": {"system", header("Impersonate-User", "bob", extra, "system"),
			header("Impersonate-User", "bob"), ""},
		"tenant in the system": {"system", header("Impersonate-User", "bob", extra, "t1"), nil, "t1"},
		"account in the system": {"system",
			header("Impersonate-User", "system:serviceaccount:default.t1:web"), nil, "t1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ImpersonatedTenant(c.given); got != c.of {
				t.Errorf("the impersonated tenant is %q, want %q", got, c.of)
			}
			h := maps.Clone(c.given)
			err := RewriteImpersonation(h, c.tenant)
			if c.want == nil {
				var refused *ImpersonationError
				if !errors.As(err, &refused) || !errors.Is(err, ErrForeign) {
					t.Fatalf("got %v and %v, want a refusal", err, h)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(h, c.want) {
				t.Errorf("got %v, %v, want %v", h, err, c.want)
			}
		})
	}
}
