package controlplane_test

import (
	"context"
	"encoding/base64"
	"testing"

	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patched merges JSON into a HelmChart in kube-system.
func (c charts) patched(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := c.objects.Resource(chartKind).Namespace("kube-system").Patch(t.Context(), name,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func inlineChart(t *testing.T, more map[string]string) string {
	return base64.StdEncoding.EncodeToString(webChart(t, "1.0.0", more))
}

// testHooks: a hook may ask for its logs to be shown, which nobody reads here, and the server goes on. A Secret with
// values may come after the HelmChart.
func (c charts) testHooks(t *testing.T) {
	ctx := t.Context()
	c.chart(t, "hooked", "{targetNamespace: default, chartContent: "+inlineChart(t, map[string]string{
		"templates/hook.yaml": `apiVersion: v1
kind: Pod
metadata:
  name: hooked-hook
  annotations: {helm.sh/hook: post-install, helm.sh/hook-output-log-policy: hook-succeeded}
spec:
  automountServiceAccountToken: false
  containers: [{name: c, image: i}]
`})+"}")
	eventually(t, "the hook", func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().Pods("default").Patch(ctx, "hooked-hook", types.MergePatchType,
			[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		return err == nil, ignoreNotFound(err)
	})
	c.condition(t, "hooked", "Ready", "True", "")
	c.deleted(t, "hooked", "default")

	c.chart(t, "early", `{targetNamespace: default, backOffLimit: 0, chartContent: `+inlineChart(t, nil)+
		`, valuesSecrets: [{name: comes-later, keys: [a]}]}`)
	c.condition(t, "early", "Failed", "True", "comes-later")
	if _, err := c.client.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "comes-later"}, StringData: map[string]string{"a": "a: late\n"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.config(t, "default", "early", map[string]string{"values": "late chart chart chart chart"})
	c.condition(t, "early", "Ready", "True", "")
	c.deleted(t, "early", "default")
}

// testEnds: a release is forgotten when what it brought is gone, and not before.
func (c charts) testEnds(t *testing.T) {
	ctx := t.Context()
	kept := "apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n"
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slow, finalizers: [example.com/held]}\n"
	c.chart(t, "slow-end", "{targetNamespace: default, timeout: 1s, chartContent: "+
		inlineChart(t, map[string]string{"templates/held.yaml": held, "templates/kept.yaml": kept})+"}")
	c.condition(t, "slow-end", "Ready", "True", "")
	if err := c.objects.Resource(chartKind).Namespace("kube-system").Delete(ctx, "slow-end",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.condition(t, "slow-end", "Ready", "False", "uninstalling the release")
	c.condition(t, "slow-end", "Ready", "False", "what is left")
	c.expectRelease(t, "default", "slow-end", "1 uninstalled")
	if _, err := c.client.CoreV1().ConfigMaps("default").Patch(ctx, "slow", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.gone(t, "slow-end")
	c.expectRelease(t, "default", "slow-end", "")
	if _, err := c.client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("what was to be kept: %v", err)
	}

	// Between the last two writes of an upgrade none is deployed.
	c.chart(t, "between", "{targetNamespace: default, chartContent: "+inlineChart(t, nil)+"}")
	c.condition(t, "between", "Ready", "True", "")
	helm := c.helm(t, "default")
	last, err := helm.Releases.Last("between")
	if err != nil {
		t.Fatal(err)
	}
	last.(*helmrelease.Release).SetStatus(common.StatusSuperseded, "superseded by new release")
	if err := helm.Releases.Update(last); err != nil {
		t.Fatal(err)
	}
	c.chart(t, "between", "{targetNamespace: default, set: {a: x}, chartContent: "+inlineChart(t, nil)+"}")
	c.config(t, "default", "between", map[string]string{"values": "x chart chart chart chart"})
	c.condition(t, "between", "Ready", "True", "")
	c.expectRelease(t, "default", "between", "2 deployed")
	// Without a chart it is still the one that the release is from.
	c.patched(t, "between", `{"spec":{"chartContent":null}}`)
	c.deleted(t, "between", "default")

	c.chart(t, "given", "{targetNamespace: default, chartContent: "+inlineChart(t, nil)+"}")
	c.condition(t, "given", "Ready", "True", "")
	c.patched(t, "given", `{"metadata":{"annotations":{"helmcharts.helm.cattle.io/unmanaged":"true"}}}`)
	eventually(t, "the finalizer to be taken", func(ctx context.Context) (bool, error) {
		got, err := c.objects.Resource(chartKind).Namespace("kube-system").Get(ctx, "given", metav1.GetOptions{})
		return err == nil && len(got.GetFinalizers()) == 0, err
	})
	c.expectRelease(t, "default", "given", "1 deployed")
	c.closing(t)
}

// gone waits until a HelmChart is.
func (c charts) gone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "HelmChart "+name+" to be gone", func(ctx context.Context) (bool, error) {
		_, err := c.objects.Resource(chartKind).Namespace("kube-system").Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

// closing: a hook is for a namespace that is being deleted, where it cannot be made.
func (c charts) closing(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "closing"}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// It holds the namespace for as long as the test takes.
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/held"}}}
	if _, err := c.client.CoreV1().ConfigMaps("closing").Create(ctx, held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hook := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  namespace: closing\n" +
		"  annotations: {helm.sh/hook: pre-delete}\n"
	c.chart(t, "closing", "{targetNamespace: default, chartContent: "+
		inlineChart(t, map[string]string{"templates/hook.yaml": hook})+"}")
	c.condition(t, "closing", "Ready", "True", "")
	if err := c.client.CoreV1().Namespaces().Delete(ctx, "closing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.deleted(t, "closing", "default")
	if _, err := c.client.CoreV1().ConfigMaps("closing").Patch(ctx, "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
