package spaces_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/charthost"
	"github.com/a4s-io/a4s/tests/nstest"
)

var (
	helmCharts  = schema.GroupVersionResource{Group: "helm.cattle.io", Version: "v1", Resource: "helmcharts"}
	helmConfigs = schema.GroupVersionResource{Group: "helm.cattle.io", Version: "v1", Resource: "helmchartconfigs"}
)

// chartsOf are the HelmCharts of a tenant.
type chartsOf struct {
	*plane
	s *space
}

// chart is an archive in base64 with one template.
func chart(t *testing.T, template string, more ...string) string {
	t.Helper()
	files := map[string]string{"templates/x.yaml": template}
	for i := 0; i+1 < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	return base64.StdEncoding.EncodeToString(charthost.Archive(t, "x", "1.0.0", files))
}

// settings is a template of a ConfigMap with the value of each key.
func settings(values map[string]string) string {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n"
	for key, value := range values {
		text += fmt.Sprintf("  %s: %s\n", key, value)
	}
	return text
}

// apply makes an object of a kind, or changes it.
func (c chartsOf) apply(t *testing.T, of schema.GroupVersionResource, kind, name, spec string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("apiVersion: helm.cattle.io/v1\nkind: "+kind+"\nmetadata: {name: "+name+
		"}\nspec: "+spec+"\n"), &o.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := c.s.in(of, "default").Apply(t.Context(), name, o,
		metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
}

func (c chartsOf) chart(t *testing.T, name, spec string) {
	t.Helper()
	c.apply(t, helmCharts, "HelmChart", name, spec)
}

// ready waits until the condition has the status, and a message with the text.
func (c chartsOf) ready(t *testing.T, name, status, text string) {
	t.Helper()
	var last any
	defer func() {
		if t.Failed() {
			t.Logf("HelmChart %s was last %v", name, last)
		}
	}()
	eventually(t, "Ready="+status+" of "+name+": "+text, func(ctx context.Context) (bool, error) {
		got, err := c.s.in(helmCharts, "default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = got.Object["status"]
		return charthost.Says(got, "Ready", status, text), nil
	})
}

// brings waits for what a chart has brought.
func (c chartsOf) brings(t *testing.T, namespace, name string, want map[string]string) {
	t.Helper()
	var last any
	defer func() {
		if t.Failed() {
			t.Logf("ConfigMap %s was last %v", name, last)
		}
	}()
	eventually(t, fmt.Sprintf("ConfigMap %s: %v", name, want), func(ctx context.Context) (bool, error) {
		got, err := c.s.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		last = got.Data
		for key, value := range want {
			if got.Data[key] != value {
				return false, nil
			}
		}
		return true, nil
	})
}

func (c chartsOf) gone(t *testing.T, name string) {
	t.Helper()
	if err := c.s.in(helmCharts, "default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "HelmChart "+name+" to be gone", func(ctx context.Context) (bool, error) {
		_, err := c.s.in(helmCharts, "default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// TestChartsOfTenants: a tenant that has the system's CRD has HelmCharts, with the rights of its administrator.
func TestChartsOfTenants(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := chartsOf{p, p.bareTenant(t, "a")}, chartsOf{p, p.bareTenant(t, "b")}
	if _, err := a.s.in(helmCharts, "default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("HelmCharts that nobody shares: %v", err)
	}
	for _, of := range []schema.GroupVersionResource{helmCharts, helmConfigs} {
		path := conversions + "/" + of.GroupResource().String()
		eventually(t, "the CRD "+path, func(context.Context) (bool, error) {
			code, answer := do(t, p.Admin, http.MethodPatch, path,
				`{"metadata":{"annotations":{"`+sharingPolicy+`":"optional"}}}`,
				[]string{"Content-Type: " + mergePatch})
			if code != http.StatusOK && code != http.StatusNotFound {
				return false, fmt.Errorf("%d %s", code, answer)
			}
			return code == http.StatusOK, nil
		})
		for _, c := range []chartsOf{a, b} {
			eventually(t, of.Resource+" in "+c.s.name, func(ctx context.Context) (bool, error) {
				_, err := c.s.in(of, "default").List(ctx, metav1.ListOptions{})
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return err == nil, err
			})
		}
	}
	t.Run("releases", a.testReleases)
	t.Run("places", a.testPlaces)
	t.Run("walls", func(t *testing.T) { a.testWalls(t, b) })
	t.Run("hostile charts", a.testHostileCharts)
	t.Run("the end of a tenant", b.testEndOfTenant)
}

// testReleases: values from everywhere, what changes them makes another revision, and an end uninstalls.
func (c chartsOf) testReleases(t *testing.T) {
	ctx := t.Context()
	content := chart(t, settings(map[string]string{"a": "{{ .Values.a | quote }}", "b": "{{ .Values.b | quote }}",
		"c": "{{ .Values.c | quote }}", "namespace": "{{ .Release.Namespace }}"}), "values.yaml",
		"a: chart\nb: chart\nc: chart\n")
	c.chart(t, "web", `{chartContent: `+content+`, targetNamespace: apps, createNamespace: true,
valuesContent: "a: content", valuesSecrets: [{name: values, keys: [one]}]}`)
	c.ready(t, "web", "False", "values")
	secrets := c.s.client.CoreV1().Secrets("default")
	if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "values"},
		StringData: map[string]string{"one": "b: secret\n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.brings(t, "apps", "web", map[string]string{"a": "content", "b": "secret", "c": "chart", "namespace": "apps"})
	c.ready(t, "web", "True", "")
	if _, err := secrets.Patch(ctx, "values", types.MergePatchType,
		[]byte(`{"stringData":{"one":"b: other\n"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.brings(t, "apps", "web", map[string]string{"b": "other"})
	c.apply(t, helmConfigs, "HelmChartConfig", "web", `{valuesContent: "c: config"}`)
	c.brings(t, "apps", "web", map[string]string{"a": "content", "b": "other", "c": "config"})
	c.ready(t, "web", "True", "")
	releases, err := c.s.client.CoreV1().Secrets("apps").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil || len(releases.Items) != 3 {
		t.Errorf("%d revisions, %v", len(releases.Items), err)
	}
	events, err := c.s.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=HelmChart,reason=ApplyChart"})
	if err != nil || len(events.Items) == 0 {
		t.Errorf("%d events, %v", len(events.Items), err)
	}
	// More objects than a look may have connections.
	c.chart(t, "many", "{chartContent: "+chart(t, "{{ range until 600 }}\n---\napiVersion: v1\nkind: ConfigMap\n"+
		"metadata: {name: many-{{ . }}}\n{{ end }}")+"}")
	c.ready(t, "many", "True", "")
	c.gone(t, "many")
	c.gone(t, "web")
	if _, err := c.s.client.CoreV1().ConfigMaps("apps").Get(ctx, "web",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the release brought: %v", err)
	}
}

// testPlaces: charts come from where the tenant may have the server connect to, and no file of the server is one.
func (c chartsOf) testPlaces(t *testing.T) {
	outside, inside := charthost.On(t, listenOutside(t, "", 0)), charthost.New(t)
	data := charthost.Archive(t, "x", "1.0.0", map[string]string{
		"templates/x.yaml": settings(map[string]string{"version": "{{ .Chart.Version | quote }}"})})
	for _, host := range []*charthost.Host{outside, inside} {
		host.Add("x", "1.0.0", data)
	}
	static := filepath.Join(c.Config.Agent.DataDir, "server", "static")
	if err := os.MkdirAll(static, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(static, "x.tgz"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]string{
		"repo": `{repo: "` + outside.URL + `", chart: x, version: 1.x}`,
		"oci":  `{chart: "` + outside.Registry + `/charts/x", version: 1.0.0, plainHTTP: true}`,
		"url":  `{chart: "` + outside.URL + `/archives/x/1.0.0.tgz"}`,
	} {
		c.chart(t, name, spec)
		c.brings(t, "default", name, map[string]string{"version": "1.0.0"})
		c.ready(t, name, "True", "")
	}
	const refused = "outside of the cluster only"
	outside.Add("further", "1.0.0", data)
	outside.RefersTo(inside.URL)
	for name, refusal := range map[string]struct{ spec, text string }{
		"loopback": {`{repo: "` + inside.URL + `", chart: x}`, refused},
		"api":      {`{chart: "https://` + address + `:6443/x.tgz", insecureSkipTLSVerify: true}`, refused},
		"gate":     {`{chart: "http://a/api/v1/secrets"}`, "a/api/v1/secrets"},
		"referred": {`{repo: "` + outside.URL + `", chart: further}`, refused},
		"static":   {`{chart: "https://%{KUBERNETES_API}%/static/x.tgz"}`, "files of the server"},
		"file":     {`{chart: "file:///etc/passwd"}`, "spec.chart"},
	} {
		c.chart(t, name, refusal.spec)
		c.ready(t, name, "False", refusal.text)
	}
	if asked := inside.Asked(); len(asked) > 0 {
		t.Errorf("asked of a service of the machine: %q", asked)
	}
}

// testWalls: a chart has the rights of the tenant's administrator in the tenant's space, and no others.
func (c chartsOf) testWalls(t *testing.T, other chartsOf) {
	ctx := t.Context()
	if _, err := other.s.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Data: map[string]string{"a": "of another"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.chart(t, "looks", `{chartContent: `+chart(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: looks}\n"+
		"data:\n  seen: |\n{{- range (lookup \"v1\" \"ConfigMap\" \"\" \"\").items }}\n"+
		"    {{ .metadata.namespace }}/{{ .metadata.name }}{{ end }}\n")+"}")
	c.ready(t, "looks", "True", "")
	list, err := c.s.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, one := range list.Items {
		want[one.Namespace+"/"+one.Name] = true
	}
	delete(want, "default/looks")
	seen, err := c.s.client.CoreV1().ConfigMaps("default").Get(ctx, "looks", metav1.GetOptions{})
	if err != nil || len(want) == 0 {
		t.Fatalf("%v, %v", want, err)
	}
	for _, one := range strings.Fields(seen.Data["seen"]) {
		if !want[one] {
			t.Errorf("a chart sees %s, which the tenant does not have", one)
		}
		delete(want, one)
	}
	if len(want) > 0 {
		t.Errorf("a chart does not see %v", want)
	}
	for name, refusal := range map[string]struct{ spec, text string }{
		"into": {"{targetNamespace: default.b, chartContent: " + chart(t, settings(nil)) + "}", "default.b"},
		"name": {"{chartContent: " + chart(t, `{{ lookup "v1" "ConfigMap" "default.b" "secret" | toYaml }}`) + "}",
			"apiVersion not set"},
		"planted": {"{chartContent: " + chart(t, settings(nil)+"---\napiVersion: v1\nkind: ConfigMap\n"+
			"metadata: {name: intruder, namespace: default.b}\n") + "}", "default.b"},
		"daemon": {"{chartContent: " + chart(t, "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n"+
			"spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "+
			"spec: {containers: [{name: c, image: i}]}}}\n") + "}", "daemonsets"},
		"privileged": {"{chartContent: " + chart(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"+
			"spec: {containers: [{name: c, image: i, securityContext: {privileged: true}}]}\n") + "}", "privileged"},
		"tenant": {"{chartContent: " + chart(t, "apiVersion: arktos.futurewei.com/v1\nkind: Tenant\n"+
			"metadata: {name: mine}\n") + "}", "Tenant"},
	} {
		c.chart(t, name, refusal.spec)
		c.ready(t, name, "False", refusal.text)
	}
	for _, s := range []*space{other.s, c.s} {
		if _, err := s.client.CoreV1().ConfigMaps("default").Get(ctx, "intruder",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("planted in %s: %v", s.name, err)
		}
	}
}

// testHostileCharts: what a chart takes is bounded, and it reads nothing of the machine.
func (c chartsOf) testHostileCharts(t *testing.T) {
	for name, hostile := range map[string]struct{ spec, text string }{
		"memory": {"{chartContent: " + chart(t, "{{ range until 2000000000 }}{{ . }}{{ end }}") + "}", "memory"},
		"file": {"{chartContent: " + chart(t, settings(nil), "values.schema.json",
			`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"file:///etc/passwd"}`) + "}", "passwd"},
		"archive": {"{chartContent: " + base64.StdEncoding.EncodeToString([]byte("x")) + "}", "reading the chart"},
	} {
		c.chart(t, name, hostile.spec)
		c.ready(t, name, "False", hostile.text)
	}
	// And others go on.
	c.chart(t, "good", "{chartContent: "+chart(t, settings(map[string]string{
		"environment": `{{ env "HOME" | quote }}`, "host": `{{ getHostByName "localhost" | quote }}`}))+"}")
	c.ready(t, "good", "False", "env") // Helm has no such function
	c.chart(t, "good", "{chartContent: "+chart(t, settings(map[string]string{"a": "b"}))+"}")
	c.brings(t, "default", "good", map[string]string{"a": "b"})
	c.ready(t, "good", "True", "")
}

// testEndOfTenant: HelmCharts do not keep a tenant, and their releases go with its space.
func (c chartsOf) testEndOfTenant(t *testing.T) {
	c.chart(t, "last", "{chartContent: "+chart(t, settings(map[string]string{"a": "b"}))+"}")
	c.ready(t, "last", "True", "")
	tenants, err := tenantapi.NewClient(c.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tenants.Delete(t.Context(), c.s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.leaves(t, tenants, c.s.name)
}
