package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/a4s-io/a4s/tests/hosts"
)

// runner is one run of the command.
type runner struct {
	// root is the directory of the sources, suite that of the module that pins
	// the tests, out that of all that is made.
	root, suite, out string
	// binary is a4s.
	binary string
	// tests are those of upstream that run.
	tests selection
	// focus is a regular expression: of these tests run those that match.
	focus string
	// spaces are where to run them.
	spaces []string
	// procs is how many tests run at a time.
	procs int
}

func main() {
	hosts.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// fromEnvironment reads the settings, which `make help` and docs/reference/conformance.md
// tell of.
func fromEnvironment() (*runner, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	r := &runner{
		root:   root,
		suite:  filepath.Join(root, "tests/conformance/suite"),
		out:    filepath.Join(root, "bin/conformance"),
		binary: cmp.Or(os.Getenv("A4S_BINARY"), filepath.Join(root, "bin/a4s")),
		tests:  conformanceTests(),
		focus:  os.Getenv("FOCUS"),
	}
	switch all := os.Getenv("ALL"); all {
	case "":
	case "1":
		r.tests = otherTests()
	default:
		return nil, fmt.Errorf("ALL=%s: want 1, for upstream's tests beyond conformance, or nothing", all)
	}
	if _, err := os.Stat(r.suite); err != nil {
		return nil, fmt.Errorf("run it in the directory of the sources: %w", err)
	}
	switch spaces := cmp.Or(os.Getenv("SPACES"), "both"); spaces {
	case "both":
		r.spaces = []string{tenantSpace, systemSpace}
	case tenantSpace, restrictedSpace, systemSpace:
		r.spaces = []string{spaces}
	default:
		return nil, fmt.Errorf("SPACES=%s: want tenant, restricted, system or both (tenant and system)", spaces)
	}
	if r.procs, err = strconv.Atoi(cmp.Or(os.Getenv("PROCS"), "4")); err != nil || r.procs < 1 {
		return nil, fmt.Errorf("PROCS=%s: want how many tests to run at a time", os.Getenv("PROCS"))
	}
	return r, nil
}

// run says whether the tests did what docs/reference/conformance.md says of them.
func run(ctx context.Context) (ok bool, err error) {
	r, err := fromEnvironment()
	if err != nil {
		return false, err
	}
	tables, err := readKnown(filepath.Join(r.root, knownFile))
	if err != nil {
		return false, err
	}
	known := tables[r.tests.name]
	if err := r.buildPrograms(ctx); err != nil {
		return false, err
	}
	archives, err := r.buildImages(ctx)
	if err != nil {
		return false, err
	}
	lab, err := hosts.NewLab()
	if err != nil {
		return false, err
	}
	defer lab.Close()
	images, err := serveImages(filepath.Join(lab.Dir, "images"), lab.Gateway, archives)
	if err != nil {
		return false, err
	}
	defer images.close()
	c, err := r.startCluster(ctx, lab, images.address)
	if err != nil {
		return false, err
	}
	defer c.keepLogs(r.out)
	var reports []string
	ok = true
	for _, space := range r.spaces {
		results, err := r.runTests(ctx, c, space, known[space])
		if err != nil {
			return false, errors.Join(err, ctx.Err())
		}
		sum := summarize(space, results, known[space], r.focus == "")
		reports = append(reports, sum.text)
		ok = ok && sum.asListed
		if r.focus != "" {
			continue // a part of the tests says nothing of all of them
		}
		if err := r.record(ctx, space, sum); err != nil {
			return false, err
		}
	}
	fmt.Print("\n", strings.Join(reports, "\n"))
	return ok, nil
}

// buildPrograms builds upstream's test program, what runs it in parallel, and
// the kubectl that some of the tests run.
func (r *runner) buildPrograms(ctx context.Context) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	fmt.Println("building the tests")
	pinned, err := r.kubernetes(ctx)
	if err != nil {
		return err
	}
	// kubectl refuses to print a version that is none, and a test asks it. Another
	// wants pods that the program's own version takes for restricted.
	stamp, err := stampOf(pinned)
	if err != nil {
		return err
	}
	return errors.Join(
		r.command(ctx, r.suite, "go", "test", "-c", "-ldflags", stamp, "-o", filepath.Join(r.out, "e2e.test"),
			"k8s.io/kubernetes/test/e2e"),
		r.command(ctx, r.suite, "go", "build", "-o", r.out+"/", "github.com/onsi/ginkgo/v2/ginkgo"),
		r.command(ctx, r.suite, "go", "build", "-ldflags", stamp, "-o", r.out+"/", "k8s.io/kubernetes/cmd/kubectl"),
	)
}

// kubernetes is the version of Kubernetes that the tests are of.
func (r *runner) kubernetes(ctx context.Context) (string, error) {
	v, err := r.output(ctx, r.suite, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	return strings.TrimSpace(v), err
}

// stampOf are the linker's flags that tell a program of upstream its version.
func stampOf(v string) (string, error) {
	parsed, err := version.ParseSemantic(v)
	if err != nil {
		return "", fmt.Errorf("the version of k8s.io/kubernetes: %w", err)
	}
	const of = "-X k8s.io/component-base/version."
	return fmt.Sprintf("%sgitVersion=%s %sgitMajor=%d %sgitMinor=%d", of, v, of, parsed.Major(), of, parsed.Minor()),
		nil
}
