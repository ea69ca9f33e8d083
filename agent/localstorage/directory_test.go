package localstorage

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

func volume(dir, name string) joinapi.LocalVolume {
	return joinapi.LocalVolume{Name: name, UID: "1", Path: filepath.Join(dir, name+"_default_data")}
}

func TestCreateAndRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "storage")
	v := volume(dir, "pvc-1.t1.tenant")
	if err := remove(v); err != nil {
		t.Errorf("what was never made: %v", err)
	}
	if err := create(v); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: parentMode, v.Path: volumeMode} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	// Pods may have changed it when the answer got lost.
	if err := os.Chmod(v.Path, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := create(v); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(v.Path); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("after a second time: %v, %v", info, err)
	}

	// What links in a volume point to stays, whatever they are called.
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(v.Path, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": outside, "a/b/up": "../../..",
		"kept": filepath.Join(outside, "kept")} {
		if err := os.Symlink(target, filepath.Join(v.Path, link)); err != nil {
			t.Fatal(err)
		}
	}
	beside := volume(dir, "pvc-2")
	if err := create(beside); err != nil {
		t.Fatal(err)
	}
	if err := remove(v); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(v.Path); !os.IsNotExist(err) {
		t.Errorf("the volume: %v", err)
	}
	for _, path := range []string{filepath.Join(outside, "kept"), beside.Path} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestPathsThatAreNoVolumes(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, filepath.Join(dir, "pvc-1_x")); err != nil {
		t.Fatal(err)
	}
	if err := create(joinapi.LocalVolume{Name: "pvc-1", Path: filepath.Join(dir, "pvc-1_x")}); err == nil {
		t.Error("a link is taken for a volume")
	}
	for _, v := range []joinapi.LocalVolume{
		{Name: "pvc-1", Path: kept},
		{Name: "pvc-1", Path: dir + "/pvc-1_/../kept"},
		{Name: "pvc-1", Path: dir + "/pvc-10_x"},
		{Name: "", Path: dir + "/_x"},
		{Name: "pvc-1", Path: "pvc-1_x"},
		{Name: "..", Path: dir + "/.."},
		{Name: "a/pvc", Path: dir + "/a/pvc_x"},
	} {
		if create(v) == nil || remove(v) == nil {
			t.Errorf("%+v is taken for a volume", v)
		}
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// What is mounted in a volume is not of the volume.
func TestMountsStay(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	v := volume(t.TempDir(), "pvc-1")
	if err := create(v); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	file := filepath.Join(other, "kept")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(v.Path, "mount")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(other, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := remove(v); err == nil {
		t.Error("a volume with a mount in it is removed")
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := remove(v); err != nil {
		t.Error(err)
	}
}
