package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// Where the files of docs/operate/monitoring.md are, and the pages that have lists of metrics.
const (
	monitoringFiles = "../../docs/examples/monitoring"
	pagesOfMetrics  = "../../docs"
	prometheusURL   = "http://127.0.0.1:9090"
)

// rare are metrics and selectors which a server without a node, which is well, may have no
// series of, by why.
var rare = map[string]string{
	"a4s_snapshot_last_success_timestamp_seconds": "since the first snapshot on schedule",
	"a4s_queue_refused_requests_total":            "since a request was refused",
	"a4s_tenant_refused_requests_total":           "since a request was refused",
	"a4s_tenant_wait_seconds_total":               "since a request waited",
	"a4s_storage_space_crossings_total":           "never, but by a mistake of a4s",
	"a4s_service_group_tenants":                   "on servers of service groups",
	"a4s_service_group_objects":                   "on servers of service groups",
	"a4s_loadbalancer_server_ready":               "on nodes",
	"kubelet_running_pods":                        "on nodes",
	`a4s_tenant_requests_total{code="429"}`:       "since a request was refused",
	`apiserver_request_total{code=~"5.."}`:        "since an error",
	`apiserver_request_total{code=~"429|5.."}`:    "since an error",
}

// prometheusProgram is the path of a program of Debian's package, which `make test-clients`
// unpacks.
func prometheusProgram(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("A4S_PROMETHEUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin", "prometheus")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("A4S_PROMETHEUS: %v: get it with make bin/prometheus", err)
	}
	return path
}

// monitoringFile reads a file that the documentation ships.
func monitoringFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(monitoringFiles, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestAlertsFire has promtool read the rules, and see when they fire and when they do not.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests, err := os.ReadFile(filepath.Join("testdata", "prometheus", "rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, map[string]string{"rules.yaml": monitoringFile(t, "rules.yaml"), "test.yaml": string(tests)})
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "test.yaml"}} {
		cmd := exec.Command(prometheusProgram(t, "promtool"), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrometheus runs Prometheus as docs/operate/monitoring.md says, and asks it each question of the
// rules and of the dashboard: none is wrong, and whatever one is about is there.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	admin := administrator(t)
	apply(t, "access.yaml")
	dir := t.TempDir()
	credentials(t, admin, dir)
	beMeasured(t)
	p := startPrometheus(t, dir)
	eventually(t, "the server to be scraped", p.scraped)
	eventually(t, "the rules to be evaluated", p.evaluated)
	asked := append(questions(t, "rules.yaml"), dashboard(t)...)
	if len(asked) < 50 {
		t.Fatalf("only %d questions were found", len(asked))
	}
	met := map[string]bool{}
	for _, q := range asked {
		if _, err := p.query(t.Context(), q); err != nil {
			t.Errorf("%s: %v", q, err)
		}
		for _, s := range selectors(q) {
			name, _, _ := strings.Cut(s, "{")
			met[name], met[s] = true, true
			eventuallyThere(t, p, s, name)
		}
	}
	for name := range rare {
		if !met[name] {
			t.Errorf("nothing asks for %s any more", name)
		}
	}
	documented(t, met)
}

// eventuallyThere waits for a series that a selector has, unless it is rare.
func eventuallyThere(t *testing.T, p *prometheus, selector, name string) {
	t.Helper()
	if rare[name] != "" || rare[selector] != "" {
		return
	}
	eventually(t, "series of "+selector, func(ctx context.Context) error {
		found, err := p.query(ctx, "count("+selector+")")
		if err == nil && len(found) == 0 {
			err = errors.New("there are none")
		}
		return err
	})
}

// administrator is a client of the administrator of the cluster.
func administrator(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", adminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// apply applies a file that the documentation ships.
func apply(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(monitoringFiles, name)
	for _, verb := range []string{"delete", "apply"} {
		cmd := exec.Command(kubectlBinary(), "--kubeconfig", adminKubeconfig(), verb, "-f", file)
		run := func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("kubectl %s -f %s: %v\n%s", verb, name, err, out)
			}
		}
		if verb == "delete" {
			cmd.Args = append(cmd.Args, "--wait=false", "--ignore-not-found")
			t.Cleanup(run)
		} else {
			run()
		}
	}
}

// credentials are those of the Secret in access.yaml, which give access to metrics and to
// nothing that tenants have.
func credentials(t *testing.T, admin *kubernetes.Clientset, dir string) {
	t.Helper()
	var secret *corev1.Secret
	eventually(t, "the token of Prometheus", func(ctx context.Context) (err error) {
		secret, err = admin.CoreV1().Secrets("monitoring").Get(ctx, "prometheus-token", metav1.GetOptions{})
		if err == nil && (len(secret.Data["token"]) == 0 || len(secret.Data["ca.crt"]) == 0) {
			err = errors.New("it is not filled in")
		}
		return err
	})
	writeFiles(t, dir, map[string]string{"token": string(secret.Data["token"]),
		"ca.crt": string(secret.Data["ca.crt"])})
	as, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + addressHere + ":6443",
		BearerToken:     string(secret.Data["token"]),
		TLSClientConfig: rest.TLSClientConfig{CAData: secret.Data["ca.crt"], ServerName: "kubernetes"}})
	if err != nil {
		t.Fatal(err)
	}
	canDiscover(t, as)
	if _, err := as.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the token of Prometheus reads Secrets: %v", err)
	}
	if _, err := as.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the token of Prometheus reads the pods of tenants: %v", err)
	}
	// What the ServiceMonitor of operator.yaml looks for.
	services, err := admin.CoreV1().Services("default").List(t.Context(),
		metav1.ListOptions{LabelSelector: "component=apiserver,provider=kubernetes"})
	if err != nil || len(services.Items) != 1 || services.Items[0].Spec.Ports[0].Name != "https" {
		t.Errorf("the Service of the API server: %+v, %v", services, err)
	}
}

// canDiscover does what the discovery of prometheus.yaml does, which Debian's Prometheus does
// not have, and finds the server.
func canDiscover(t *testing.T, as *kubernetes.Clientset) {
	t.Helper()
	ctx, all := t.Context(), metav1.ListOptions{}
	_, nodes := as.CoreV1().Nodes().List(ctx, all)
	_, services := as.CoreV1().Services("default").List(ctx, all)
	_, pods := as.CoreV1().Pods("default").List(ctx, all)
	endpoints, err := as.DiscoveryV1().EndpointSlices("default").List(ctx, all)
	if err := errors.Join(nodes, services, pods, err); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, s := range endpoints.Items {
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				if s.Labels["kubernetes.io/service-name"] == "kubernetes" && *p.Name == "https" {
					found = append(found, fmt.Sprintf("%s:%d", e.Addresses[0], *p.Port))
				}
			}
		}
	}
	if len(found) != 1 || found[0] != addressHere+":6443" {
		t.Errorf("the servers are %q", found)
	}
}

// TestBothSettingsAreTheSame: prometheus.yaml, whose discovery is not run here, is
// prometheus-static.yaml but for that.
func TestBothSettingsAreTheSame(t *testing.T) {
	t.Parallel()
	read := func(name string) (settings map[string]any) {
		if err := yaml.Unmarshal([]byte(monitoringFile(t, name)), &settings); err != nil {
			t.Fatal(err)
		}
		for _, job := range settings["scrape_configs"].([]any) {
			job := job.(map[string]any)
			if (job["static_configs"] == nil) == (job["kubernetes_sd_configs"] == nil) {
				t.Errorf("%s: the job %v finds nothing, or twice", name, job["job_name"])
			}
			delete(job, "static_configs")
			delete(job, "kubernetes_sd_configs")
			job["relabel_configs"] = slices.DeleteFunc(job["relabel_configs"].([]any), func(rule any) bool {
				return rule.(map[string]any)["action"] == "keep"
			})
		}
		return settings
	}
	if found, named := read("prometheus.yaml"), read("prometheus-static.yaml"); !reflect.DeepEqual(found, named) {
		t.Errorf("%v, and %v", found, named)
	}
}

// beMeasured makes a pod, which the scheduler tries to find a node for, in a tenant.
func beMeasured(t *testing.T) {
	t.Helper()
	client := acme.client(t)
	const namespace = "measured"
	_, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), namespace,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	off := false
	eventually(t, "a pod of a tenant", func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Spec: corev1.PodSpec{AutomountServiceAccountToken: &off,
				Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}}},
		}, metav1.CreateOptions{})
		return err
	})
}

// prometheus is one that runs.
type prometheus struct{}

// startPrometheus runs one with the documented settings, in which addresses and paths are
// those of the test, and which asks more often.
func startPrometheus(t *testing.T, dir string) *prometheus {
	t.Helper()
	settings := strings.NewReplacer("192.0.2.10:6443", addressHere+":6443", "/etc/prometheus/a4s/", dir+"/",
		"_interval: 30s", "_interval: 5s").Replace(monitoringFile(t, "prometheus-static.yaml"))
	writeFiles(t, dir, map[string]string{"prometheus.yaml": settings, "rules.yaml": monitoringFile(t, "rules.yaml")})
	check := exec.Command(prometheusProgram(t, "promtool"), "check", "config", "prometheus.yaml")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("promtool check config: %v\n%s", err, out)
	}
	cmd := exec.Command(prometheusProgram(t, "prometheus"), "--config.file", filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address",
		strings.TrimPrefix(prometheusURL, "http://"))
	keepRunning(t, "Prometheus", cmd, filepath.Join(dir, "log"))
	return &prometheus{}
}

// get asks Prometheus for what is at a path.
func (*prometheus) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, prometheusURL+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	answer := struct {
		Status, Error string
		Data          json.RawMessage
	}{}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", resp.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// scraped reports that the server was not scraped.
func (p *prometheus) scraped(ctx context.Context) error {
	up, err := p.query(ctx, `up{job="a4s-servers"} == 1`)
	if err != nil || len(up) == 1 {
		return err
	}
	var data struct {
		ActiveTargets []struct{ ScrapeURL, Health, LastError string }
	}
	if err := p.get(ctx, "/api/v1/targets", &data); err != nil {
		return err
	}
	return fmt.Errorf("the targets are %+v", data.ActiveTargets)
}

// query evaluates an expression, and returns the series of the answer.
func (p *prometheus) query(ctx context.Context, expr string) ([]json.RawMessage, error) {
	var data struct{ Result []json.RawMessage }
	err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &data)
	return data.Result, err
}

// evaluated reports a rule that was not evaluated yet, or could not be.
func (p *prometheus) evaluated(ctx context.Context) error {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get(ctx, "/api/v1/rules", &data); err != nil {
		return err
	}
	seen := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if seen++; r.Health != "ok" {
				return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if seen == 0 {
		return errors.New("there are no rules")
	}
	return nil
}

// questions are the expressions of a file of rules. Each alert has what a person needs who
// is woken by it.
func questions(t *testing.T, file string) (found []string) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(monitoringFile(t, file)), &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			found = append(found, r.Expr)
			page, _, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"],
				"https://github.com/a4s-io/a4s/blob/main/"), "#")
			if _, err := os.Stat(filepath.Join("../..", page)); err != nil || page == "" {
				t.Errorf("%s: no such page: %s", r.Alert, r.Annotations["runbook_url"])
			}
			severities := []string{"warning", "critical"}
			if r.Annotations["summary"] == "" || !slices.Contains(severities, r.Labels["severity"]) {
				t.Errorf("%s has no summary or no severity", r.Alert)
			}
		}
	}
	return found
}

// dashboard are the expressions of the dashboard, as Grafana would send them.
func dashboard(t *testing.T) (found []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(monitoringFile(t, "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	as := strings.NewReplacer("$__rate_interval", "1m", "$host", ".*")
	for _, p := range d.Panels {
		if (p.Type == "row") != (len(p.Targets) == 0) || p.Title == "" {
			t.Errorf("the panel %q asks nothing, or has no title", p.Title)
		}
		for _, target := range p.Targets {
			found = append(found, as.Replace(target.Expr))
		}
	}
	return found
}

var (
	groupings = regexp.MustCompile(`\b(by|on|ignoring|without) \([^)]*\)|\[[^\]]*\]`)
	selector  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_:]*)(\s*\{[^}]*\})?(\s*\()?`)
	// anyHost is a part of all questions of the dashboard.
	anyHost = regexp.MustCompile(`,?host=~"\.\*",?`)
)

// selectors are what an expression takes series by, as name or name{labels}.
func selectors(expr string) (found []string) {
	for _, m := range selector.FindAllStringSubmatch(groupings.ReplaceAllString(expr, ""), -1) {
		name, labels, call := m[1], strings.Join(strings.Fields(m[2]), ""), m[3]
		if call != "" || slices.Contains([]string{"and", "or", "unless", "bool"}, name) {
			continue
		}
		labels = anyHost.ReplaceAllString(labels, "")
		found = append(found, strings.TrimSuffix(name+labels, "{}"))
	}
	return found
}

// TestSelectorsAreFound makes sure that the test above looks at what it should.
func TestSelectorsAreFound(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		`up{job="a"} == 0`: {`up{job="a"}`},
		`topk(3, sum by (host, le) (rate(x_total{host=~".*",code=~"5.."}[5m])) / y) > 3 * 86400`: {
			`x_total{code=~"5.."}`, "y"},
		`max by (a) (b{host=~".*"}) and time() - c > 1`: {"b", "c"},
	} {
		if got := selectors(expr); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// documented checks that each metric of a4s that somebody is told to look at is in a page
// that says what it is.
func documented(t *testing.T, names map[string]bool) {
	t.Helper()
	var text strings.Builder
	for _, page := range []string{"operate/operations.md", "tenants/limits.md"} {
		data, err := os.ReadFile(filepath.Join(pagesOfMetrics, page))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	for name := range names {
		if strings.HasPrefix(name, "a4s_") && !strings.Contains(name, "{") &&
			!regexp.MustCompile("`"+name+"[`{]").MatchString(text.String()) {
			t.Errorf("no page says what %s is", name)
		}
	}
}
