package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testTypeChecks: the types in a ValidatingAdmissionPolicy are checked by the CRDs of its space.
func testTypeChecks(t *testing.T, p *plane, a, b *space, group string) {
	system := p.as(t, "system", p.Admin)
	for _, c := range []struct {
		in          *space
		group, size string
	}{
		{a, group, "integer"},
		{b, group, "string"},
		{system, "system." + group, "string"},
	} {
		gvr := c.in.define(t, definition(c.group, specified(map[string]apiextensionsv1.JSONSchemaProps{
			"size": {Type: c.size}})))
		eventually(t, "the schema of "+c.in.name, func(context.Context) (bool, error) {
			code, _ := do(t, c.in.config, http.MethodGet, "/openapi/v3/apis/"+c.group+"/"+gvr.Version, "", nil)
			return code == http.StatusOK, nil
		})
		for name, expression := range map[string]string{"size": "object.spec.size > 1",
			"color": "object.spec.color == ''", "param": "params.spec.color == ''"} {
			post(t, c.in.config, registration+"validatingadmissionpolicies", fmt.Sprintf(
				`{"metadata":{"name":"%s.%s"},"spec":{"paramKind":{"apiVersion":"%s/v1","kind":"Foo"},
				"matchConstraints":{"resourceRules":[{"apiGroups":["%s"],"apiVersions":["v1"],"operations":["CREATE"],
				"resources":["foos"]}]},"validations":[{"expression":"%s"}]}}`, name, group, c.group, c.group, expression))
			want := map[string]string{"size": "no matching overload", "color": "undefined field 'color'",
				"param": "undefined field 'color'"}[name]
			if name == "size" && c.size == "integer" {
				want = ""
			}
			c.in.typesChecked(t, name+"."+group, want)
		}
	}
}

// typesChecked waits until the types in a policy are checked, and expects a warning with this in it, or none.
func (s *space) typesChecked(t *testing.T, policy, want string) {
	t.Helper()
	eventually(t, "the types of "+policy+" to be checked in "+s.name, func(ctx context.Context) (bool, error) {
		got, err := s.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, policy,
			metav1.GetOptions{})
		if err != nil || got.Status.TypeChecking == nil {
			return false, err
		}
		if got.Status.ObservedGeneration != got.Generation {
			t.Errorf("generation %d of %d is observed", got.Status.ObservedGeneration, got.Generation)
		}
		warnings := got.Status.TypeChecking.ExpressionWarnings
		if (want == "") != (len(warnings) == 0) || want != "" && !strings.Contains(warnings[0].Warning, want) {
			t.Errorf("%s in %s: %+v, want %q", policy, s.name, warnings, want)
		}
		return true, nil
	})
}
