package objectfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin/objectfile"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.json")
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	if _, err := objectfile.Read(path, kind); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}
	for _, objs := range [][]runtime.Object{nil, {pod}} {
		if err := objectfile.Write(path, objs); err != nil {
			t.Fatal(err)
		}
		got, err := objectfile.Read(path, kind)
		if err != nil || len(got) != len(objs) {
			t.Fatalf("%d objects came back as %v: %v", len(objs), got, err)
		}
		if len(got) == 1 && got[0].(*corev1.Pod).ResourceVersion != "7" {
			t.Errorf("it came back as %v", got[0])
		}
	}
	if _, err := objectfile.Read(path, corev1.SchemeGroupVersion.WithKind("Node")); err == nil {
		t.Error("pods are read as nodes")
	}
	for _, damaged := range []string{"", "{", `{"items":[{}]}`, `{"items":[{"kind":"Pod"}]}`} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := objectfile.Read(path, kind); err == nil {
			t.Errorf("%q is read as %v", damaged, got)
		}
	}
	if err := os.WriteFile(path, []byte(objectfile.Empty), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := objectfile.Read(path, kind); err != nil || len(got) != 0 {
		t.Errorf("what says that there is nothing is read as %v: %v", got, err)
	}
}
