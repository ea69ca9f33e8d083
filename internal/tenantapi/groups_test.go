package tenantapi

import (
	"slices"
	"strings"
	"testing"
)

func TestGroups(t *testing.T) {
	g, err := ParseGroups([]string{"oidc:platform=team-b,team-a", "cn=ops,o=x=team-a", ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ groups, want []string }{
		{nil, nil}, {[]string{"platform"}, nil}, {[]string{"oidc:platform"}, []string{"team-a", "team-b"}},
		{[]string{"x", "cn=ops,o=x"}, []string{"team-a"}},
		{[]string{"cn=ops,o=x", "oidc:platform"}, []string{"team-a", "team-b"}},
	} {
		if got := g.Of(c.groups); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.groups, got, c.want)
		}
	}
	if got := Groups(nil).Of([]string{"a"}); got != nil {
		t.Errorf("%q", got)
	}
	for wrong, says := range map[string]string{
		"platform":                 "not a group",
		"=team-a":                  "not a group",
		"platform=":                "must consist of",
		"platform=team-a,":         "must consist of",
		"platform=team-a,team-a":   "team-a is there twice",
		"platform=system":          `"system" cannot be the name of a tenant`,
		"platform=team-a,all":      `"all" cannot be the name of a tenant`,
		"platform=Team":            "must consist of",
		"platform =team-a":         "space",
		"system:masters=team-a":    "Kubernetes itself",
		"system:serviceaccounts=a": "Kubernetes itself",
	} {
		if _, err := ParseGroups([]string{wrong}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q", wrong, err, says)
		}
	}
	if _, err := ParseGroups([]string{"a=t1", "a=t2"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%v", err)
	}
}
