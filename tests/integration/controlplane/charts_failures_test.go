package controlplane_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/charthost"
	"github.com/a4s-io/a4s/tests/planes"
)

// testFailures: what is wrong is said, and what follows is what the policy says.
func (c charts) testFailures(t *testing.T) {
	for name, f := range map[string]struct{ spec, want string }{
		"nowhere": {"{chart: web}", "want spec.repo"},
		"absent":  {`{repo: "` + c.host.URL + `", chart: none}`, "no such chart"},
		"secret": {`{repo: "` + c.host.URL + `", chart: web, valuesSecrets: [{name: none, keys: [a]}]}`,
			"Secret none"},
		"auth":     {`{repo: "` + c.host.URL + `", chart: web, authSecret: {name: none}}`, "spec.authSecret"},
		"values":   {`{repo: "` + c.host.URL + `", chart: web, valuesContent: "a: ["}`, "spec.valuesContent"},
		"homeless": {`{repo: "` + c.host.URL + `", chart: web, targetNamespace: none}`, "none"},
	} {
		c.chart(t, name, f.spec)
		c.condition(t, name, "Ready", "False", f.want)
		c.event(t, name, "ChartFailed")
		c.deleted(t, name, "kube-system")
	}
	c.chart(t, "old", `{repo: "`+c.host.URL+`", chart: web, helmVersion: v2}`)
	c.condition(t, "old", "Failed", "True", "want v3")
	c.chart(t, "path", `{repo: "`+c.host.URL+`", chart: web, targetNamespace: a/secrets}`)
	c.condition(t, "path", "Failed", "True", "not the name of a namespace")
	long := strings.Repeat("a", 64)
	c.chart(t, long, `{repo: "`+c.host.URL+`", chart: web}`)
	c.condition(t, long, "Failed", "True", "cannot be the name of a release")
	for _, name := range []string{"old", "path", long} {
		c.deleted(t, name, "kube-system")
	}
	c.chart(t, "once", `{repo: "`+c.host.URL+`", chart: none, backOffLimit: 0}`)
	c.condition(t, "once", "Failed", "True", "no such chart")
	c.chart(t, "once", `{repo: "`+c.host.URL+`", chart: web, backOffLimit: 0}`)
	c.condition(t, "once", "Ready", "True", "")
	c.condition(t, "once", "Failed", "False", "")

	// A Service that the API refuses, after a ConfigMap that it takes.
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}}\n" +
		"spec: {ports: [{port: {{ .Values.port | default 99999999 }} }]}\n"
	broken := base64.StdEncoding.EncodeToString(webChart(t, "1.0.0", map[string]string{"templates/z.yaml": service}))
	c.chart(t, "aborted", "{chartContent: "+broken+", failurePolicy: abort}")
	c.condition(t, "aborted", "Failed", "True", "Service")
	c.expectRelease(t, "kube-system", "aborted", "1 failed")
	c.chart(t, "aborted", "{chartContent: "+broken+", failurePolicy: abort, set: {port: 80}}")
	c.condition(t, "aborted", "Failed", "True", "helm")
	c.expectRelease(t, "kube-system", "aborted", "1 failed")
	c.chart(t, "aborted", "{chartContent: "+broken+", failurePolicy: retry, set: {port: 80}}")
	c.condition(t, "aborted", "Ready", "True", "")
	c.expectRelease(t, "kube-system", "aborted", "2 deployed")
	c.chart(t, "again", "{chartContent: "+broken+"}")
	c.condition(t, "again", "Ready", "False", "Service")
	c.chart(t, "again", "{chartContent: "+broken+", set: {port: 80}}")
	c.condition(t, "again", "Ready", "True", "")
	c.event(t, "again", "UninstallChart")
	c.expectRelease(t, "kube-system", "again", "1 deployed")
	c.deleted(t, "again", "kube-system")
}

// testTenantsAreLeftAlone: a HelmChart of a tenant is an object like any other, and a chart of the system reaches
// nothing of a tenant.
func (c charts) testTenantsAreLeftAlone(t *testing.T) {
	ctx := t.Context()
	planes.CreateTenant(t, c.Admin, "t1")
	user, organizations := planes.AdminOf("t1")
	access := c.User(t, user, organizations, nil)
	planes.AwaitAccount(t, access, "default")
	tenant := charts{plane: &plane{client: clientFor(t, access)}, host: c.host, objects: dynamicFor(t, access)}
	if _, err := tenant.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Data: map[string]string{"a": "of the tenant"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.objects.Resource(chartKind).Namespace("default").List(ctx,
		metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a tenant has the kind: %v", err)
	}
	crd, err := c.objects.Resource(crdKind).Get(ctx, "helmcharts.helm.cattle.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1",
		"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": crd.GetName()},
		"spec": crd.Object["spec"]}}
	if _, err := tenant.objects.Resource(crdKind).Create(ctx, own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	inline := base64.StdEncoding.EncodeToString(webChart(t, "1.0.0", nil))
	var made *unstructured.Unstructured
	eventually(t, "the tenant's HelmChart", func(ctx context.Context) (bool, error) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
			"metadata": map[string]any{"name": "mine", "namespace": "default"},
			"spec":     map[string]any{"chartContent": inline, "targetNamespace": "default"}}}
		made, err = tenant.objects.Resource(chartKind).Namespace("default").Create(ctx, o, metav1.CreateOptions{})
		return err == nil, ignoreNotFound(err)
	})
	// What comes after it is worked on, so it would have been as well.
	looks := base64.StdEncoding.EncodeToString(charthost.Archive(t, "x", "1.0.0", map[string]string{
		"templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n" +
			"data:\n  seen: |\n" +
			"{{- range (lookup \"v1\" \"ConfigMap\" \"\" \"\").items }}\n" +
			"    {{ .metadata.namespace }}/{{ .metadata.name }}{{ end }}\n"}))
	c.chart(t, "later", "{targetNamespace: default, chartContent: "+looks+"}")
	c.condition(t, "later", "Ready", "True", "")
	seen, err := c.client.CoreV1().ConfigMaps("default").Get(ctx, "later", metav1.GetOptions{})
	if err != nil || !strings.Contains(seen.Data["seen"], "kube-system/") ||
		strings.Contains(seen.Data["seen"], "t1") || strings.Contains(seen.Data["seen"], "/secret") {
		t.Errorf("a chart of the system sees %v, %v", seen.Data, err)
	}
	names := base64.StdEncoding.EncodeToString(charthost.Archive(t, "x", "1.0.0", map[string]string{
		"templates/x.yaml": `{{ lookup "v1" "ConfigMap" "default.t1" "secret" | toYaml }}`}))
	c.chart(t, "names", "{chartContent: "+names+"}")
	c.condition(t, "names", "Ready", "False", "another space")
	got, err := tenant.objects.Resource(chartKind).Namespace("default").Get(ctx, "mine", metav1.GetOptions{})
	if err != nil || got.GetResourceVersion() != made.GetResourceVersion() || got.Object["status"] != nil {
		t.Errorf("the tenant's HelmChart was worked on: %v, %v", got, err)
	}
	if _, err := tenant.client.CoreV1().ConfigMaps("default").Get(ctx, "mine",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was installed: %v", err)
	}
	if _, err := c.client.CoreV1().ConfigMaps("default").Get(ctx, "mine",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was installed in the space of the system: %v", err)
	}
	c.chart(t, "into", "{targetNamespace: default.t1, chartContent: "+inline+"}")
	c.condition(t, "into", "Failed", "True", "not a namespace of the system space")
	c.deleted(t, "into", "default")
	inside := base64.StdEncoding.EncodeToString(charthost.Archive(t, "x", "1.0.0", map[string]string{
		"templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: planted, namespace: default.t1}\n"}))
	c.chart(t, "plants", "{chartContent: "+inside+", failurePolicy: abort}")
	c.condition(t, "plants", "Ready", "False", "")
	c.event(t, "plants", "ChartFailed")
	if _, err := tenant.client.CoreV1().ConfigMaps("default").Get(ctx, "planted",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a chart of the system wrote to a tenant: %v", err)
	}
	c.deleted(t, "later", "default")
}

func dynamicFor(t *testing.T, access *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// testInterrupted: a server ends while an upgrade waits for a hook, and so does the next one while it installs. What
// they began is ended by those that start after them, with nothing uninstalled.
func (c charts) testInterrupted(t *testing.T, dir string) {
	// The controller of jobs leaves these to the test.
	hook := map[string]string{"templates/hook.yaml": `apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: {{ .Values.hook | default "test" | quote }}}
spec:
  managedBy: example.com/test
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
`}
	// With a timeout that is less than this test waits: what Helm waits for in vain is tried again then.
	spec := func(more string) string {
		return "{targetNamespace: default, timeout: 1m, chartContent: " +
			base64.StdEncoding.EncodeToString(webChart(t, "1.0.0", hook)) + more + "}"
	}
	c.chart(t, "held", spec(""))
	c.condition(t, "held", "Ready", "True", "")
	before, err := c.client.CoreV1().ConfigMaps("default").Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.chart(t, "held", spec(", set: {a: new, hook: pre-upgrade}"))
	c.chart(t, "first", spec(", set: {a: new, hook: pre-install}, failurePolicy: abort"))
	jobs := map[string]types.UID{"held-hook": c.job(t, "held-hook", ""), "first-hook": c.job(t, "first-hook", "")}
	c.expectRelease(t, "default", "held", "2 pending-upgrade")
	c.expectRelease(t, "default", "first", "1 pending-install")
	if err := c.group.Stop(); err != nil {
		t.Fatal(err)
	}

	again := startCharts(t, dir)
	for name, uid := range jobs {
		again.complete(t, name, again.job(t, name, uid))
	}
	for _, name := range []string{"held", "first"} {
		again.config(t, "default", name, map[string]string{"values": "new chart chart chart chart"})
		again.condition(t, name, "Ready", "True", "")
		again.event(t, name, "ChartInterrupted")
	}
	again.expectRelease(t, "default", "held", "3 deployed")
	again.expectRelease(t, "default", "first", "2 deployed")
	after, err := again.client.CoreV1().ConfigMaps("default").Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil || after.UID != before.UID {
		t.Errorf("what the release had was uninstalled: %v", err)
	}
	// What is as it should be stays so over a start.
	again.expectRelease(t, "of-oci", "oci", "1 deployed")
	again.deleted(t, "first", "default")
	again.deleted(t, "held", "default")
}

// job waits for a Job that is not the one with this UID.
func (c charts) job(t *testing.T, name string, not types.UID) (uid types.UID) {
	t.Helper()
	eventually(t, "job "+name, func(ctx context.Context) (bool, error) {
		job, err := c.client.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil || job.UID == not || job.DeletionTimestamp != nil {
			return false, ignoreNotFound(err)
		}
		uid = job.UID
		return true, nil
	})
	return uid
}

// complete says that a Job has done what it was to do.
func (c charts) complete(t *testing.T, name string, uid types.UID) {
	t.Helper()
	now := metav1.Now()
	condition := func(of batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: now,
			LastProbeTime: now}
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid},
		"status": batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1,
			Conditions: []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet),
				condition(batchv1.JobComplete)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.BatchV1().Jobs("default").Patch(t.Context(), name, types.MergePatchType, data,
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
