package authz

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/space"
)

// wrap is Wrap in a test.
func wrap(t *testing.T, inner authorizer.Authorizer, o Options) authorizer.Authorizer {
	t.Helper()
	a, err := Wrap(inner, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// conditional allows everything, on conditions that whatever is sent meets.
type conditional struct{}

func (conditional) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil // as one must who has conditions
}

func (conditional) ConditionsAwareAuthorize(
	context.Context, authorizer.Attributes,
) authorizer.ConditionsAwareDecision {
	always := authorizer.GenericCondition{ID: "always",
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			return authorizer.ConditionEvaluationResultBoolean(true)
		}}
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{always})
}

func (conditional) EvaluateConditions(
	context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData,
) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "all conditions are met", nil
}

// The border decides before a request is read. No condition of an authorizer, which
// would be evaluated later and against what admission made of the request, makes
// it wider.
func TestConditionsNeverWidenTheBorder(t *testing.T) {
	inner := conditional{}
	if inner.ConditionsAwareAuthorize(t.Context(), nil).IsUnconditional() {
		t.Fatal("the inner authorizer has no conditions, so this tests nothing")
	}
	for _, rbac := range []bool{true, false} {
		a := wrap(t, inner, Options{Roles: listers(t, objects()...), SystemRBAC: rbac})
		for _, c := range []struct {
			name    string
			user    user.Info
			space   string
			ask     string
			allowed bool
		}{
			{"a tenant's user in the own space", in("t1", "admin"), "t1", "create pods default.t1=", true},
			{"without a role", in("t1", "mallory"), "t1", "create pods default.t1=", false},
			{"in another space", in("t1", "admin"), "t2", "list pods", false},
			{"at what belongs to the cluster", in("t1", "admin"), "t1", "create nodes/proxy n1", false},
			{"a user of the system without a role", in("", "nobody"), "", "list secrets", false},
		} {
			ctx := request.WithUser(t.Context(), c.user)
			if c.space != "" {
				ctx = space.WithTenant(ctx, c.space)
			}
			attributes := want(c.user, c.ask)
			plain, _, err := a.Authorize(ctx, attributes)
			if err != nil || (plain == authorizer.DecisionAllow) != c.allowed {
				t.Errorf("%s: %v, %v", c.name, plain, err)
			}
			aware := a.ConditionsAwareAuthorize(ctx, attributes)
			if !aware.IsUnconditional() || aware.IsAllow() != c.allowed {
				t.Errorf("%s: %v of who knows conditions", c.name, aware)
			}
			// Whoever makes up a decision gets nothing for it.
			for _, made := range []authorizer.ConditionsAwareDecision{aware,
				inner.ConditionsAwareAuthorize(ctx, attributes)} {
				if later, _, err := a.EvaluateConditions(ctx, made, nil); later != authorizer.DecisionDeny ||
					err == nil {
					t.Errorf("%s: conditions are evaluated to %v, %v", c.name, later, err)
				}
			}
		}
	}
}
