package spaces_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/cmd/supportbundle"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// TestSupportBundle: a bundle of a running server has what is asked for, of the spaces that are
// asked for, and nothing secret.
func TestSupportBundle(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	planes.CreateTenant(t, p.Admin, asleep)
	const word = "zqcanaryzq"
	for _, s := range []*space{a, b} {
		annotations := map[string]string{"note": word}
		if _, err := s.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": word},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "map-of-" + s.name, Annotations: annotations},
			Data:       map[string]string{"name": word},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		d := deployment("web")
		d.Annotations, d.Spec.Template.Annotations = annotations, annotations
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: word}}
		d.Spec.Template.Spec.Containers[0].Command = []string{word}
		if _, err := s.client.AppsV1().Deployments("default").Create(t.Context(), d,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for tenant, want := range map[string]string{"": "objects in the spaces of tenants", "a": "other tenants than a",
		asleep: "nobody has used it"} {
		said, files := makeBundle(t, p, tenant)
		for name, text := range files {
			if newCanary(word).in([]byte(text)) {
				t.Errorf("for %q %s has a secret:\n%s", tenant, name, text)
			}
			if name != "objects/cluster/tenants.json" && strings.Contains(text, "map-of-b") {
				t.Errorf("for %q %s has objects of b", tenant, name)
			}
		}
		if !strings.Contains(said, want) || strings.Contains(said, "cannot be read") {
			t.Errorf("for %q it says\n%s", tenant, said)
		}
		for _, name := range []string{"readyz.txt", "objects/system/namespaces.json", "objects/cluster/tenants.json"} {
			if files[name] == "" {
				t.Errorf("for %q there is no %s: %s", tenant, name, said)
			}
		}
		if _, has := files["objects/a/configmaps.json"]; has != (tenant == "a") {
			t.Errorf("for %q there are objects of a: %t", tenant, has)
		}
		if tenant == "a" && (!strings.Contains(files["objects/a/deployments.json"], `"name":"PASSWORD"`) ||
			!strings.Contains(files["objects/a/configmaps.json"], `"name":"map-of-a","namespace":"default"`) ||
			!strings.Contains(files["objects/a/tenantusages.json"], "what claims of volumes request")) {
			t.Errorf("of a there is %s\n%s\n%s", files["objects/a/deployments.json"],
				files["objects/a/configmaps.json"], files["objects/a/tenantusages.json"])
		}
	}
	if keys := p.keys(t, "/"+asleep+"/"); len(keys) > 0 {
		t.Errorf("a space that nobody uses is made: %q", keys)
	}
}

// makeBundle makes a bundle and reads its files.
func makeBundle(t *testing.T, p *plane, tenant string) (said string, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	var out strings.Builder
	run := &cmd.SupportBundle{Output: filepath.Join(dir, "b.tar.gz"), Tenant: tenant, Timeout: deadline,
		Config: p.Admin, Out: &out, Local: &config.Local{DataDir: dir, ConfigFile: filepath.Join(dir, "config.yaml")}}
	if err := supportbundle.Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(run.Output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.String(), files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(path.Clean(h.Name), "/")
		files[name] = string(data)
	}
}
