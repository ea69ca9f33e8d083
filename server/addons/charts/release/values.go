package release

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Document is values in YAML or JSON, and where they are from.
type Document struct{ From, Text string }

// Values merges documents, later ones over earlier ones, and single values over them, as Helm does.
func Values(documents []Document, set map[string]intstr.IntOrString) (map[string]any, error) {
	values := map[string]any{}
	for _, d := range documents {
		more, err := loader.LoadValues(strings.NewReader(d.Text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.From, err)
		}
		values = loader.MergeMaps(values, more)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := set[key]
		parse, text := strvals.ParseIntoString, escaped(value.String())
		if typed(value) {
			parse = strvals.ParseInto
		}
		if err := parse(key+"="+text, values); err != nil {
			return nil, fmt.Errorf("spec.set: %s: %w", key, err)
		}
	}
	return values, nil
}

// typed reports whether a value is a number, a truth or nothing, and not a text.
func typed(v intstr.IntOrString) bool {
	if v.Type == intstr.Int {
		return true
	}
	switch strings.ToLower(v.StrVal) {
	case "true", "false", "null":
		return true
	}
	return false
}

// escaped is a text with each comma escaped, which else begins the next value.
func escaped(text string) string {
	return regexp.MustCompile(`\\*,`).ReplaceAllStringFunc(text, func(match string) string {
		if len(match)%2 == 1 { // as many backslashes as escape each other
			return `\` + match
		}
		return match
	})
}
