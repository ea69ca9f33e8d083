package controlplane_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/server"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// manifestDir is the directory of manifests of a control plane, and its view
// of the API.
type manifestDir struct {
	*plane
	dir string
}

func (d manifestDir) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// configMap is the text of a manifest of one.
func configMap(namespace, name, value string) string {
	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: " + namespace +
		"}\ndata: {key: " + value + "}\n"
}

// expect waits until ConfigMaps of namespace default are there, or gone where
// the value is "".
func (d manifestDir) expect(t *testing.T, what string, want map[string]string) {
	t.Helper()
	var got map[string]string
	defer func() {
		if t.Failed() {
			t.Logf("the ConfigMaps are %v", got)
		}
	}()
	eventually(t, what, func(ctx context.Context) (bool, error) {
		list, err := d.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = map[string]string{}
		for _, cm := range list.Items {
			got[cm.Name] = cm.Data["key"]
		}
		for name, value := range want {
			if got[name] != value {
				return false, nil
			}
		}
		return true, nil
	})
}

// event waits for one about a file.
func (d manifestDir) event(t *testing.T, reason, text string) {
	t.Helper()
	var got []string
	defer func() {
		if t.Failed() {
			t.Logf("the events are %s", strings.Join(got, "\n"))
		}
	}()
	eventually(t, "the event "+reason+" "+text, func(ctx context.Context) (bool, error) {
		list, err := d.client.CoreV1().Events("kube-system").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = nil
		for _, e := range list.Items {
			got = append(got, e.Reason+": "+e.Message)
			if e.Reason == reason && strings.Contains(e.Message, text) && e.InvolvedObject.Kind == "ConfigMap" {
				return true, nil
			}
		}
		return false, nil
	})
}

// TestManifestsHaveADirectoryBeforeTheAPI: whoever sees the API can put a file
// there, and nobody else reads it.
func TestManifestsHaveADirectoryBeforeTheAPI(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	cfg := planes.Settings(t.TempDir())
	s, err := server.New(t.Context(), cfg, net.ParseIP(planes.Address))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(cfg.Agent.DataDir, "server", "manifests")); err != nil ||
		info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the directory of manifests: %v, %v", info, err)
	}
}

// TestManifests: the API is as the files in the directory of manifests say.
func TestManifests(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	cfg := planes.Settings(t.TempDir())
	d := manifestDir{plane: start(t, cfg), dir: filepath.Join(cfg.Agent.DataDir, "server", "manifests")}
	planes.CreateTenant(t, d.Admin, "t1")
	user, organizations := planes.AdminOf("t1")
	tenant := d.User(t, user, organizations, nil)
	planes.AwaitAccount(t, tenant, "default")

	t.Run("what leaves a file is deleted", d.testPrune)
	t.Run("what cannot be applied changes nothing", d.testMistakes)
	t.Run("what somebody has made his own stays", d.testTakenOver)
	t.Run("an object moves from file to file", d.testMove)
	t.Run("kinds come later", d.testLaterKinds)
	t.Run("objects of tenants", func(t *testing.T) {
		d.testTenants(t, manifestDir{plane: &plane{client: clientFor(t, tenant)}})
	})
	t.Run("carried manifests", d.testDisabled)
}

func (d manifestDir) testPrune(t *testing.T) {
	d.write(t, "sub/prune.yaml", configMap("default", "p1", "a")+configMap("default", "p2", "a")+
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: pruned}\n")
	d.write(t, "prune.json",
		`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p3"},`+
			`"data":{"key":"a"}},{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p4"},"data":{"key":"a"}}]}`)
	d.expect(t, "both files to be applied", map[string]string{"p1": "a", "p2": "a", "p3": "a", "p4": "a"})
	d.event(t, "AppliedManifest", "sub/prune.yaml: applied 3 objects")
	d.write(t, "sub/prune.yaml", configMap("default", "p1", "b"))
	d.write(t, "prune.json",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p4","namespace":"default"},"data":{"key":"b"}}`)
	d.expect(t, "the changes", map[string]string{"p1": "b", "p2": "", "p3": "", "p4": "b"})
	var last *corev1.Namespace
	defer func() {
		if t.Failed() {
			t.Logf("the namespace was last %+v", last)
		}
	}()
	eventually(t, "the namespace to be deleted", func(ctx context.Context) (bool, error) {
		var err error
		last, err = d.client.CoreV1().Namespaces().Get(ctx, "pruned", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	d.event(t, "AppliedManifest", "deleted")
	// As with k3s: a file that is gone has nothing deleted.
	if err := os.Remove(filepath.Join(d.dir, "prune.json")); err != nil {
		t.Fatal(err)
	}
	d.write(t, "skipped.yaml.skip", "")
	d.write(t, "skipped.yaml", configMap("default", "skipped", "a"))
	d.write(t, "later.yaml", configMap("default", "later", "a"))
	d.expect(t, "another file", map[string]string{"later": "a", "p4": "b", "skipped": ""})
	// What it brought is known when it comes back.
	d.write(t, "prune.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p5"},"data":{"key":"a"}}`)
	d.expect(t, "the file to be back", map[string]string{"p4": "", "p5": "a"})
	if err := os.Remove(filepath.Join(d.dir, "skipped.yaml.skip")); err != nil {
		t.Fatal(err)
	}
	d.expect(t, "the file that is not skipped any more", map[string]string{"skipped": "a"})
	d.write(t, "later.yaml", "# nothing\n")
	d.expect(t, "a comment", map[string]string{"later": ""})
}

func (d manifestDir) testMistakes(t *testing.T) {
	d.write(t, "mistakes.yaml", configMap("default", "m1", "a")+configMap("default", "m2", "a"))
	d.expect(t, "the file", map[string]string{"m1": "a", "m2": "a"})
	d.write(t, "mistakes.yaml", configMap("default", "m1", "b")+"---\nkind: [\n")
	d.event(t, "ParseManifestFailed", "mistakes.yaml: document 2 (line 6)")
	d.write(t, "mistakes.yaml", "")
	d.event(t, "ParseManifestFailed", "mistakes.yaml: the file is empty")
	d.expect(t, "nothing to change", map[string]string{"m1": "a", "m2": "a"})
	// What the API refuses holds back nothing else, but nothing is deleted.
	d.write(t, "mistakes.yaml", configMap("default", "m1", "c")+
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: {ports: [{port: 99999999}]}\n")
	d.event(t, "ApplyManifestFailed", "document 2: Service default/wrong")
	d.expect(t, "the rest", map[string]string{"m1": "c", "m2": "a"})
	d.write(t, "mistakes.yaml", configMap("default", "m1", "d"))
	d.expect(t, "the correction", map[string]string{"m1": "d", "m2": ""})
}

func (d manifestDir) testTakenOver(t *testing.T) {
	ctx := t.Context()
	d.write(t, "taken.yaml", configMap("default", "t1", "a")+configMap("default", "t2", "a"))
	d.expect(t, "the file", map[string]string{"t1": "a", "t2": "a"})
	maps := d.client.CoreV1().ConfigMaps("default")
	if err := maps.Delete(ctx, "t1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "t1"},
		Data: map[string]string{"key": "mine"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.write(t, "taken.yaml", "# nothing\n")
	d.expect(t, "what is still the file's to be deleted", map[string]string{"t1": "mine", "t2": ""})
}

func (d manifestDir) testMove(t *testing.T) {
	d.write(t, "move-a.yaml", configMap("default", "moving", "a"))
	d.expect(t, "the first file", map[string]string{"moving": "a"})
	before, err := d.client.CoreV1().ConfigMaps("default").Get(t.Context(), "moving", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, "move-a.yaml", configMap("default", "moved", "a"))
	d.write(t, "move-b.yaml", configMap("default", "moving", "b"))
	d.expect(t, "the second file", map[string]string{"moving": "b", "moved": "a"})
	after, err := d.client.CoreV1().ConfigMaps("default").Get(t.Context(), "moving", metav1.GetOptions{})
	if err != nil || after.UID != before.UID {
		t.Errorf("it is another object: %v", err)
	}
}

func (d manifestDir) testLaterKinds(t *testing.T) {
	const crd = `
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lates.example.com}
spec:
  group: example.com
  names: {kind: Late, plural: lates}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`
	late := "---\napiVersion: example.com/v1\nkind: Late\nmetadata: {name: one}\n"
	d.write(t, "late.yaml", late+configMap("default", "beside", "a"))
	d.event(t, "ApplyManifestFailed", "Late")
	d.expect(t, "what has a kind", map[string]string{"beside": "a"})
	d.write(t, "crd.yaml", crd)
	client, err := dynamic.NewForConfig(d.Admin)
	if err != nil {
		t.Fatal(err)
	}
	lates := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "lates"}).
		Namespace("default")
	eventually(t, "the custom resource", func(ctx context.Context) (bool, error) {
		_, err := lates.Get(ctx, "one", metav1.GetOptions{})
		return err == nil, nil
	})
	// In one file, with what lives in a namespace before it.
	d.write(t, "whole.yaml",
		"apiVersion: example.net/v1\nkind: Late\nmetadata: {name: two, namespace: whole}\n---\napiVersion: v1\n"+
			"kind: Namespace\nmetadata: {name: whole}\n"+strings.ReplaceAll(crd, "example.com", "example.net"))
	d.event(t, "AppliedManifest", "whole.yaml: applied 3 objects")
	events, err := d.client.CoreV1().Events("kube-system").List(t.Context(),
		metav1.ListOptions{FieldSelector: "reason=ApplyManifestFailed"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if strings.HasPrefix(e.Message, "whole.yaml") {
			t.Errorf("a file that has the definition of what is in it: %s", e.Message)
		}
	}
}

func (d manifestDir) testTenants(t *testing.T, tenant manifestDir) {
	inTenant := func(name, value string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name +
			", tenant: t1}\ndata: {key: " + value + "}\n"
	}
	d.write(t, "tenant.yaml", inTenant("same", "theirs")+configMap("default", "same", "ours")+
		inTenant("other", "theirs")+configMap("default.t1", "composite", "theirs"))
	tenant.expect(t, "the tenant's objects",
		map[string]string{"same": "theirs", "other": "theirs", "composite": "theirs"})
	d.expect(t, "the system's", map[string]string{"same": "ours", "other": "", "composite": ""})
	d.write(t, "tenant.yaml", inTenant("other", "theirs"))
	tenant.expect(t, "the tenant's to be deleted", map[string]string{"same": "", "other": "theirs", "composite": ""})
	d.expect(t, "the system's to be deleted", map[string]string{"same": ""})
	// A tenant and what is in its space.
	d.write(t, "made.yaml", "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: welcome, tenant: t2}\n---\n"+
		"apiVersion: v1\nkind: Tenant\nmetadata: {name: t2}\n")
	eventually(t, "an object in a tenant that the file makes", func(ctx context.Context) (bool, error) {
		_, err := d.client.CoreV1().ConfigMaps("default.t2").Get(ctx, "welcome", metav1.GetOptions{})
		return err == nil, nil
	})
}

// testDisabled starts the control plane again without a carried manifest, and
// with it.
func (d manifestDir) testDisabled(t *testing.T) {
	class := func() error {
		_, err := d.client.NodeV1().RuntimeClasses().Get(t.Context(), "vm", metav1.GetOptions{})
		return err
	}
	if err := class(); err != nil {
		t.Fatal(err)
	}
	restart := func(disabled ...string) {
		t.Helper()
		if err := d.group.Stop(); err != nil {
			t.Fatal(err)
		}
		d.cfg.Disable = disabled
		d.plane = start(t, d.cfg)
	}
	// A field that somebody has changed is as the manifest says after a start.
	if _, err := d.client.CoreV1().Services("kube-system").Patch(t.Context(), "kube-dns", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"k8s-app":"mine"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	restart("runtimeclasses", "metrics-server")
	if err := class(); !apierrors.IsNotFound(err) {
		t.Errorf("a disabled class is there: %v", err)
	}
	if service, err := d.client.CoreV1().Services("kube-system").
		Get(t.Context(), "kube-dns", metav1.GetOptions{}); err != nil || service.Labels["k8s-app"] != "kube-dns" {
		t.Errorf("the DNS service: %v, %v", service.Labels, err)
	}
	if groups, err := d.client.Discovery().ServerGroups(); err != nil {
		t.Error(err)
	} else {
		for _, g := range groups.Groups {
			if g.Name == "metrics.k8s.io" {
				t.Error("there is a disabled API")
			}
		}
	}
	eventually(t, "the APIService of metrics to go", func(ctx context.Context) (bool, error) {
		err := d.client.Discovery().RESTClient().Get().
			AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io").Do(ctx).Error()
		return apierrors.IsNotFound(err), nil
	})
	// Somebody's own class of the name of one that a4s brings stays.
	classes := d.client.NodeV1().RuntimeClasses()
	if _, err := classes.Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"},
		Handler: "mine"}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	restart()
	if err := class(); err != nil {
		t.Errorf("enabled again: %v", err)
	}
	classes = d.client.NodeV1().RuntimeClasses()
	if own, err := classes.Get(t.Context(), "kata", metav1.GetOptions{}); err != nil || own.Handler != "mine" ||
		len(own.Annotations) > 0 || own.Scheduling != nil {
		t.Errorf("somebody's own class became %+v, %v", own, err)
	}
	if carried, err := classes.Get(t.Context(), "crun", metav1.GetOptions{}); err != nil || carried.Scheduling == nil {
		t.Errorf("the class of a runtime of machines: %+v, %v", carried, err)
	}
	if _, err := d.client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1"); err != nil {
		t.Errorf("metrics, enabled again: %v", err)
	}
}
