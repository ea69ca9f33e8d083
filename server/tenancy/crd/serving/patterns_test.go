package serving

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// TestPatternsAreForgotten: what upstream's validators keep of the patterns of CRDs goes when enough of these CRDs
// are gone, and goes on working.
func TestPatternsAreForgotten(t *testing.T) {
	s, _ := serverOfOne(t)
	patterned := func(pattern string) *apiextensionsv1.CustomResourceDefinition {
		return served(func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Generation++
			crd.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: pattern}}
		})
	}
	kept := func() (n int) {
		all, _ := reDict.Load().(map[string]*regexp.Regexp)
		for pattern := range all {
			if strings.HasPrefix(pattern, "^(forgotten") {
				n++
			}
		}
		return n
	}
	var was *apiextensionsv1.CustomResourceDefinition
	const rounds, fit = 60, 13 // 80,000 steps each, and the one that is there
	for i := range rounds {
		pattern := fmt.Sprintf("^(forgotten%d)%s$", i, strings.Repeat("x{1000}", 80))
		now := patterned(pattern)
		now.Generation += int64(i)
		s.local("a", was, now)
		was = now
		validator := validate.NewSchemaValidator(spec.StringProperty().WithPattern(pattern), nil, "", strfmt.Default)
		if result := validator.Validate("x"); !result.HasErrors() {
			t.Fatal("the pattern is not looked at")
		}
		if got := kept(); got > fit {
			t.Fatalf("%d patterns are kept of %d", got, i+1)
		}
	}
	before := kept()
	s.patterns.became(was, was.DeepCopy()) // a status
	if s.patterns.became(nil, was); kept() != before || before == 0 {
		t.Errorf("%d are kept, %d before", kept(), before)
	}
}
