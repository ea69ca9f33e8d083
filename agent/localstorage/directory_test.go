package localstorage

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

func volume(dir, name string) joinapi.LocalVolume {
	return joinapi.LocalVolume{Name: name, UID: "1", Path: filepath.Join(dir, name+"_default_data")}
}

// soon is a deadline that no test meets.
func soon() time.Time { return time.Now().Add(time.Minute) }

func TestCreateAndRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "storage")
	v := volume(dir, "pvc-1.t1.tenant")
	if err := remove(v, soon()); err != nil {
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
	if err := remove(v, soon()); err != nil {
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
		if create(v) == nil || remove(v, soon()) == nil {
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
	if err := remove(v, soon()); err == nil {
		t.Error("a volume with a mount in it is removed")
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := remove(v, soon()); err != nil {
		t.Error(err)
	}
}

// TestVolumesOfHostilePods: what a pod has left in a volume takes no more descriptors than any, a pod that writes
// on holds up nothing, and a volume that a pod has is not removed.
func TestVolumesOfHostilePods(t *testing.T) {
	t.Run("nested without an end", func(t *testing.T) {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		v := volume(t.TempDir(), "pvc-1")
		if err := create(v); err != nil {
			t.Fatal(err)
		}
		here, err := unix.Open(v.Path, unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3000 {
			for _, name := range []string{"d", "beside" + strconv.Itoa(i%7)} {
				if err := unix.Mkdirat(here, name, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			next, err := unix.Openat(here, "d", unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Close(here); err != nil {
				t.Fatal(err)
			}
			here = next
		}
		if err := unix.Close(here); err != nil {
			t.Fatal(err)
		}
		few := limit
		few.Cur = 256
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		err = remove(v, soon())
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(v.Path); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
	})
	t.Run("written all the time", func(t *testing.T) {
		v := volume(t.TempDir(), "pvc-1")
		if err := create(v); err != nil {
			t.Fatal(err)
		}
		inside, err := os.OpenRoot(v.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer inside.Close() //nolint:errcheck // it was only written below
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					_ = inside.Mkdir(strconv.Itoa(i), 0o700) // the volume may be gone
				}
			}
		}()
		if err := remove(v, time.Now().Add(50*time.Millisecond)); err != nil && !errors.Is(err, errMore) {
			t.Errorf("beside a writer: %v", err)
		}
		if err := remove(v, time.Now().Add(-time.Second)); err != nil && !errors.Is(err, errMore) {
			t.Errorf("late: %v", err)
		}
		close(stop)
		<-stopped
		if err := remove(v, soon()); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(v.Path); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
	})
	t.Run("mounted in a pod", func(t *testing.T) {
		if !nstest.Isolate(t) {
			return
		}
		v := volume(t.TempDir(), "pvc-1")
		if err := create(v); err != nil {
			t.Fatal(err)
		}
		at := t.TempDir()
		if err := unix.Mount(v.Path, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		if err := remove(v, soon()); err == nil || errors.Is(err, errMore) {
			t.Errorf("while it is mounted: %v", err)
		}
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
		// The line of another mount can be long: this one's directory is moved below many others.
		other := volume(filepath.Dir(v.Path), "pvc-2")
		if err := create(other); err != nil {
			t.Fatal(err)
		}
		sub := filepath.Join(other.Path, "sub")
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(sub, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, 0); err != nil {
				t.Error(err)
			}
		})
		in, err := unix.Open(other.Path, unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		from, long := in, strings.Repeat("d", 250)
		for range 300 {
			if err := unix.Mkdirat(in, long, 0o700); err != nil {
				t.Fatal(err)
			}
			next, err := unix.Openat(in, long, unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(next) //nolint:errcheck // it was only read
			in = next
		}
		defer unix.Close(from) //nolint:errcheck // it was only read
		if err := unix.Renameat(from, "sub", in, "sub"); err != nil {
			t.Fatal(err)
		}
		if err := remove(v, soon()); err != nil {
			t.Errorf("beside a mount with a long line: %v", err)
		}
		if err := remove(other, soon()); err == nil || errors.Is(err, errMore) {
			t.Errorf("what has a directory that is mounted: %v", err)
		}
	})
}
