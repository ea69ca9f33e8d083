package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	operatorImage  = "docker.io/a4s/operator:1"
	operatorModule = "../clients"
	widgetGroup    = "example.com"
)

// TestOperators runs two releases of one operator in two tenants at the same
// time. They bring the same group and kind with different versions, schemas
// and webhooks, and nothing about them is made for a4s.
func TestOperators(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	c.importOperator(t)
	testOperators(t, c.makeTenant(t, "widgets-a"), c.makeTenant(t, "widgets-b"))
}

func testOperators(t *testing.T, a, b *cluster) {
	for _, operator := range []struct {
		in      *cluster
		release string
	}{{a, "first"}, {b, "second"}} {
		manifest, err := os.ReadFile(filepath.Join(operatorModule, "operator", "deploy", operator.release+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		file := dataDir + "/operator-" + operator.release + ".yaml"
		if err := operator.in.host.WriteFile(file, string(manifest)); err != nil {
			t.Fatal(err)
		}
		operator.in.mustKubectl(t, "apply -f "+file)
	}
	first, second, old := a.widgets(t, "v1alpha1"), b.widgets(t, "v1"), b.widgets(t, "v1alpha1")
	for _, s := range []*cluster{a, b} {
		s.showOperatorOnFailure(t)
		s.waitDeployment(t, "widget-system", "widgets", 1)
	}
	t.Run("schema, defaults and mutation", func(t *testing.T) { testWidgetDefaults(t, first, second, old) })
	t.Run("validation", func(t *testing.T) { testWidgetValidation(t, first, second, old) })
	t.Run("conversion", func(t *testing.T) { testWidgetConversion(t, a, second, old) })
	t.Run("reconciliation", func(t *testing.T) {
		a.waitWidget(t, first, "anvil", "first", "red", 1)
		b.waitWidget(t, second, "gizmo", "second", "blue", 1)
		b.waitWidget(t, second, "gadget", "second", "green", 2)
		a.mustKubectl(t, "scale widget anvil --replicas=2")
		a.waitWidget(t, first, "anvil", "first", "red", 2)
	})
	t.Run("what each of them sees", func(t *testing.T) { testWidgetViews(t, a, b) })
	t.Run("deletion", func(t *testing.T) { testWidgetDeletion(t, a, b, first, second) })
}

// showOperatorOnFailure prints what an operator has said.
func (c *cluster) showOperatorOnFailure(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		pods := c.client.CoreV1().Pods("widget-system")
		list, err := pods.List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Log(err)
			return
		}
		for i := range list.Items {
			said, err := pods.GetLogs(list.Items[i].Name, &corev1.PodLogOptions{TailLines: new(int64(20))}).
				DoRaw(context.Background())
			t.Logf("the operator of %s: %s (%v)", c.tenant, said, err)
		}
	})
}

// importOperator builds the image of the operator and imports it while the
// node runs: no other test needs it.
func (c *cluster) importOperator(t *testing.T) {
	t.Helper()
	c.importImage(t, buildImage(t, operatorModule, operatorImage, "--go", "./operator=/operator",
		"--entrypoint", "/operator"))
}

// buildImage builds an image, whose packages are of the module in a directory, and returns the archive.
func buildImage(t *testing.T, dir, image string, args ...string) (archive string) {
	t.Helper()
	archive = filepath.Join(t.TempDir(), "image.tar")
	build := exec.CommandContext(t.Context(), filepath.Join(env.lab.Dir, "mkimage"),
		append(args, "--name", image, "--plain", "--out", archive)...)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return archive
}

// importImage imports an archive while the node runs.
func (n *node) importImage(t *testing.T, archive string) {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	const inside = dataDir + "/image.tar"
	if err := n.host.WriteFile(inside, string(content)); err != nil {
		t.Fatal(err)
	}
	n.must(t, "ctr", "--namespace", "k8s.io", "images", "import", inside)
}

// kubectl runs a command whose arguments have no spaces. What it has learned
// of definitions is kept apart: elsewhere it is kept by address, which other
// clusters have as well.
func (c *cluster) kubectl(t *testing.T, args string) hosts.Result {
	t.Helper()
	return c.a4s(t,
		append([]string{"kubectl", "--cache-dir=" + dataDir + "/kubectl-cache"}, strings.Fields(args)...)...)
}

func (c *cluster) mustKubectl(t *testing.T, args string) string {
	t.Helper()
	r := c.kubectl(t, args)
	if r.ExitCode != 0 {
		t.Fatalf("%s: kubectl %s: exit code %d\n%s%s", c.tenant, args, r.ExitCode, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// widgets is the resource in a version, in namespace default.
func (c *cluster) widgets(t *testing.T, version string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: widgetGroup, Version: version, Resource: "widgets"}).
		Namespace("default")
}

func newWidget(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgetGroup + "/" + version, "kind": "Widget",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// checkFields compares fields, whose paths have dots, with their text.
func checkFields(t *testing.T, w *unstructured.Unstructured, want map[string]string) {
	t.Helper()
	for path, value := range want {
		got, found, err := unstructured.NestedFieldNoCopy(w.Object, strings.Split(path, ".")...)
		if text := fmt.Sprint(got); err != nil || found != (value != "") || found && text != value {
			t.Errorf("%s of %s %s is %q (%v), want %q", path, w.GetAPIVersion(), w.GetName(), text, err, value)
		}
	}
}

func testWidgetDefaults(t *testing.T, first, second, old dynamic.ResourceInterface) {
	for _, c := range []struct {
		in            dynamic.ResourceInterface
		version, name string
		release       string
		fields        map[string]string
		coats         string
	}{
		{first, "v1alpha1", "anvil", "first",
			map[string]string{"spec.size": "1", "spec.colour": "red", "spec.paint": "", "spec.replicas": ""}, ""},
		{second, "v1", "gizmo", "second", map[string]string{"spec.replicas": "1", "spec.paint.colour": "blue",
			"spec.paint.coats": "2", "spec.size": ""}, ""},
		{old, "v1alpha1", "gadget", "second",
			map[string]string{"spec.size": "2", "spec.colour": "green", "spec.paint": ""}, "2"},
	} {
		// What the schema does not have is dropped.
		// That the operator is ready is known to its Deployment before the Service has it.
		var made *unstructured.Unstructured
		hosts.Until(t, podTimeout, "widget "+c.name+" is made", func(ctx context.Context) (err error) {
			made, err = c.in.Create(ctx, newWidget(c.version, c.name, map[string]any{"nonsense": "x"}),
				metav1.CreateOptions{})
			return err
		})
		checkFields(t, made, c.fields)
		checkFields(t, made, map[string]string{"spec.nonsense": ""})
		if release := made.GetLabels()["example.com/release"]; release != c.release {
			t.Errorf("%s was seen by release %q", c.name, release)
		}
		if coats := made.GetAnnotations()["example.com/coats"]; coats != c.coats {
			t.Errorf("%s in version %s has %q coats by annotation", c.name, c.version, coats)
		}
	}
}

func testWidgetValidation(t *testing.T, first, second, old dynamic.ResourceInterface) {
	paint := func(colour string) map[string]any { return map[string]any{"paint": map[string]any{"colour": colour}} }
	for _, c := range []struct {
		in      dynamic.ResourceInterface
		version string
		spec    map[string]any
		refusal string
	}{
		{first, "v1alpha1", map[string]any{"size": int64(3)}, ""},
		{first, "v1alpha1", map[string]any{"size": int64(4)}, "at most 3 pods"},
		{second, "v1", map[string]any{"replicas": int64(4)}, ""},
		{second, "v1", map[string]any{"replicas": int64(6)}, "at most 5 pods"},
		{old, "v1alpha1", map[string]any{"size": int64(4)}, ""},
		{old, "v1alpha1", map[string]any{"size": int64(6)}, "at most 5 pods"},
		{first, "v1alpha1", map[string]any{"colour": "pink"}, "the first release has no pink widgets"},
		{first, "v1alpha1", map[string]any{"colour": "brown"}, ""},
		{second, "v1", paint("pink"), ""},
		{second, "v1", paint("brown"), "the second release has no brown widgets"},
		{old, "v1alpha1", map[string]any{"colour": "pink"}, ""},
		{old, "v1alpha1", map[string]any{"colour": "brown"}, "the second release has no brown widgets"},
	} {
		_, err := c.in.Create(t.Context(), newWidget(c.version, "tried", c.spec),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if c.refusal == "" && err != nil ||
			c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s %v: %v, want %q", c.version, c.spec, err, c.refusal)
		}
	}
	repaint := []byte(`{"spec":{"paint":{"colour":"pink"}}}`)
	if _, err := second.Patch(t.Context(), "gizmo", types.MergePatchType, repaint,
		metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), "does not paint over") {
		t.Errorf("painting over: %v", err)
	}
	// Nothing is painted: a pod that starts at that moment would be white for ever.
	dryRun := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := first.Patch(t.Context(), "anvil", types.MergePatchType, []byte(`{"spec":{"colour":"white"}}`),
		dryRun); err != nil {
		t.Errorf("painting over in the first release: %v", err)
	}
	if _, err := first.Patch(t.Context(), "anvil", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/colour","value":"white"}]`), dryRun); err != nil {
		t.Errorf("painting over by a JSON patch: %v", err)
	}
}

func testWidgetConversion(t *testing.T, a *cluster, second, old dynamic.ResourceInterface) {
	ctx := t.Context()
	up, err := second.Get(ctx, "gadget", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkFields(t, up, map[string]string{"spec.replicas": "2", "spec.paint.colour": "green", "spec.paint.coats": "2",
		"spec.size": "", "metadata.annotations": ""})
	down, err := old.Get(ctx, "gizmo", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkFields(t, down,
		map[string]string{"spec.size": "1", "spec.colour": "blue", "spec.paint": "", "spec.replicas": ""})
	if coats := down.GetAnnotations()["example.com/coats"]; coats != "2" {
		t.Errorf("an older version with %q coats", coats)
	}
	for version, in := range map[string]dynamic.ResourceInterface{"v1": second, "v1alpha1": old} {
		list, err := in.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, w := range list.Items {
			names = append(names, w.GetAPIVersion()+" "+w.GetName())
		}
		if got, want := strings.Join(names, ", "),
			fmt.Sprintf("%[1]s/%[2]s gadget, %[1]s/%[2]s gizmo", widgetGroup, version); got != want {
			t.Errorf("list in %s: %s, want %s", version, got, want)
		}
		watch, err := in.Watch(ctx,
			metav1.ListOptions{FieldSelector: "metadata.name=gizmo", TimeoutSeconds: new(int64(20))})
		if err != nil {
			t.Fatal(err)
		}
		event := <-watch.ResultChan()
		watch.Stop()
		if w, ok := event.Object.(*unstructured.Unstructured); !ok || w.GetAPIVersion() != widgetGroup+"/"+version ||
			w.GetName() != "gizmo" {
			t.Errorf("watch in %s: %v", version, event)
		}
	}
	blue, err := second.List(ctx, metav1.ListOptions{FieldSelector: "spec.paint.colour=blue"})
	if err != nil || len(blue.Items) != 1 {
		t.Errorf("blue widgets: %v, %v", blue, err)
	}
	// A change by the older version is one of the newer.
	if _, err := old.Patch(ctx, "gizmo", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"old"}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if up, err = second.Get(ctx, "gizmo", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	checkFields(t, up, map[string]string{"metadata.labels.by": "old", "spec.paint.coats": "2"})
	if _, err := a.widgets(t, "v1").Get(ctx, "anvil", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other tenant's version: %v", err)
	}
}

// waitWidget waits until the operator has done its work on a widget, and looks
// at what a pod of it was given.
func (c *cluster) waitWidget(t *testing.T, in dynamic.ResourceInterface, name, release, colour string, pods int64) {
	t.Helper()
	hosts.Until(t, podTimeout, "widget "+name+" of "+c.tenant+" is ready", func(ctx context.Context) error {
		w, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, _, err := unstructured.NestedMap(w.Object, "status")
		if err != nil || status["ready"] != pods || status["release"] != release ||
			status["observedGeneration"] != w.GetGeneration() {
			return fmt.Errorf("status %v, %v", status, err)
		}
		return nil
	})
	cm, err := c.client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cm.Data["colour"] != colour || cm.Data["release"] != release {
		t.Errorf("%s of %s: %v", name, c.tenant, cm.Data)
	}
	list, err := c.client.CoreV1().Pods("default").List(t.Context(),
		metav1.ListOptions{LabelSelector: "widget=" + name})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("pods of %s: %v", name, err)
	}
	c.waitAnswer(t, "default", list.Items[0].Name, colour, "/env", "name", "colour")
}

func testWidgetViews(t *testing.T, a, b *cluster) {
	for _, v := range []struct {
		in      *cluster
		foreign []string // that must not be seen
		shows   map[string]string
		fails   []string
	}{
		{a, []string{"gizmo", "gadget", "wdg", "second", "example.com/v1\n", "paint", "widgets-b"}, map[string]string{
			"get wd -A": "anvil", "get widgets anvil": "SIZE",
			"api-resources --api-group=example.com": "example.com/v1alpha1", "api-versions": "example.com/v1alpha1",
			"explain widgets.spec.size":           "the first release makes",
			"get crd widgets.example.com -o yaml": "at most 3 pods",
		}, []string{"get wdg", "explain widgets.spec.replicas", "get widgets.v1.example.com", "get widget gizmo"}},
		{b, []string{"anvil", "first", "at most 3", "widgets-a"}, map[string]string{
			"get wdg -A": "gizmo", "get widgets gizmo": "REPLICAS",
			"api-resources --api-group=example.com": "example.com/v1 ", "api-versions": "example.com/v1\n",
			"explain widgets.spec.paint": "coats", "get crd widgets.example.com -o yaml": "at most 5 pods",
			"get widgets.v1alpha1.example.com": "SIZE",
		}, []string{"get wd", "get widget anvil"}},
	} {
		check := func(args, out string) {
			t.Helper()
			for _, word := range v.foreign {
				if strings.Contains(out, word) {
					t.Errorf("%s: kubectl %s shows %q:\n%s", v.in.tenant, args, word, out)
				}
			}
		}
		for args, want := range v.shows {
			out := v.in.mustKubectl(t, args)
			if check(args, out); !strings.Contains(out, want) {
				t.Errorf("%s: kubectl %s does not show %q:\n%s", v.in.tenant, args, want, out)
			}
		}
		for _, args := range v.fails {
			if r := v.in.kubectl(t, args); r.ExitCode == 0 {
				t.Errorf("%s: kubectl %s: %s", v.in.tenant, args, r.Stdout)
			}
		}
	}
}

// testWidgetDeletion: what an operator made goes with its widget, and only that.
func testWidgetDeletion(t *testing.T, a, b *cluster, first, second dynamic.ResourceInterface) {
	foreground := metav1.DeletePropagationForeground
	if err := first.Delete(t.Context(), "anvil", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := second.Delete(t.Context(), "gizmo", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in      *cluster
		widgets dynamic.ResourceInterface
		name    string
	}{{a, first, "anvil"}, {b, second, "gizmo"}} {
		hosts.Until(t, podTimeout, c.name+" is gone with what it owns", func(ctx context.Context) error {
			_, widget := c.widgets.Get(ctx, c.name, metav1.GetOptions{})
			_, deployment := c.in.client.AppsV1().Deployments("default").Get(ctx, c.name, metav1.GetOptions{})
			_, configMap := c.in.client.CoreV1().ConfigMaps("default").Get(ctx, c.name, metav1.GetOptions{})
			for what, err := range map[string]error{"widget": widget, "deployment": deployment,
				"config map": configMap} {
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("its %s: %v", what, err)
				}
			}
			pods, err := c.in.client.CoreV1().Pods("default").List(ctx,
				metav1.ListOptions{LabelSelector: "widget=" + c.name})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("there are %d pods", len(pods.Items))
			}
			return err
		})
	}
	b.waitWidget(t, second, "gadget", "second", "green", 2)
}
