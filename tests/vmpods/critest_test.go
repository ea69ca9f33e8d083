package vmpods

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/scripts/ociarchive"
)

// notForMachines are beginnings of critest's names of what a virtual machine
// cannot be or does not need, and of what wants a registry. docs/run/vm.md tells the
// same.
var notForMachines = map[string]string{
	"[k8s.io] Security Context bucket runtime should support MaskedPaths": "the shell of Debian's busybox has the " +
		"masked ls built in",
	"[k8s.io] Image ": "wants a registry; the image service is containerd's",
	"[k8s.io] Security Context NamespaceOption runtime should support HostPID": "a machine has no part in " +
		"the node's processes",
	"[k8s.io] Security Context NamespaceOption runtime should support " +
		"HostIpc is true": "nor in its IPC",
	"[k8s.io] Security Context NamespaceOption runtime should support " +
		"HostNetwork is true": "nor in its network",
	"[k8s.io] Streaming runtime should support streaming interfaces runtime should support portforward in " +
		"host network": "nor in its network",
	"[k8s.io] Security Context SeccompProfilePath should support seccomp localhost profile": "the machine's kernel " +
		"is its own",
	"[k8s.io] Security Context SeccompProfilePath should support seccomp " +
		"default": "the machine's kernel " +
		"is its own",
	"[k8s.io] Security Context SeccompProfilePath runtime should support an seccomp profile": "the machine's kernel " +
		"is its own",
	"[k8s.io] Container Mount Propagation runtime should support mount propagation mount with 'rshared'": "mounts " +
		"of the machine's kernel cannot be the node's",
	"[k8s.io] Container Mount Readonly runtime should support readonly mounts should support non-recursive " +
		"readonly mounts": "what is shared read-only is so altogether",
	"[k8s.io] Container Mount Readonly runtime should support readonly mounts should support recursive readonly " +
		"mounts: failed to remove \"hostPath\"": "while a pod has a directory with mounts in it, " +
		"these mount points cannot be deleted on the node",
}

// TestCritest runs critest against the VM runtime. What is skipped by it, and
// what is expected to fail, is not hidden: it is listed at the end.
func TestCritest(t *testing.T) {
	critest := os.Getenv(envCritest)
	if critest == "" {
		t.Skipf("set %s, or use `make test-critest`", envCritest)
	}
	n := startNode(t, critestImages(t)...)
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{
		"--runtime-endpoint=unix://" + n.vm.Socket, "--image-endpoint=unix://" + n.vm.Socket,
		"--ginkgo.json-report=" + report, "--ginkgo.no-color", "--ginkgo.succinct", "--ginkgo.timeout=40m",
		"--ginkgo.seed=1", "--config=/dev/null",
	}
	if focus := os.Getenv("A4S_CRITEST_FOCUS"); focus != "" {
		args = append(args, "--ginkgo.focus="+focus)
	}
	out, runErr := exec.Command(critest, args...).CombinedOutput()
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("critest made no report: %v, %v\n%s", runErr, err, out)
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText, State     string
			Failure                 struct{ Message string }
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		t.Fatal(err)
	}
	var passed, failed, skipped []string
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if spec.LeafNodeText == "" { // of the suite, not of a test
				continue
			}
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			message, _, _ := strings.Cut(spec.Failure.Message, "\n")
			switch spec.State {
			case "passed":
				passed = append(passed, name)
			case "skipped", "pending":
				if message != "" { // it says why: not just out of focus
					skipped = append(skipped, name+": "+message)
				}
			default:
				failed = append(failed, name+": "+spec.Failure.Message)
			}
		}
	}
	for _, list := range []struct {
		title string
		names []string
	}{{"passed", passed}, {"skipped by critest", skipped}} {
		slices.Sort(list.names)
		t.Logf("%d %s:\n%s", len(list.names), list.title, strings.Join(list.names, "\n"))
	}
	if len(passed) == 0 {
		t.Errorf("nothing passed: %v\n%s", runErr, out)
	}
	for _, failure := range failed {
		if why := notFor(failure); why != "" {
			t.Logf("does not apply: %s (%s)", failure, why)
			continue
		}
		t.Errorf("failed: %s", failure)
	}
	n.nothingBut(t, nil)
}

func notFor(name string) string {
	for beginning, why := range notForMachines {
		if strings.HasPrefix(name, beginning) {
			return why
		}
	}
	return ""
}

// critestImages are the images that critest asks for, made of busybox.
func critestImages(t *testing.T) []ociarchive.Image {
	t.Helper()
	const e2e, staging = "registry.k8s.io/e2e-test-images/", "gcr.io/k8s-staging-cri-tools/"
	with := func(ref string, change func(*ociarchive.Image)) ociarchive.Image {
		image := busyboxOf(t, ref)
		if change != nil {
			change(&image)
		}
		return image
	}
	user := func(name string) func(*ociarchive.Image) {
		return func(i *ociarchive.Image) { i.User = name }
	}
	// A web server whose process says so, as nginx' does.
	web := func(script string) func(*ociarchive.Image) {
		return func(i *ociarchive.Image) {
			i.Cmd = []string{"/start"}
			i.Files = append(i.Files,
				ociarchive.File{Path: "start", Mode: 0o755, Data: []byte("#!/bin/sh\n" + script)},
				ociarchive.File{Path: "etc/master process", Mode: 0o644},
				ociarchive.File{Path: "var/run", Mode: fs.ModeDir | 0o755})
		}
	}
	return []ociarchive.Image{
		with(e2e+"busybox:1.29-2", nil),
		with(e2e+"nginx:1.14-2",
			web("echo $$ >/var/run/nginx.pid\nexec httpd -f -p 80 -h /www -c '/etc/master process'\n")),
		with(e2e+"httpd:2.4.39-4", web("echo httpd starts\nexec httpd -f -p 80 -h /www\n")),
		with(e2e+"nonewprivs:1.3", func(i *ociarchive.Image) {
			i.Cmd = []string{"/nnp"}
			i.Files = append(i.Files,
				ociarchive.File{Path: "nnp", Mode: fs.ModeSetuid | 0o755, Data: built(t, "./../images/nonewprivs")})
		}),
		with(staging+"test-image-user-uid:latest", user("1002")),
		with(staging+"test-image-user-username:latest", user("www-data")),
		with(staging+"test-image-user-uid-group:latest", user("1003:users")),
		with(staging+"test-image-user-username-group:latest", user("www-data:100")),
		with(staging+"test-image-predefined-group:latest", user("1000")),
	}
}

// built is a static program.
func built(t *testing.T, pkg string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
