package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a4s-io/a4s/tests/hosts"
)

// suiteTimeout is far more than the tests take on two slow cores.
const suiteTimeout = "6h"

// selection is which of upstream's tests run.
type selection struct {
	// name is what docs/reference/conformance.md calls them, in the first column of its results.
	name string
	// labels is ginkgo's filter by labels, focus the regular expression of the names if
	// FOCUS has none.
	labels, focus string
}

// conformanceTests are those that every cluster passes.
func conformanceTests() selection { return selection{name: conformanceName, labels: "Conformance"} }

// otherTests are the rest of what needs no feature that is off by default and nothing
// of a cloud: of storage only what a node has by itself.
func otherTests() selection {
	return selection{
		name:   otherName,
		labels: "!Conformance && !Slow && !Serial && !Disruptive && !Flaky && Feature: isEmpty",
		// Not from the begin: ginkgo puts the name of the suite before those of tests.
		focus: `\[sig-(network|apps|cli|auth|api-machinery|node)\] |` +
			`\[sig-storage\] (EmptyDir|Projected|Subpath|PersistentVolumes-local|` +
			`In-tree Volumes \[Driver: (local|emptydir)\])`,
	}
}

// The names of both in docs/reference/conformance.md.
const conformanceName, otherName = "conformance", "others"

// result is what became of a test.
type result struct {
	// State is what ginkgo says: passed, skipped, failed, timedout, panicked...
	State string
	// Message is why.
	Message string
	// Again is set when the test passed only alone, after it had failed.
	Again bool
}

// runTests runs the tests in a space and returns what became of each. One that
// fails, and is not known to, is run again when all are through, by itself: a
// test that is out of time on a busy machine has not shown anything.
func (r *runner) runTests(
	ctx context.Context, c *cluster, space string, known map[string]string,
) (map[string]result, error) {
	file, err := c.kubeconfigOf(ctx, space)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.out, r.tests.name, space)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	focus := cmp.Or(r.focus, r.tests.focus)
	skip, err := endless(known, focus)
	if err != nil {
		return nil, err
	}
	results, err := r.attempt(ctx, c, file, filepath.Join(dir, "first"), r.procs, focus, skip)
	if err != nil {
		return nil, err
	}
	for _, name := range skip {
		results[name] = result{State: "not run"}
	}
	var failed []string
	for name, was := range results {
		if _, listed := known[name]; was.failed() && !listed {
			failed = append(failed, exactly(name))
		}
	}
	if len(failed) == 0 {
		return results, nil
	}
	again, err := r.attempt(ctx, c, file, filepath.Join(dir, "again"), 1, strings.Join(failed, "|"), nil)
	if err != nil {
		return nil, err
	}
	for name, is := range again {
		if results[name].failed() {
			is.Again = true
			results[name] = is
		}
	}
	return results, nil
}

// exactly is the regular expression of a test.
func exactly(name string) string { return regexp.QuoteMeta(name) + "$" }

// endlessMark ends the reason of a test that has no limit of time for what does not
// apply: the run would not end either.
const endlessMark = "(waits for ever: not run)"

// endless are the names of such tests that match focus.
func endless(known map[string]string, focus string) ([]string, error) {
	wanted, err := regexp.Compile(focus)
	if err != nil {
		return nil, fmt.Errorf("FOCUS: %w", err)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if strings.HasSuffix(known[name], endlessMark) && wanted.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// attempt runs the tests that match focus, if that is not "", but for those to skip.
func (r *runner) attempt(
	ctx context.Context, c *cluster, kubeconfig, dir string, procs int, focus string, skip []string,
) (map[string]result, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	tmp := filepath.Join(c.dir, "tmp")
	if err := os.MkdirAll(tmp, 0o777); err != nil {
		return nil, err
	}
	args := []string{
		// The tests leave files behind: they go with the lab.
		"TMPDIR=" + tmp, filepath.Join(r.out, "ginkgo"),
		"run", "--procs=" + strconv.Itoa(procs),
		"--label-filter=" + r.tests.labels, "--timeout=" + suiteTimeout,
		"--no-color", "-v", "--silence-skips",
		"--output-dir=" + dir, "--json-report=report.json", "--junit-report=junit.xml", "--seed=1",
	}
	if focus != "" {
		args = append(args, "--focus="+focus)
	}
	for _, name := range skip {
		args = append(args, "--skip="+exactly(name))
	}
	args = append(args, filepath.Join(r.out, "e2e.test"), "--",
		"--kubeconfig="+kubeconfig, "--provider=skeleton", "--num-nodes="+strconv.Itoa(nodes),
		"--kubectl-path="+filepath.Join(r.out, "kubectl"),
		"--kubelet-root-dir="+filepath.Join(dataDir, "agent", "kubelet"),
		// A tenant's kube-system is its own: there is nothing to wait for.
		"--disable-log-dump", "--allowed-not-ready-nodes=-1")
	started := time.Now()
	p, err := c.client.Start("env", args...)
	if err != nil {
		return nil, err
	}
	fmt.Printf("running the tests, %d at a time: %s\n", procs, p.Log)
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	err = os.WriteFile(filepath.Join(dir, "log.txt"), []byte(p.Output()), 0o644)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	results, err := readReport(filepath.Join(dir, "report.json"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(results) == 0 {
		err = fmt.Errorf("no test ran:\n%s", hosts.LastLines(p.Log, 30))
	}
	if err != nil {
		return nil, err
	}
	fmt.Printf("ran %d tests in %s\n", len(results), time.Since(started).Round(time.Second))
	return results, nil
}

func (r result) failed() bool { return r.State != "" && r.State != "passed" && r.State != "skipped" }

// readReport reads ginkgo's report of the tests that were to run.
func readReport(path string) (map[string]result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText, State     string
			Failure                 struct{ Message string }
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	results := map[string]result{}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			message := strings.TrimSpace(spec.Failure.Message)
			switch {
			case spec.LeafNodeType != "It": // of the suite, as its reports: when that fails, no test runs
			case spec.State == "skipped" && message == "": // not asked for
			default:
				results[name] = result{State: spec.State, Message: message}
			}
		}
	}
	return results, nil
}
