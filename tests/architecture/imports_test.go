package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/a4s-io/a4s"

// goPackage is what the Go tool says of one package.
type goPackage struct {
	ImportPath  string
	Name        string
	Dir         string
	Doc         string
	GoFiles     []string
	TestGoFiles []string
	Imports     []string
	Deps        []string
	Error       *struct{ Err string }
}

// path returns the import path below the module, "." for its root.
func (p goPackage) path() string {
	return path.Clean("./" + strings.TrimPrefix(p.ImportPath, module))
}

// forTests reports whether the package is there to be used by tests.
func (p goPackage) forTests() bool {
	return within(p.path(), "tests") || slices.Contains(p.Imports, "testing")
}

// packages lists the packages of the module, once for all tests.
var packages = sync.OnceValues(func() ([]goPackage, error) {
	cmd := exec.Command("go", "list",
		"-e", "-json=ImportPath,Name,Dir,Doc,GoFiles,TestGoFiles,Imports,Deps,Error", module+"/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var list []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
})

func mustPackages(t *testing.T) []goPackage {
	t.Helper()
	list, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 10 {
		t.Fatalf("the Go tool lists %d packages: is this the whole module?", len(list))
	}
	for _, p := range list {
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
	}
	return list
}

// within reports whether the path is the tree or below it.
func within(p, tree string) bool { return p == tree || strings.HasPrefix(p, tree+"/") }

// ban forbids packages of one tree to depend on those of another, directly or
// through others.
type ban struct {
	from   string   // path below the module
	except []string // paths below the module that may
	to     string   // import path
	why    string
}

var bans = []ban{
	{from: "server", to: module + "/agent",
		why: "a server runs without a node; only cmd and main wire both into one process"},
	{from: "agent", to: module + "/server",
		why: "an agent holds no control plane; what both need belongs in internal"},
	{from: "internal", to: module + "/server",
		why: "internal is what server and agent share, so it is below both"},
	{from: "internal", to: module + "/agent",
		why: "internal is what server and agent share, so it is below both"},
	{from: "internal", to: module + "/cmd",
		why: "commands turn flags into configuration; nothing below may know of them"},
	{from: "embedded", to: module + "/server",
		why: "embedded is what the modes are made of, so it is below them"},
	{from: "embedded", to: module + "/agent",
		why: "embedded is what the modes are made of, so it is below them"},
	{from: "server", to: module + "/cmd",
		why: "commands turn flags into configuration; nothing below may know of them"},
	{from: "agent", to: module + "/cmd",
		why: "commands turn flags into configuration; nothing below may know of them"},
	{from: "internal", to: "k8s.io/kubernetes",
		why: "packages of names and bytes are tested in seconds, which they are not with the server code of " +
			"Kubernetes behind them"},
	{from: "internal", to: "github.com/containerd/containerd/v2/cmd",
		why: "packages of names and bytes are tested in seconds, " +
			"which they are not with a container runtime behind them"},
	{from: "server/tenancy/crd", except: []string{"server/tenancy/crd/serving", "server/tenancy/crd/registry"},
		to:  "k8s.io/apiserver/pkg/registry/generic/registry",
		why: "which definition serves whom, and what is said of them, is decided without the server that serves them"},
	{from: "server/tenancy/crd", to: "k8s.io/kubernetes",
		why: "custom resources are the same without the built-in APIs; what serves them must not come to need these"},
	{from: "agent/vm", to: "k8s.io/kubernetes",
		why: "virtual machines are run by a process of their own, which needs none of the server code of Kubernetes"},
	{from: "embedded/payload", to: "k8s.io/kubernetes",
		why: "the payload is files; its tests must build in seconds"},
	{from: "server/controlplane/scheduler/readiness", to: "k8s.io/kubernetes",
		why: "a plugin needs the scheduler's interfaces only; its tests must build in seconds"},
	{from: "server/partition/nodecopies", except: []string{"server/partition/nodecopies/storage"},
		to: "k8s.io/kubernetes",
		why: "copies are written with the client; upstream's storage of nodes is in one package, " +
			"and the tests of the rest must build in seconds"},
	{from: "server/partition/allocations", except: []string{"server/partition/allocations/registry"},
		to: "k8s.io/kubernetes",
		why: "the kind is types and sums; what serves it is in one package, and the tests of the rest must " +
			"build in seconds"},
	{from: "agent/runtime/readiness", to: "k8s.io/kubernetes",
		why: "conditions of a node are written with the client; its tests must build in seconds"},
	{from: "agent/cluster/loadbalancer", to: "k8s.io/kubernetes",
		why: "connections are carried without knowing what is in them; its tests must build in seconds"},
	{from: "agent/bootstrap", except: []string{"agent/bootstrap/podcheck"}, to: "k8s.io/kubernetes",
		why: "upstream's validation of pods is in one package; the rest must build in seconds"},
	{from: "server/controlplane", to: module + "/server/tenancy",
		why: "what runs upstream's programs is the same without tenants, who come in by the seams of the API server"},
	{from: "server/controlplane", to: module + "/server/addons",
		why: "an add-on can be left out, so nothing of the control plane needs one"},
	{from: "server/controlplane", to: module + "/server/cluster",
		why: "one server is a control plane; what several have in common is above it"},
	{from: "server/tenancy", to: module + "/server/cluster",
		why: "a space is the same on one server and on several"},
	{from: "server/tenancy", to: module + "/server/nodeapi",
		why: "nodes join without tenants, and tenants use the API without the node API"},
	{from: "server/groups", to: module + "/server/partition",
		why: "groups divide the tenants of one datastore, partitions have a datastore each: a server has one, " +
			"the other, both or none"},
	{from: "server/partition", to: module + "/server/groups",
		why: "groups divide the tenants of one datastore, partitions have a datastore each: a server has one, " +
			"the other, both or none"},
	{from: "server/tenancy", to: module + "/server/partition",
		why: "a space is the same in one partition and in several; the edge says what it asks of them, and the " +
			"wiring of the server brings both together"},
	{from: "server/partition", to: module + "/server/tenancy",
		why: "what partitions do is the same whatever a tenant may do; who a user is, internal/space says"},
	{from: "server/groups", to: module + "/server/tenancy",
		why: "tenancy stores by groups, so these are below it"},
	{from: "server/addons", to: module + "/server/tenancy",
		why: "add-ons work with composite names, as upstream does, and ask no part of tenancy"},
	{from: "server/addons", to: module + "/server/cluster",
		why: "the wiring decides on which server an add-on runs"},
	{from: "server/cluster", to: module + "/server/controlplane",
		why: "what servers have in common is there before the API serves"},
	{from: "server/cluster", to: module + "/server/tenancy",
		why: "what servers have in common is there before the API serves"},
	{from: "server/datastore", to: module + "/server/controlplane",
		why: "the datastore is below everything that stores"},
	{from: "server/datastore", to: module + "/server/tenancy",
		why: "the datastore is below everything that stores"},
	{from: "server/datastore", to: module + "/server/cluster",
		why: "the datastore is below everything that stores"},
	{from: "agent/network", to: module + "/agent/kubelet",
		why: "the pod network is there before the kubelet"},
	{from: "agent/origin", to: "k8s.io/kubernetes",
		why: "the transport before the kubelet knows the API, not the kubelet; its tests must build in seconds"},
	{from: "manifests", to: "k8s.io/kubernetes",
		why: "manifests are bytes; their tests must build in seconds"},
	{from: "embedded/guest", to: "k8s.io",
		why: "it is in the memory of every virtual machine, and is started again for every process in one"},
	{from: "embedded/guest", to: "net/http",
		why: "it is in the memory of every virtual machine, and is started again for every process in one"},
	{from: "agent/vm/guest", to: "k8s.io",
		why: "what a virtual machine is told has no Kubernetes in it; its tests must build in seconds"},
	{from: "embedded/shim", to: "k8s.io",
		why: "one shim runs beside every pod: each package in it costs memory once a pod"},
	{from: ".", except: []string{"tests"}, to: module + "/tests",
		why: "what tests are made of may end the process and assumes a machine of its own"},
	{from: ".", except: []string{"embedded/shim"},
		to: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin",
		why: "its init registers the shim's task service as a plugin of the containerd in the same process, " +
			"which then does not start"},
}

// banned returns the dependency that breaks the rule, if there is one.
func (b ban) banned(p goPackage) string {
	if b.from != "." && !within(p.path(), b.from) ||
		slices.ContainsFunc(b.except, func(e string) bool { return within(p.path(), e) }) {
		return ""
	}
	for _, dep := range p.Deps {
		if within(dep, b.to) {
			return dep
		}
	}
	return ""
}

func TestImportBans(t *testing.T) {
	for _, p := range mustPackages(t) {
		for _, b := range bans {
			if dep := b.banned(p); dep != "" {
				t.Errorf("%s depends on %s: %s", p.path(), dep, b.why)
			}
		}
	}
}

// TestBansFind makes sure that the check above can fail.
func TestBansFind(t *testing.T) {
	for _, tc := range []struct {
		pkg, dep string
		want     bool
	}{
		{"server/x", module + "/agent/y", true},
		{"server/x", module + "/agents", false},
		{"serverless", module + "/agent", false},
		{"internal/x", "k8s.io/kubernetes/pkg/apis/core", true},
		{"internal/x", "k8s.io/client-go/rest", false},
		{"agent/x", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin", true},
		{"server/x", module + "/tests/planes", true},
		{"tests/x", module + "/tests/planes", false},
		{"embedded/shim", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin", false},
	} {
		p := goPackage{ImportPath: module + "/" + tc.pkg, Deps: []string{"fmt", tc.dep}}
		found := slices.ContainsFunc(bans, func(b ban) bool { return b.banned(p) != "" })
		if found != tc.want {
			t.Errorf("%s importing %s: banned is %v, want %v", tc.pkg, tc.dep, found, tc.want)
		}
	}
}

// reserved are packages that only some of ours import themselves; what these import may
// depend on them.
var reserved = []struct {
	to  string   // import path
	in  []string // paths below the module that may
	why string
}{
	{to: "github.com/spf13/cobra", in: []string{"cmd/kubectl"},
		why: "the command line of a4s is urfave/cli's (docs/developing/adr/0048-command-line.md); " +
			"kubectl's alone is upstream's, which is cobra"},
	{to: "helm.sh/helm/v4", in: []string{"server/addons/charts/archive", "server/addons/charts/release"},
		why: "Helm reads files and the environment, and has variables for a whole process; what it is asked, " +
			"and with what, is in two packages (docs/developing/adr/0055-charts.md)"},
	{to: "github.com/urfave/cli/v2", in: []string{"cmd"},
		why: "commands turn the command line into configuration; nothing else reads it"},
}

func TestReservedImports(t *testing.T) {
	for _, r := range reserved {
		used := false
		for _, p := range mustPackages(t) {
			if !slices.ContainsFunc(p.Imports, func(i string) bool { return within(i, r.to) }) {
				continue
			}
			if !slices.Contains(r.in, p.path()) {
				t.Errorf("%s imports %s: %s", p.path(), r.to, r.why)
			}
			used = true
		}
		if !used {
			t.Errorf("nothing imports %s: the rule is about nothing", r.to)
		}
	}
}

func TestBinaryHoldsNoTestCode(t *testing.T) {
	list := mustPackages(t)
	root := slices.IndexFunc(list, func(p goPackage) bool { return p.path() == "." })
	if root < 0 {
		t.Fatal("the module has no main package")
	}
	for _, p := range list {
		if p.forTests() && slices.Contains(list[root].Deps, p.ImportPath) {
			t.Errorf("the binary depends on %s, which is for tests: importing testing registers its flags and Fatal "+
				"has nobody to stop", p.path())
		}
	}
}

func TestPackagesAreNamedForWhatTheyDo(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "lib"}
	for _, p := range mustPackages(t) {
		if slices.Contains(vague, p.Name) || slices.Contains(vague, path.Base(p.ImportPath)) {
			t.Errorf("%s: the name says nothing about what is inside, so everything will end up there", p.path())
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range mustPackages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		// A command of one file may say it there.
		if p.Doc == "" || p.Name != "main" && !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go with its purpose, its invariants and who may import it", p.path())
		}
	}
}
