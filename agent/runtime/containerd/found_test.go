package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	nodev1 "k8s.io/api/node/v1"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/workload"
)

// program puts an empty file of these rights where a program could be.
func program(t *testing.T, dir, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFoundRuntimes(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	program(t, first, "crun", 0o644)
	crun := program(t, second, "crun", 0o755)
	nvidia := program(t, first, "nvidia-container-runtime", 0o755)
	program(t, second, "nvidia-container-runtime", 0o755)
	program(t, second, "nvidia-container-runtime.real", 0o755)
	spin := program(t, second, "containerd-shim-spin-v2", 0o755)
	if err := os.Mkdir(filepath.Join(first, "containerd-shim-kata-v2"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []Runtime{
		{Handler: "nvidia", Type: runcShim, Path: nvidia},
		{Handler: "crun", Type: runcShim, Path: crun},
		{Handler: "spin", Type: "io.containerd.spin.v2", Path: spin, Shim: true},
	}
	if got := Found([]string{"", "relative", first, filepath.Join(first, "none"), second}); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if got := Found(nil); got != nil {
		t.Errorf("found %v nowhere", got)
	}
}

// What is looked for and what has a RuntimeClass is the same, and each class leads only to nodes
// that say they have it, and only tenants that list it.
func TestKnownRuntimesHaveClasses(t *testing.T) {
	content, err := os.ReadFile("../../../manifests/runtimeclasses.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var classes, handlers []string
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var class nodev1.RuntimeClass
		if err := yaml.UnmarshalStrict([]byte(document), &class); err != nil {
			t.Fatal(err)
		}
		if _, err := workload.Parse(class.Handler); err == nil {
			continue
		}
		classes = append(classes, class.Handler)
		if class.Annotations[workload.TenantsAnnotation] != workload.TenantsListed {
			t.Errorf("every tenant may use the class %s", class.Name)
		}
		if class.Handler == "kata" && class.Overhead == nil {
			t.Errorf("nobody counts what a machine of the class %s takes", class.Name)
		}
		if class.Scheduling == nil ||
			class.Scheduling.NodeSelector[workload.HandlerLabel+class.Handler] != workload.HandlerOffered {
			t.Errorf("pods of the class %s go to nodes that do not have it", class.Name)
		}
	}
	for _, r := range known() {
		handlers = append(handlers, r.Handler)
	}
	if !slices.Equal(classes, handlers) {
		t.Errorf("there are classes for %q, and programs are looked for of %q", classes, handlers)
	}
}

func TestDefaultRuntime(t *testing.T) {
	for _, c := range []struct {
		name, want string
		found      []Runtime
	}{
		{"", "", nil},
		{"runc", "", nil},
		{"crun", "", []Runtime{{Handler: "crun"}}},
		{"crun", "runc, which is the only one on this machine; for crun the program crun is looked for in PATH", nil},
		{"nvidia", "one that is on this machine: runc, crun; for nvidia the program nvidia-container-runtime is " +
			"looked for in PATH", []Runtime{{Handler: "crun"}}},
		{"kuasar", "runc, which is the only one on this machine", nil},
	} {
		o := sampleOptions()
		o.DefaultRuntime, o.Runtimes = c.name, c.found
		err := o.Validate()
		var mistake *problem.Input
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q of %v: %v", c.name, c.found, err)
		case c.want != "" && (!errors.As(err, &mistake) || mistake.Want != c.want || mistake.Value != c.name):
			t.Errorf("%q of %v: %v, want %q", c.name, c.found, err, c.want)
		}
	}
}
