package kinds

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestUpstreamsPodConditionsAreKnown fails when Kubernetes has a new condition,
// until somebody has decided who writes it: a readiness gate can have any name.
func TestUpstreamsPodConditionsAreKnown(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/api/core/v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), strings.TrimSpace(string(dir))+"/types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "PodConditionType" {
			for _, v := range spec.Values {
				if literal, ok := v.(*ast.BasicLit); ok {
					name, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					found = append(found, name)
				}
			}
		}
		return true
	})
	if len(found) < 9 {
		t.Errorf("only %q were found", found)
	}
	for _, name := range found {
		if !TenantsPodCondition(name, nil) && !slices.Contains(SystemPodConditions(), name) {
			t.Errorf("%s is not decided", name)
		}
	}
	for _, name := range SystemPodConditions() {
		if !slices.Contains(found, name) {
			t.Errorf("%s is no condition any more", name)
		}
	}
}

func TestTenantsPodConditions(t *testing.T) {
	for _, c := range []struct {
		condition string
		gates     []string
		ok        bool
	}{
		{"Ready", nil, true},
		{"example.com/checked", nil, true},
		{"MyStatus", nil, false},
		{"MyStatus", []string{"Other", "MyStatus"}, true},
		{"mystatus", []string{"MyStatus"}, false},
		{"PodScheduled", []string{"PodScheduled"}, false},
		{"PodResizePending", []string{"PodResizePending"}, false},
	} {
		if ok := TenantsPodCondition(c.condition, c.gates); ok != c.ok {
			t.Errorf("%s of a pod that waits for %q: %v", c.condition, c.gates, ok)
		}
	}
}
