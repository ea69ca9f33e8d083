package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// oneIssuer is the provider of tenant a, with one user.
type oneIssuer struct {
	user  user.DefaultInfo
	uid   types.UID
	other error
	named string
}

func (*oneIssuer) Any() bool { return true }

func (o *oneIssuer) Login(_ context.Context, token, named string) (*Login, error) {
	if token != "of-a" {
		return nil, nil
	}
	o.named = named
	return &Login{User: &o.user, Tenant: "a", UID: o.uid, Unclear: o.other}, nil
}

type onlyA struct{}

func (onlyA) Get(_ context.Context, name string) (*tenantapi.Tenant, error) {
	if name != "a" {
		return nil, nil
	}
	return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}, nil
}

// TestLoginsAreOfTheirTenantOnly: whatever the provider of a tenant says of a user, they are one of that tenant,
// with no name or group of Kubernetes' own, or nobody.
func TestLoginsAreOfTheirTenantOnly(t *testing.T) {
	nobody := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("nobody the cluster knows")
	})
	groups := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprint("g", i))
		}
		return names
	}
	for what, c := range map[string]struct {
		says   oneIssuer
		groups []string // nil if they are nobody
	}{
		"a user": {oneIssuer{user: user.DefaultInfo{Name: "ann", Groups: []string{"dev"}}, uid: "1"}, []string{"dev"}},
		"other tenants and more": {oneIssuer{user: user.DefaultInfo{Name: "ann", UID: "0", Extra: map[string][]string{
			space.Extra: {"b", "system"}, "a4s.io/x": {"y"}, "x": {"y"}}}, uid: "1"}, []string{}},
		"groups of the system": {oneIssuer{user: user.DefaultInfo{Name: "ann", Groups: []string{"system:masters",
			"system:masters.b", "system:serviceaccounts:default.b", "dev", "", space.Admins, "a4s:x", "tenant:b"}},
			uid: "1"}, []string{"dev"}},
		"an admin of a4s":           {oneIssuer{user: user.DefaultInfo{Name: "a4s:admin"}, uid: "1"}, nil},
		"the name of a certificate": {oneIssuer{user: user.DefaultInfo{Name: "tenant:b:ann"}, uid: "1"}, nil},
		"the most groups": {oneIssuer{user: user.DefaultInfo{Name: "ann", Groups: groups(mostGroups)}, uid: "1"},
			groups(mostGroups)},
		"too many groups": {oneIssuer{user: user.DefaultInfo{Name: "ann", Groups: groups(mostGroups + 1)}, uid: "1"},
			nil},
		"a group of any length": {oneIssuer{user: user.DefaultInfo{Name: "ann",
			Groups: []string{strings.Repeat("g", maxName+1)}}, uid: "1"}, nil},
		"a name of any length": {oneIssuer{user: user.DefaultInfo{Name: strings.Repeat("n", 1<<16)}, uid: "1"},
			nil},
		"the admin of the system": {oneIssuer{user: user.DefaultInfo{Name: "system:admin"}, uid: "1"}, nil},
		"an account of another": {oneIssuer{user: user.DefaultInfo{Name: "system:serviceaccount:x.b:y"}, uid: "1"},
			nil},
		"an account of the tenant": {oneIssuer{user: user.DefaultInfo{Name: "system:serviceaccount:x:y"}, uid: "1"},
			nil},
		"no name":            {oneIssuer{uid: "1"}, nil},
		"of a former tenant": {oneIssuer{user: user.DefaultInfo{Name: "ann"}, uid: "0"}, nil},
		"of several": {oneIssuer{user: user.DefaultInfo{Name: "ann"}, uid: "1",
			other: errors.New("several")}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			a := Wrap(nobody, Options{Tenants: onlyA{}, Issuers: &c.says})
			req := &http.Request{Header: http.Header{"Authorization": {"Bearer of-a"}}}
			req, response, ok, err := Early(a, req.WithContext(t.Context()), "b")
			if ok != (c.groups != nil) || !ok && err == nil {
				t.Fatal(response, ok, err)
			}
			// Nobody is written down in the name of another.
			if who, why := Refused(err); who != nil && (len(who.GetName()) > maxName || len(why.Error()) > 500 ||
				!slices.Equal(who.GetExtra()[space.Extra], []string{"a"})) {
				t.Errorf("refused is %+v, %.600v", who, why)
			}
			if c.says.named != "b" {
				t.Errorf("the path is %q", c.says.named)
			}
			if !ok {
				return
			}
			who := response.User
			if who.GetName() != "ann" || who.GetUID() != "" || len(who.GetExtra()) != 1 ||
				!slices.Equal(who.GetExtra()[space.Extra], []string{"a"}) ||
				!slices.Equal(who.GetGroups(), append(c.groups, user.AllAuthenticated)) {
				t.Errorf("%+v", who)
			}
			if req.Header.Get("Authorization") != "" {
				t.Error("the token stays in the request")
			}
			if uid, err := Life(req.Context()); uid != "1" || err != nil {
				t.Errorf("of the tenant %q, %v", uid, err)
			}
		})
	}
	a := Wrap(nobody, Options{Tenants: onlyA{}, Issuers: &oneIssuer{}})
	req := &http.Request{Header: http.Header{"Authorization": {"Bearer another"}}}
	if _, ok, err := a.AuthenticateRequest(req.WithContext(t.Context())); ok || err == nil {
		t.Errorf("another token: %v, %v", ok, err)
	}
	// The cluster decides first.
	known := Wrap(fixed(&user.DefaultInfo{Name: "root", Extra: tenantExtra("system")}),
		Options{Tenants: onlyA{}, Issuers: &oneIssuer{}})
	req = &http.Request{Header: http.Header{"Authorization": {"Bearer of-a"}}}
	if r, ok, err := known.AuthenticateRequest(req.WithContext(t.Context())); !ok || err != nil ||
		r.User.GetName() != "root" {
		t.Errorf("one that the cluster knows: %v, %v, %v", r, ok, err)
	}
}
