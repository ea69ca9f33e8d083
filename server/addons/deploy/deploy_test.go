package deploy

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/manifests"
)

// carried are the manifests that a4s carries.
func carried(t *testing.T, disabled ...string) (wanted, gone []manifest) {
	t.Helper()
	values := Values{ClusterDNS: "10.43.0.10", NodeImporter: "system:a4s:partition:main"}
	o := Options{FS: manifests.FS, Values: values, Disabled: disabled, Dir: t.TempDir(),
		Log: logrus.NewEntry(logrus.StandardLogger())}
	wanted, gone, err := o.carried()
	if err != nil {
		t.Fatal(err)
	}
	return wanted, gone
}

func TestCarriedManifestsRender(t *testing.T) {
	wanted, _ := carried(t)
	var objects []object
	for _, m := range wanted {
		objects = append(objects, m.objects...)
	}
	found := map[string]bool{}
	for _, u := range objects {
		if u.GetKind() == "" || u.GetAPIVersion() == "" || u.GetName() == "" {
			t.Errorf("incomplete object %v", u.Object)
		}
		found[u.GetKind()+"/"+u.GetName()] = true
		if u.GetName() == "kube-dns" {
			if ip, _, _ := nested(u.Object, "spec", "clusterIP"); ip != "10.43.0.10" {
				t.Errorf("kube-dns has clusterIP %v, want the configured one", ip)
			}
		}
		if u.GetKind() == "RuntimeClass" {
			checkClass(t, u.Object)
		}
	}
	for _, want := range []string{"ClusterRole/a4s:node", "ClusterRoleBinding/a4s:kube-apiserver-to-kubelet",
		"Service/kube-dns", "RuntimeClass/container", "RuntimeClass/vm", "ClusterRoleBinding/a4s:kube-scheduler"} {
		if !found[want] {
			t.Errorf("%s is not carried", want)
		}
	}
}

// checkClass checks that a class is of the type that its name says, and of containers if its
// name is that of a runtime.
func checkClass(t *testing.T, object map[string]any) {
	t.Helper()
	var class nodev1.RuntimeClass
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &class, true); err != nil {
		t.Fatal(err)
	}
	want, err := workload.Parse(class.Name)
	if err != nil {
		want = workload.Container
	}
	if got, err := workload.OfPod(&corev1.Pod{}, &class); err != nil || got != want {
		t.Errorf("pods of class %s are of type %q, %v", class.Name, got, err)
	}
}

func nested(o map[string]any, keys ...string) (any, bool, error) {
	var v any = o
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false, nil
		}
		v = m[k]
	}
	return v, true, nil
}

func TestBrokenManifestIsNamed(t *testing.T) {
	for name, text := range map[string]string{
		"template": "kind: X\nname: {{ .NoSuchField }}\n",
		"yaml":     "kind: [\n",
	} {
		_, _, err := Options{FS: fstest.MapFS{"broken.yaml": {Data: []byte(text)}}}.carried()
		if err == nil || !strings.Contains(err.Error(), "broken.yaml") {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
	}
}

// TestCarriedManifestsCanBeDisabled: the list of names in the help has every
// carried manifest.
func TestCarriedManifestsCanBeDisabled(t *testing.T) {
	all, _ := carried(t)
	wanted, gone := carried(t, config.Addons()...)
	if len(wanted) > 0 || len(gone) != len(all) {
		t.Errorf("with everything disabled %d manifests are left and %d of %d are not: is each in config.Addons?",
			len(wanted), len(gone), len(all))
	}
	if wanted, gone = carried(t, "dns"); len(gone) != 1 || gone[0].file != "dns.yaml" || len(wanted) != len(all)-1 {
		t.Errorf("without dns, %+v are deleted", gone)
	}
}
