package allowances

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAllAreAll: whoever walks the allowances leaves none out.
func TestAllAreAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "allowances.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for _, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(text, "a4s.io/") {
					declared = append(declared, text)
				}
			}
		}
		return true
	})
	all := All()
	slices.Sort(all)
	slices.Sort(declared)
	if len(declared) == 0 || !slices.Equal(all, declared) {
		t.Errorf("all are %q, there are %q", all, declared)
	}
}

func TestLists(t *testing.T) {
	for value, narrows := range map[string]bool{"": false, "a,b": true, "*": false, "a,*": false} {
		if l := ParseList(value); l.Narrows() != narrows || l.Has("x") != (value != "" && !narrows) {
			t.Errorf("%q: %v, %v", value, l.Narrows(), l.Has("x"))
		}
	}
}

func TestAnnotationsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		key, value string
		refused    bool
	}{
		{VolumeTypes, "nfs, iscsi", false},
		{VolumeTypes, "*", false},
		{VolumeTypes, "nsf", true},
		{VolumeTypes, "", true},
		{CSIDrivers, "a,,b", true},
		{CSIDrivers, "csi.example.com", false},
		{HostPorts, "8080,9000-9010", false},
		{HostPorts, "9010-9000", true},
		{HostPorts, "70000", true},
		{HostPorts, "http", true},
		{LoadBalancers, "false", false},
		{LoadBalancers, "true", false},
		{LoadBalancers, "80,443", false},
		{LoadBalancers, "no", true},
		{NodeNames, "true", false},
		{NodeNames, "yes", true},
		{DeviceAdminAccess, "true", false},
		{DeviceAdminAccess, "1", true},
		{DeviceClasses, "gpu.example.com,nic.example.com", false},
		{DeviceClasses, " ", true},
		{PodSecurity, "restricted", false},
		{PodSecurity, "strict", true},
		{"example.com/x", "", false},
	} {
		if err := Validate(map[string]string{c.key: c.value}); (err != nil) != c.refused {
			t.Errorf("%s: %q: %v", c.key, c.value, err)
		}
	}
}

func TestPorts(t *testing.T) {
	for _, c := range []struct {
		value string
		port  int32
		has   bool
	}{
		{"80,8000-8999", 80, true}, {"80,8000-8999", 8999, true}, {"80,8000-8999", 81, false},
		{"true", 1, true}, {"false", 1, false}, {"", 1, false},
	} {
		ports, err := ParsePorts(c.value)
		if err != nil || ports.Has(c.port) != c.has {
			t.Errorf("%d in %q: %v, %v", c.port, c.value, ports.Has(c.port), err)
		}
	}
}
