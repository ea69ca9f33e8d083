package controlplane_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/tests/charthost"
	"github.com/a4s-io/a4s/tests/nstest"
)

var (
	chartKind  = schema.GroupVersionResource{Group: "helm.cattle.io", Version: "v1", Resource: "helmcharts"}
	configKind = schema.GroupVersionResource{Group: "helm.cattle.io", Version: "v1", Resource: "helmchartconfigs"}
	crdKind    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
)

// charts is a control plane, and a host of charts that it reaches.
type charts struct {
	*plane
	objects dynamic.Interface
	host    *charthost.Host
}

// webChart is a chart with a ConfigMap that has its values.
func webChart(t *testing.T, version string, more map[string]string) []byte {
	files := map[string]string{
		"values.yaml": "a: chart\nb: chart\nc: chart\nd: chart\ne: chart\n",
		"templates/web.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  values: "{{ .Values.a }} {{ .Values.b }} {{ .Values.c }} {{ .Values.d }} {{ .Values.e }}"
  chart: {{ .Chart.Version | quote }}
  namespace: {{ .Release.Namespace }}
  dns: {{ getHostByName "localhost" | quote }}
`,
	}
	for name, text := range more {
		files[name] = text
	}
	return charthost.Archive(t, "web", version, files)
}

// apply makes an object, or changes it, to what the text says.
func (c charts) apply(t *testing.T, kind schema.GroupVersionResource, text string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := c.objects.Resource(kind).Namespace(o.GetNamespace()).Apply(t.Context(), o.GetName(), o,
		metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
}

// chart makes a HelmChart in kube-system, or changes it.
func (c charts) chart(t *testing.T, name, spec string) {
	t.Helper()
	c.apply(t, chartKind, "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: "+name+
		", namespace: kube-system}\nspec: "+spec+"\n")
}

// condition waits for one of a HelmChart whose message has the text.
func (c charts) condition(t *testing.T, name, of, status, text string) {
	t.Helper()
	var last any
	defer func() {
		if t.Failed() {
			t.Logf("HelmChart %s was last %+v", name, last)
		}
	}()
	eventually(t, "condition "+of+"="+status+" of "+name+": "+text, func(ctx context.Context) (bool, error) {
		got, err := c.objects.Resource(chartKind).Namespace("kube-system").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = got.Object
		return charthost.Says(got, of, status, text), nil
	})
}

// config waits for a ConfigMap with this in it.
func (c charts) config(t *testing.T, namespace, name string, want map[string]string) {
	t.Helper()
	var last any
	defer func() {
		if t.Failed() {
			t.Logf("ConfigMap %s/%s was last %v", namespace, name, last)
		}
	}()
	eventually(t, fmt.Sprintf("ConfigMap %s/%s: %v", namespace, name, want), func(ctx context.Context) (bool, error) {
		got, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			last = err
			return false, ignoreNotFound(err)
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

// deleted deletes a HelmChart, and waits until it and its release are gone.
func (c charts) deleted(t *testing.T, name, namespace string) {
	t.Helper()
	list := c.objects.Resource(chartKind).Namespace("kube-system")
	if err := list.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	failed := t.Failed()
	defer func() {
		if !failed && t.Failed() {
			t.Logf("what Helm does:\n%s", helmStacks(t))
		}
	}()
	eventually(t, "HelmChart "+name+" to be gone", func(ctx context.Context) (bool, error) {
		_, err := list.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if _, err := c.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the release brought is there: %v", err)
	}
	if got := c.releases(t, namespace)[name]; got != "" {
		t.Errorf("the release is there: %s", got)
	}
}

// helmStacks are those of the goroutines that Helm, or the controller that calls it, is in.
func helmStacks(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
		t.Fatal(err)
	}
	return strings.Join(slices.DeleteFunc(strings.Split(all.String(), "\n\n"), func(stack string) bool {
		return !strings.Contains(stack, "helm") && !strings.Contains(stack, "addons/charts")
	}), "\n\n")
}

// helm is what the program helm would use in a namespace.
func (c charts) helm(t *testing.T, namespace string) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &c.Kubeconfig, &namespace
	helm := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := helm.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return helm
}

// releases are what helm ls shows: revision and status by name.
func (c charts) releases(t *testing.T, namespace string) map[string]string {
	t.Helper()
	list := action.NewList(c.helm(t, namespace))
	list.StateMask = action.ListAll
	found, err := list.Run()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range found {
		release := r.(*helmrelease.Release)
		out[release.Name] = fmt.Sprintf("%d %s", release.Version, release.Info.Status)
	}
	return out
}

func (c charts) expectRelease(t *testing.T, namespace, name, want string) {
	t.Helper()
	if got := c.releases(t, namespace)[name]; got != want {
		t.Errorf("helm ls shows %s as %q, want %q", name, got, want)
	}
}

// event waits for one about a HelmChart.
func (c charts) event(t *testing.T, name, reason string) {
	t.Helper()
	eventually(t, "event "+reason+" of "+name, func(ctx context.Context) (bool, error) {
		list, err := c.client.CoreV1().Events("kube-system").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == "HelmChart" && e.InvolvedObject.Name == name && e.Reason == reason
		}), nil
	})
}

func startCharts(t *testing.T, dir string) charts {
	cfg := settings(dir)
	c := charts{plane: start(t, cfg), host: charthost.New(t)}
	var err error
	if c.objects, err = dynamic.NewForConfig(c.Admin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kinds to be served", func(ctx context.Context) (bool, error) {
		for _, kind := range []schema.GroupVersionResource{chartKind, configKind} {
			if _, err := c.objects.Resource(kind).List(ctx, metav1.ListOptions{}); err != nil {
				return false, ignoreNotFound(err)
			}
		}
		return true, nil
	})
	return c
}

// TestCharts: releases are as HelmCharts of the system space say.
func TestCharts(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	c := startCharts(t, dir)
	c.host.Add("web", "1.0.0", webChart(t, "1.0.0", nil))
	c.host.Add("web", "2.0.0", webChart(t, "2.0.0", nil))
	t.Run("values", c.testValues)
	t.Run("places", c.testPlaces)
	t.Run("a file in the directory of manifests", c.testManifest)
	t.Run("failures", c.testFailures)
	t.Run("tenants", c.testTenantsAreLeftAlone)
	t.Run("hooks", c.testHooks)
	t.Run("ends", c.testEnds)
	t.Run("a server that ends meanwhile", func(t *testing.T) { c.testInterrupted(t, dir) })
}

// testValues: what changes the values makes another revision, in the order that k3s has, and nothing else does.
func (c charts) testValues(t *testing.T) {
	ctx := t.Context()
	secrets := c.client.CoreV1().Secrets("kube-system")
	if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "values"},
		StringData: map[string]string{"one": "c: secret\nd: secret\n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := func(set string) string {
		return `{repo: "` + c.host.URL + `", chart: web, version: 1.0.0, targetNamespace: default,
valuesContent: "a: content\nb: content\n", values: {b: values, c: values}, set: {d: ` + set + `},
valuesSecrets: [{name: values, keys: [one]}]}`
	}
	c.chart(t, "web", spec("set"))
	c.config(t, "default", "web", map[string]string{"values": "content values secret set chart", "chart": "1.0.0",
		"namespace": "default", "dns": ""})
	c.condition(t, "web", "Ready", "True", "")
	c.condition(t, "web", "Failed", "False", "")
	c.condition(t, "web", "JobCreated", "True", "no job")
	c.event(t, "web", "ApplyChart")
	c.expectRelease(t, "default", "web", "1 deployed")
	// Each of these is one more revision.
	c.chart(t, "web", spec("2"))
	c.config(t, "default", "web", map[string]string{"values": "content values secret 2 chart"})
	if _, err := secrets.Patch(ctx, "values", types.MergePatchType,
		[]byte(`{"stringData":{"one":"c: other\n"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.config(t, "default", "web", map[string]string{"values": "content values other 2 chart"})
	c.apply(t, configKind, "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\n"+
		"metadata: {name: web, namespace: kube-system}\nspec: {valuesContent: 'e: config'}\n")
	c.config(t, "default", "web", map[string]string{"values": "content values other 2 config"})
	c.condition(t, "web", "Ready", "True", "")
	c.expectRelease(t, "default", "web", "4 deployed")
	// And this is none.
	c.chart(t, "web", strings.Replace(spec("2"), "version:", "timeout: 7m, version:", 1))
	c.chart(t, "after", `{chart: "`+c.host.URL+`/archives/web/2.0.0.tgz"}`)
	c.condition(t, "after", "Ready", "True", "")
	c.expectRelease(t, "default", "web", "4 deployed")
	c.deleted(t, "after", "kube-system")
	c.deleted(t, "web", "default")
	c.event(t, "web", "RemoveChart")
}

// testPlaces: charts from everywhere, and releases elsewhere.
func (c charts) testPlaces(t *testing.T) {
	static := filepath.Join(c.cfg.Agent.DataDir, "server", "static", "charts")
	if err := os.MkdirAll(static, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(static, "web.tgz"), webChart(t, "5.0.0", nil), 0o600); err != nil {
		t.Fatal(err)
	}
	inline := base64.StdEncoding.EncodeToString(webChart(t, "3.0.0", nil))
	for name, p := range map[string]struct{ spec, version string }{
		"oci":    {`chart: "` + c.host.Registry + `/charts/web", plainHTTP: true`, "2.0.0"},
		"inline": {`chartContent: ` + inline, "3.0.0"},
		"url":    {`chart: "` + c.host.URL + `/archives/web/1.0.0.tgz", bootstrap: true`, "1.0.0"},
		"repo":   {`repo: "` + c.host.URL + `", chart: web, version: "1.x"`, "1.0.0"},
		"static": {`chart: "https://%{KUBERNETES_API}%/static/charts/web.tgz"`, "5.0.0"},
		"maps":   {`chartContent: ` + inline + `, driver: configmap`, "3.0.0"},
	} {
		c.chart(t, name, "{targetNamespace: of-"+name+", createNamespace: true, "+p.spec+"}")
		c.config(t, "of-"+name, name, map[string]string{"chart": p.version, "namespace": "of-" + name})
		c.condition(t, name, "Ready", "True", "")
	}
	c.expectRelease(t, "of-oci", "oci", "1 deployed")
	c.expectRelease(t, "of-maps", "maps", "")
	for _, name := range []string{"inline", "maps"} {
		c.deleted(t, name, "of-"+name)
	}
}

// testManifest: the file that k3s' documentation has works as it is, and what leaves it is uninstalled.
func (c charts) testManifest(t *testing.T) {
	path := filepath.Join(c.cfg.Agent.DataDir, "server", "manifests", "web.yaml")
	text := "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata:\n  name: filed\n  namespace: kube-system\n" +
		"spec:\n  repo: " + c.host.URL + "\n  chart: web\n  targetNamespace: filed\n  createNamespace: true\n" +
		"  valuesContent: |-\n    a: file\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.config(t, "filed", "filed", map[string]string{"values": "file chart chart chart chart"})
	if err := os.WriteFile(path, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the release to be gone", func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().ConfigMaps("filed").Get(ctx, "filed", metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}
