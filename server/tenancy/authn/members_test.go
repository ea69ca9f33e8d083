package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestMembersOfSeveralTenants: a member of several tenants is the user of the one that the path
// names, and of it alone.
func TestMembersOfSeveralTenants(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{space.Masters},
		Extra: map[string][]string{space.Extra: {"t2", "t1"}, "scopes": {"x"}}}
	a := Wrap(fixed(alice), Options{DefaultTenant: "t9", Tenants: uids{"t1": "1", "t2": "2"}})
	for _, c := range []struct {
		named, tenant string // tenant: "" when there is none
	}{
		{"t1", "t1"}, {"t2", "t2"}, {"", ""},
		// No member: the user of another tenant, whatever is named.
		{"t3", "t1"}, {"system", "t1"}, {"all", "t1"}, {"t9", "t1"}, {"T1", "t1"},
		{"t1,t2", "t1"}, {"../t2", "t1"},
	} {
		req, response, ok, err := Early(a, &http.Request{Header: http.Header{}}, c.named)
		if err != nil || !ok {
			t.Fatalf("%q: %v, %v", c.named, ok, err)
		}
		if got := Members(req.Context()); !slices.Equal(got, []string{"t1", "t2"}) {
			t.Errorf("%q: the memberships are %q", c.named, got)
		}
		uid, life := Life(req.Context())
		again, ok, err := a.AuthenticateRequest(req)
		if c.tenant == "" {
			if got := space.TenantOf(response.User); got != space.All {
				t.Errorf("who has chosen nothing is a user of %q", got)
			}
			if ok || !errors.Is(err, ErrTenant) || !strings.Contains(err.Error(), "(t1, t2)") {
				t.Errorf("the chain gets who has chosen nothing: %v, %v", again, err)
			}
			continue
		}
		if err != nil || !ok || again.User != response.User {
			t.Errorf("%q: the chain gets %v, %v", c.named, again, err)
		}
		u := response.User
		if got := u.GetExtra()[space.Extra]; !slices.Equal(got, []string{c.tenant}) {
			t.Errorf("%q: tenants %q, want %q", c.named, got, c.tenant)
		}
		if got := u.GetGroups(); !slices.Equal(got, []string{space.Masters + "." + c.tenant}) {
			t.Errorf("%q: groups %q", c.named, got)
		}
		if life != nil || string(uid) != strings.TrimPrefix(c.tenant, "t") {
			t.Errorf("%q: of the tenant %q, %v", c.named, uid, life)
		}
	}
	if got := alice.Extra[space.Extra]; !slices.Equal(got, []string{"t2", "t1"}) {
		t.Errorf("the user of the inner authenticator was changed to %q", got)
	}
	// Who was not asked by a path says nothing either: the API server's own name in TLS, a
	// TokenReview of the cluster.
	if _, ok, err := a.AuthenticateRequest(&http.Request{Header: http.Header{}}); ok || !errors.Is(err, ErrTenant) {
		t.Errorf("without a path: %v, %v", ok, err)
	}
	for tenant, want := range map[string]bool{"t1": true, "t2": true, "t3": false, space.System: false, "": false} {
		response, ok, err := Confine(a, tenant).AuthenticateRequest(&http.Request{Header: http.Header{}})
		if ok != want || ok && space.TenantOf(response.User) != tenant || !ok && !errors.Is(err, errToken) {
			t.Errorf("a review in %q: %v, %v, %v", tenant, response, ok, err)
		}
	}
}

// TestMembershipsThatAreRefused: what is no list of tenants is refused as a whole, and says why.
func TestMembershipsThatAreRefused(t *testing.T) {
	many := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("t%d", i))
		}
		return names
	}
	for name, c := range map[string]struct {
		user   string
		values []string
		says   string // "" when they are accepted
	}{
		"two":                {"alice", []string{"t1", "t2"}, ""},
		"the most":           {"alice", many(mostTenants), ""},
		"too many":           {"alice", many(mostTenants + 1), "has 257 values, at most 256 are possible"},
		"system beside":      {"alice", []string{"t1", "system"}, `"system" stands beside other tenants`},
		"system twice":       {"alice", []string{"system", "system"}, `"system" stands beside other tenants`},
		"duplicate":          {"alice", []string{"t2", "t1", "t2"}, `names "t2" twice`},
		"empty":              {"alice", []string{"t1", ""}, "invalid name"},
		"only empty ones":    {"alice", []string{"", ""}, "invalid name"},
		"invalid":            {"alice", []string{"t1", "T_2"}, "invalid name"},
		"reserved":           {"alice", []string{"t1", "all"}, "reserved name"},
		"long":               {"alice", []string{"t1", strings.Repeat("x", 1<<20)}, "one of 1048576 characters"},
		"a list in one":      {"alice", []string{"t1,t2"}, "invalid name"},
		"service account":    {"system:serviceaccount:default.t1:web", []string{"t1", "t2"}, "of a service account"},
		"native account":     {"system:serviceaccount:default:web", []string{"t1", "t2"}, "of a service account"},
		"account of another": {"system:serviceaccount:default.t3:web", []string{"t1", "t2"}, "of a service account"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Wrap(fixed(&user.DefaultInfo{Name: c.user, Extra: tenantExtra(c.values...)}), Options{})
			for _, named := range append([]string{"", "system", "t1"}, c.values[:min(3, len(c.values))]...) {
				req, _, ok, err := Early(a, &http.Request{Header: http.Header{}}, named)
				who, why := Refused(err)
				if c.says == "" {
					if !ok || err != nil || who != nil {
						t.Errorf("at %q: %v, %v", named, ok, err)
					}
					continue
				}
				if ok || !errors.Is(err, ErrTenant) || who == nil || !strings.Contains(why.Error(), c.says) ||
					len(why.Error()) > 500 {
					t.Errorf("at %q: %v, %.600v, want %q", named, ok, err, c.says)
					continue
				}
				if who.GetName() != c.user || len(who.GetExtra()) > 0 || len(who.GetGroups()) > 0 {
					t.Errorf("at %q: refused is %v", named, who)
				}
				if Authenticated(req.Context()) != nil || Members(req.Context()) != nil {
					t.Errorf("at %q: who is refused is known", named)
				}
			}
		})
	}
}

// uids are the tenants that there are, with their UIDs.
type uids map[string]types.UID

func (u uids) Get(_ context.Context, name string) (*tenantapi.Tenant, error) {
	uid, ok := u[name]
	if !ok {
		return nil, nil
	}
	found := &tenantapi.Tenant{}
	found.UID = uid
	return found, nil
}

// TestMembersByTheirGroups: groups of an identity provider add tenants to those that it names, and take none away; no
// other user has a tenant by a group.
func TestMembersByTheirGroups(t *testing.T) {
	groups := tenantapi.Groups{"oidc:platform": {"t1", "t2"}, "oidc:ops": {"t3"}, "wide": nil}
	for i := range mostTenants {
		groups["wide"] = append(groups["wide"], fmt.Sprint("w", i))
	}
	in := func(name string, claims []string, groups ...string) *user.DefaultInfo {
		u := &user.DefaultInfo{Name: name, Groups: groups}
		if claims != nil {
			u.Extra = map[string][]string{space.Extra: claims}
		}
		return u
	}
	const platform, none, all = "oidc:platform", "", space.All
	for _, c := range []struct {
		what    string
		u       *user.DefaultInfo
		named   string
		tenant  string // none if they are refused
		members []string
	}{
		{"one tenant", in("alice", nil, "oidc:ops"), "", "t3", nil},
		{"one tenant, elsewhere", in("alice", nil, "oidc:ops"), "t1", "t3", nil},
		{"several, undecided", in("alice", nil, platform), "", all, []string{"t1", "t2"}},
		{"several", in("alice", nil, platform), "t2", "t2", []string{"t1", "t2"}},
		{"two groups", in("alice", nil, platform, "oidc:ops"), "t3", "t3", []string{"t1", "t2", "t3"}},
		{"another group", in("alice", nil, "platform"), "t1", "t9", nil},
		{"at home", in("alice", []string{"t5"}, platform), "", "t5", []string{"t1", "t2", "t5"}},
		{"at home, by its name", in("alice", []string{"t5"}, platform), "t5", "t5", []string{"t1", "t2", "t5"}},
		{"away", in("alice", []string{"t5"}, platform), "t1", "t1", []string{"t1", "t2", "t5"}},
		{"no member", in("alice", []string{"t5"}, platform), "t7", "t5", []string{"t1", "t2", "t5"}},
		{"the same twice", in("alice", []string{"t3"}, "oidc:ops"), "", "t3", nil},
		{"several and a group", in("alice", []string{"t5", "t6"}, platform), "", all,
			[]string{"t1", "t2", "t5", "t6"}},
		{"of the system", in("alice", []string{space.System}, platform), "t1", space.System, nil},
		{"too many", in("alice", []string{"t5"}, "wide"), "t5", none, nil},
		{"an account", in("system:serviceaccount:default.t5:x", nil, platform), "t1", "t5", nil},
		{"an account of the system", in("system:serviceaccount:default:x", nil, platform), "t1", space.System, nil},
		{"nobody", in(user.Anonymous, nil, platform), "t1", space.System, nil},
	} {
		a := Wrap(fixed(c.u), Options{DefaultTenant: "t9", Groups: groups})
		req, response, ok, err := Early(a, &http.Request{Header: http.Header{}}, c.named)
		if c.tenant == none {
			if ok || !errors.Is(err, ErrTenant) {
				t.Errorf("%s: %v, %v", c.what, response, err)
			}
			continue
		}
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", c.what, ok, err)
			continue
		}
		got := space.TenantOf(response.User)
		if got == "" {
			got = space.System
		}
		if got != c.tenant || !slices.Equal(Members(req.Context()), c.members) {
			t.Errorf("%s: a user of %q, a member of %q", c.what, got, Members(req.Context()))
		}
	}
}

// TestStaticTokensHaveNoGroups: who is in the token file has the tenant of its column, or none.
func TestStaticTokensHaveNoGroups(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"oidc:ops"}}
	file := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: alice}, true, nil
	})
	a := Wrap(fixed(alice), Options{DefaultTenant: "t9", TokenFile: file,
		Groups: tenantapi.Groups{"oidc:ops": {"t3"}}})
	req := &http.Request{Header: http.Header{"Authorization": {"Bearer x"}}}
	_, response, ok, err := Early(a, req, "t3")
	if err != nil || !ok || space.TenantOf(response.User) != "t9" {
		t.Errorf("%v, %v, %v", response, ok, err)
	}
}

// TestGroupsCountOnce: what groups make of a user is said by the partition that authenticated them; another one to
// which it sent their request on adds nothing.
func TestGroupsCountOnce(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"oidc:ops"}, Extra: tenantExtra("t1")}
	a := Wrap(fixed(alice), Options{DefaultTenant: "t9", Groups: tenantapi.Groups{"oidc:ops": {"t3"}}})
	for _, marked := range []bool{false, true} {
		req := (&http.Request{Header: http.Header{}}).WithContext(t.Context())
		if marked {
			req = FromPartition(req)
		}
		want := map[bool]string{false: "t3", true: "t1"}[marked]
		req, response, ok, err := Early(a, req, "t3")
		if err != nil || !ok || space.TenantOf(response.User) != want || (Members(req.Context()) == nil) != marked {
			t.Errorf("marked %v: %v, %v, %v", marked, response, ok, err)
		}
	}
}
