package records

import (
	"os"
	"path/filepath"
	"testing"
)

type pod struct{ Name string }

func TestRecordsSurviveAndBrokenOnesHideNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods")
	d, err := Open[pod](path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := d.Put(name, &pod{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Put("b", &pod{Name: "again"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // removing is idempotent
		if err := d.Remove("c"); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"broken.json": "{", ".d.json.tmp-1": "{", "other": "x"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open[pod](path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := again.All()
	if err == nil {
		t.Error("the broken record is not reported")
	}
	if len(all) != 2 || all["a"].Name != "a" || all["b"].Name != "again" {
		t.Errorf("records %v", all)
	}
}
