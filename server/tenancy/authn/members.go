package authn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

// mostTenants is of how many tenants somebody can be a member.
const mostTenants = 256

// memberships are the tenants that an identity provider names, in order. One alone may be the
// system. In a list it would lead whoever may choose from it out of all tenants, so it is refused.
func memberships(claims []string) ([]string, error) {
	if len(claims) > mostTenants {
		return nil, fmt.Errorf("%w: the extra attribute %s has %d values, at most %d are possible", ErrTenant,
			space.Extra, len(claims), mostTenants)
	}
	tenants := slices.Sorted(slices.Values(claims))
	for i, name := range tenants {
		if err := checkTenant(name); err != nil {
			return nil, err
		}
		switch {
		case len(tenants) == 1:
		case name == space.System:
			return nil, fmt.Errorf("%w: %q stands beside other tenants in the extra attribute %s, "+
				"it can only stand alone", ErrTenant, name, space.Extra)
		case i > 0 && name == tenants[i-1]:
			return nil, fmt.Errorf("%w: the extra attribute %s names %q twice", ErrTenant, space.Extra, name)
		}
	}
	return tenants, nil
}

// withGroups adds the tenants of somebody's groups to those that their provider names for themselves.
// A user of the system alone stays that.
func withGroups(claims, ofGroups []string) ([]string, error) {
	if len(ofGroups) == 0 || len(claims) == 1 && claims[0] == space.System {
		return claims, nil
	}
	all := slices.Concat(claims, ofGroups)
	slices.Sort(all)
	return memberships(slices.Compact(all))
}

// Choose is the tenant as whose user somebody asks who is a member of tenants: the one that the
// path names. One that is not among them leads nowhere, they are of the first then and get the
// answer that its other users get. decided is false if they have to say it and did not.
func Choose(tenants []string, inPath string) (tenant string, decided bool) {
	if slices.Contains(tenants, inPath) {
		return inPath, true
	}
	return tenants[0], len(tenants) == 1 || inPath != ""
}

// undecided is a user of one of their tenants as a user of none: of the name of no tenant.
func undecided(u user.Info, tenants []string) user.Info {
	out := &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	out.Extra[space.Extra] = tenants
	return out
}

func errUndecided(tenants []string) error {
	return fmt.Errorf("%w: they are a member of several tenants (%s), and the path names none of them", ErrTenant,
		strings.Join(tenants, ", "))
}

// Members are the tenants of which the user is a member whom Early found out, if these are
// several. Nothing but the choice between them may depend on it: the user is of the chosen one.
func Members(ctx context.Context) []string {
	if m := rememberedIn(ctx); m != nil && m.err == nil {
		return m.members
	}
	return nil
}

type inPathKey struct{}

// withPath notes the tenant that is chosen for what the request says.
func withPath(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, inPathKey{}, tenant)
}

func inPath(ctx context.Context) string {
	tenant, _ := ctx.Value(inPathKey{}).(string)
	return tenant
}

// Refused is who sent a request whose tenant is not clear, by the name alone, and why that is
// so; nil for all others. It is for the answer and the audit log: they are a user of nothing.
func Refused(err error) (user.Info, error) {
	var r *refused
	if errors.As(err, &r) {
		return r.user, r.err
	}
	return nil, nil
}

// refused is an authentication that failed by what was said of the tenant.
type refused struct {
	user user.Info
	err  error
}

// Error implements error.
func (r *refused) Error() string { return r.err.Error() }

// Unwrap returns the cause.
func (r *refused) Unwrap() error { return r.err }
