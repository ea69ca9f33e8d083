package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	gatewaySuiteModule = "../gatewaysuite"
	// gatewaySuiteTime is several times what the suite takes on two slow cores.
	gatewaySuiteTime = 2 * time.Hour
)

// gatewayFeatures are what a4s has of the Gateway API, by the names of the suite.
func gatewayFeatures() []string {
	return []string{"Gateway", "HTTPRoute", "ReferenceGrant", "HTTPRouteBackendRequestHeaderModification",
		"HTTPRouteQueryParamMatching", "HTTPRouteMethodMatching", "HTTPRouteResponseHeaderModification",
		"HTTPRoutePortRedirect", "HTTPRouteSchemeRedirect", "HTTPRoutePathRedirect", "HTTPRouteHostRewrite",
		"HTTPRoutePathRewrite", "HTTPRouteRequestTimeout", "HTTPRouteBackendTimeout", "HTTPRouteParentRefPort",
		"HTTPRouteBackendProtocolH2C", "HTTPRouteBackendProtocolWebSocket", "HTTPRouteNamedRouteRule",
		"HTTPRoute303RedirectStatusCode", "HTTPRoute307RedirectStatusCode", "HTTPRoute308RedirectStatusCode",
		"GRPCRoute", "GRPCRouteNamedRouteRule", "TLSRoute"}
}

// gatewayFailures are the tests of the suite that cannot pass, and why. One that passes is no longer to be here.
func gatewayFailures() map[string]string {
	return map[string]string{
		"HTTPRouteMultipleGateways":     "it wants an address for each Gateway: here all have those of the nodes",
		"HTTPRouteListenerPortMatching": "it has listeners at 8080 and 8090: nodes take requests at ports 80 and 443",
		"TLSRouteHostnameIntersection":  "it has names that one Gateway refuses and another takes: all are one here",
	}
}

// TestGatewayConformance runs the conformance suite of the Gateway API, as upstream has it, in the space of the
// system, from a machine outside the cluster.
func TestGatewayConformance(t *testing.T) {
	dir := os.Getenv("A4S_GATEWAY_SUITE")
	if dir == "" {
		t.Skip("A4S_GATEWAY_SUITE is not set: make test-gateway runs this")
	}
	c := ownCluster(t, "gatewaysuite")
	worker := newAgent(t, "gatewaysuite-worker", c)
	outside := newHost(t, "gatewaysuite-client")
	importGatewayImages(t, &c.node, worker)
	c.waitOwnNode(t)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	c.installGatewayAPI(t)
	p := c.startGatewaySuite(t, outside, dir)
	hosts.Until(t, gatewaySuiteTime, "the suite has ended", func(context.Context) error {
		if p.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	said := p.Output()
	if err := os.WriteFile(filepath.Join(dir, "log.txt"), []byte(said), 0o644); err != nil {
		t.Error(err)
	}
	checkGatewaySuite(t, said, os.Getenv("A4S_GATEWAY_TEST"))
}

// importGatewayImages builds the images that the suite names, and imports them.
func importGatewayImages(t *testing.T, nodes ...*node) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(moduleDir(t, gatewaySuiteModule, "sigs.k8s.io/gateway-api/conformance"),
		"base/manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	images := regexp.MustCompile(`(?m)^ *(?:- )?image: (\S+)$`)
	var done []string
	for _, line := range images.FindAllStringSubmatch(string(manifest), -1) {
		image := line[1]
		if slices.Contains(done, image) {
			continue
		}
		done = append(done, image)
		var archive string
		switch {
		case strings.Contains(image, "/echo-basic:"):
			archive = buildImage(t, gatewaySuiteModule, image, "--entrypoint", "/echo-basic", "--user", "65532:65532",
				"--go", "sigs.k8s.io/gateway-api/conformance/echo-basic=/echo-basic")
		case strings.Contains(image, "/coredns:"):
			archive = buildImage(t, "../..", image, "--entrypoint", "/coredns",
				"--go", "./tests/conformance/coredns=/coredns")
		default:
			t.Fatalf("the suite has image %s, of which nothing is known here", image)
		}
		for _, n := range nodes {
			n.importImage(t, archive)
		}
	}
	if len(done) == 0 {
		t.Fatal("the suite names no image")
	}
}

// startGatewaySuite starts the suite on a host outside the cluster. Its report is to be in dir.
func (c *cluster) startGatewaySuite(t *testing.T, outside *hosts.Host, dir string) *hosts.Process {
	t.Helper()
	const access = "/run/cluster.yaml"
	config, err := clientcmd.LoadFromFile(c.host.Path(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = c.url()
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := outside.WriteFile(access, string(content)); err != nil {
		t.Fatal(err)
	}
	args := []string{"KUBECONFIG=" + access, filepath.Join(dir, "conformance.test"), "-test.v", "-test.timeout=0",
		"-test.run=^TestConformance$", "-gateway-class=a4s",
		"-conformance-profiles=GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS",
		"-supported-features=" + strings.Join(gatewayFeatures(), ","),
		"-report-output=" + filepath.Join(dir, "report.yaml"),
		"-organization=a4s-io", "-project=a4s", "-url=https://github.com/a4s-io/a4s", "-contact=@a4s-io",
		"-version=" + strings.Fields(c.must(t, "--version"))[1]}
	if one := os.Getenv("A4S_GATEWAY_TEST"); one != "" {
		args = append(args, "-run-test="+one)
	}
	p, err := outside.Start("env", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the suite writes to %s", p.Log)
	return p
}

// checkGatewaySuite compares what the suite said with what is expected of it.
func checkGatewaySuite(t *testing.T, said, one string) {
	t.Helper()
	results := gatewayResults(said)
	failures, passed := gatewayFailures(), 0
	for name, result := range results {
		switch why, listed := failures[name]; {
		case result == "FAIL" && listed:
			t.Logf("%s fails: %s", name, why)
		case result == "FAIL":
			t.Errorf("%s fails", name)
		case result == "PASS" && listed:
			t.Errorf("%s passes, and is not to be among the failures any more", name)
		case result == "PASS":
			passed++
		}
	}
	for name := range failures {
		if _, ran := results[name]; !ran && one == "" {
			t.Errorf("%s is among the failures, and is no test", name)
		}
	}
	t.Logf("%d tests passed", passed)
	if passed == 0 || one == "" && passed < len(gatewayFeatures()) {
		last := strings.Split(said, "\n")
		t.Errorf("only %d tests passed:\n%s", passed, strings.Join(last[max(0, len(last)-40):], "\n"))
	}
}

// gatewayResults are what became of the tests of the suite, by name: PASS, FAIL or SKIP.
func gatewayResults(said string) map[string]string {
	results := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^    --- (PASS|FAIL|SKIP): TestConformance/(\w+) \(`).
		FindAllStringSubmatch(said, -1) {
		results[line[2]] = line[1]
	}
	return results
}

// TestGatewayResults: of the parts of a test nothing is counted, nor of what tests say.
func TestGatewayResults(t *testing.T) {
	got := gatewayResults(`=== RUN   TestConformance/A
--- FAIL: TestConformance (12.34s)
    --- PASS: TestConformance/A (1.00s)
        --- FAIL: TestConformance/A/part (0.10s)
    --- FAIL: TestConformance/B (0.00s)
        b.go:1:     --- PASS: TestConformance/B (0.00s)
    --- SKIP: TestConformance/C (0.00s)
`)
	if len(got) != 3 || got["A"] != "PASS" || got["B"] != "FAIL" || got["C"] != "SKIP" {
		t.Errorf("%v", got)
	}
}
