package disks

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/vmlab"
)

const chain = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// fakeSource has one image, whose files are made by fill.
type fakeSource struct {
	fill    func(root string) error
	mounted atomic.Int32
	gone    atomic.Bool
}

func (f *fakeSource) find(context.Context, string) (image, error) {
	config := ocispec.ImageConfig{Cmd: []string{"sh"}}
	return image{chain: chain, config: config,
		mounted: func(_ context.Context, target string, then func() error) error {
			f.mounted.Add(1)
			if err := f.fill(target); err != nil {
				return err
			}
			return then()
		}}, nil
}

func (f *fakeSource) chains(context.Context) ([]string, error) {
	if f.gone.Load() {
		return nil, nil
	}
	return []string{chain}, nil
}

// need skips where an image cannot be mounted, and fails where a program is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatalf("run scripts/install-deps.sh test: %v", err)
		}
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}

func open(t *testing.T, root string, from source) *Store {
	t.Helper()
	s, err := newStore(Options{Root: root, Room: 100 << 20}, from)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func prepare(t *testing.T, s *Store) *Image {
	t.Helper()
	img, err := s.Prepare(t.Context(), "image")
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// rootFiles is a small root file system.
func rootFiles(root string) error {
	return errors.Join(
		os.MkdirAll(filepath.Join(root, "usr/etc"), 0o755),
		os.WriteFile(filepath.Join(root, "usr/etc/passwd"),
			[]byte("root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"), 0o644),
		os.Symlink("/usr/etc", filepath.Join(root, "etc")), // absolute, but of the image
		os.WriteFile(filepath.Join(root, "tool"), []byte("tool"), 0o4711),
		os.Chmod(filepath.Join(root, "tool"), 0o4711|fs.ModeSetuid),
		os.Chmod(root, 0o755),
	)
}

func TestPrepareMakesABaseOnce(t *testing.T) {
	need(t, "mke2fs", "debugfs")
	root, from := t.TempDir(), &fakeSource{fill: rootFiles}
	s := open(t, root, from)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.Prepare(t.Context(), "image"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	img := prepare(t, open(t, root, from)) // a later process
	if n := from.mounted.Load(); n != 1 {
		t.Errorf("the image was mounted %d times", n)
	}
	if img.Format != "raw" || img.Bootable || img.Chain != chain || len(img.Config.Cmd) != 1 || img.Size < 100<<20 {
		t.Errorf("image %+v", img)
	}
	if !strings.Contains(string(img.Users.Passwd), "app:x:1000") {
		t.Errorf("users %q", img.Users.Passwd)
	}
	if stat, err := os.Stat(img.Base); err != nil || stat.Size() != img.Size {
		t.Errorf("base %v, %v", stat, err)
	}
	if bytes, files, err := s.Usage(); err != nil || bytes == 0 || bytes > 16<<20 || files < 2 {
		t.Errorf("usage %d bytes, %d files, %v: room must cost nothing", bytes, files, err)
	}
	if got := output(t, "debugfs", "-R", "cat /tool", img.Base); got != "tool" {
		t.Errorf("/tool holds %q", got)
	}
	if got := output(t, "debugfs", "-R", "stat /tool", img.Base); !strings.Contains(got, "Mode:  04711") {
		t.Errorf("stat /tool: %s", got)
	}
	output(t, "e2fsck", "-fn", img.Base)
}

func TestPrepareFailsWhole(t *testing.T) {
	need(t, "mke2fs")
	broken := errors.New("broken layer")
	from := &fakeSource{fill: func(string) error { return broken }}
	s := open(t, t.TempDir(), from)
	if _, err := s.Prepare(t.Context(), "image"); !errors.Is(err, broken) || !strings.Contains(err.Error(), "image") {
		t.Fatalf("Prepare: %v", err)
	}
	for _, dir := range []string{basesDir, tempDir} {
		if left, err := os.ReadDir(filepath.Join(s.opts.Root, dir)); err != nil || len(left) != 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	from.fill = rootFiles
	prepare(t, s)
}

// TestNewRemovesWhatWasCutShort must not remove what is mounted.
func TestNewRemovesWhatWasCutShort(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	root, theirs := t.TempDir(), t.TempDir()
	file := filepath.Join(theirs, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(root, tempDir, "1", rootFS)
	if err := os.MkdirAll(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(theirs, mounted, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	s := open(t, root, &fakeSource{})
	if left, err := os.ReadDir(s.temp()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a file of the image: %v", err)
	}
}

func TestOverlayKeepsItsBase(t *testing.T) {
	need(t, "mke2fs", "qemu-img")
	from := &fakeSource{fill: rootFiles}
	s := open(t, t.TempDir(), from)
	at := time.Now()
	s.now = func() time.Time { return at }
	img := prepare(t, s)
	dir := t.TempDir()
	for name, size := range map[string]int64{"default": 0, "small": 1 << 20, "large": 1 << 33} {
		path := filepath.Join(dir, name)
		if err := s.Overlay(t.Context(), img, path, size); err != nil {
			t.Fatal(err)
		}
		var info struct {
			Format  string `json:"format"`
			Size    int64  `json:"virtual-size"`
			Backing string `json:"backing-filename"`
			As      string `json:"backing-filename-format"`
		}
		if err := json.Unmarshal([]byte(output(t, "qemu-img", "info", "--output=json", path)), &info); err != nil {
			t.Fatal(err)
		}
		if info.Format != "qcow2" || info.Size != max(size, img.Size) || info.Backing != img.Base || info.As != "raw" {
			t.Errorf("%s: %+v", name, info)
		}
	}
	if err := s.Overlay(t.Context(), img, filepath.Join(dir, "no", "dir"), 0); err == nil {
		t.Error("an overlay in a directory that does not exist")
	}

	collect := func() int64 {
		t.Helper()
		freed, err := s.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return freed
	}
	at = at.Add(2 * settle)
	if freed := collect(); freed != 0 {
		t.Errorf("the base of an image that is there was removed: %d bytes", freed)
	}
	from.gone.Store(true)
	if freed := collect(); freed != 0 {
		t.Errorf("the base of an overlay was removed: %d bytes", freed)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	prepare(t, s) // somebody is about to make another
	if freed := collect(); freed != 0 {
		t.Errorf("a base that was just asked for was removed: %d bytes", freed)
	}
	at = at.Add(2 * settle)
	if freed := collect(); freed == 0 {
		t.Error("a base that nobody needs was kept")
	}
	if bytes, files, err := s.Usage(); err != nil || files != 1 {
		t.Errorf("left: %d bytes, %d files, %v", bytes, files, err)
	}
	if err := s.Overlay(t.Context(), img, filepath.Join(t.TempDir(), "x"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an overlay of a base that is gone: %v", err)
	}
}

func TestImageWithADisk(t *testing.T) {
	need(t, "qemu-img")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	create := func(args ...string) func(string) error {
		return func(dir string) error {
			return exec.Command("qemu-img",
				append(append([]string{"create", "-q"}, args...), filepath.Join(dir, "x.qcow2"), "8M")...).Run()
		}
	}
	file := func(name string, content []byte) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), content, 0o600) }
	}
	for _, tc := range []struct {
		name   string
		fill   []func(dir string) error
		format string
		size   int64
		err    error
	}{
		{"qcow2", []func(string) error{create("-f", "qcow2")}, "qcow2", 8 << 20, nil},
		{"raw", []func(string) error{file("x.raw", make([]byte, 3<<20))}, "raw", 3 << 20, nil},
		{"named img", []func(string) error{create("-f", "qcow2"), func(dir string) error {
			return os.Rename(filepath.Join(dir, "x.qcow2"), filepath.Join(dir, "x.IMG"))
		}}, "qcow2", 8 << 20, nil},
		{"raw is raw, whatever it holds",
			[]func(string) error{create("-f", "qcow2", "-b", secret, "-F", "raw"), func(dir string) error {
				return os.Rename(filepath.Join(dir, "x.qcow2"), filepath.Join(dir, "x.raw"))
			}}, "raw", 196616, nil},
		{"backing file", []func(string) error{create("-f", "qcow2", "-b", secret, "-F", "raw")},
			"", 0, ErrForeignDisk},
		{"external data", []func(string) error{create("-f", "qcow2",
			"-o", "data_file="+filepath.Join(t.TempDir(), "data"))}, "", 0, ErrForeignDisk},
		{"two", []func(string) error{file("a.raw", []byte("a")), file("b.img", []byte("b"))}, "", 0, ErrSeveralDisks},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t, t.TempDir(), &fakeSource{fill: func(root string) error {
				dir := filepath.Join(root, diskDir)
				err := os.MkdirAll(dir, 0o755)
				for _, f := range tc.fill {
					err = errors.Join(err, f(dir))
				}
				return err
			}})
			img, err := s.Prepare(t.Context(), "image")
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if err == nil && (!img.Bootable || img.Format != tc.format || img.Size != tc.size) {
				t.Errorf("image %+v", img)
			}
		})
	}
	t.Run("a link is not followed", func(t *testing.T) {
		need(t, "mke2fs")
		s := open(t, t.TempDir(), &fakeSource{fill: func(root string) error {
			return errors.Join(os.MkdirAll(filepath.Join(root, diskDir), 0o755),
				os.Symlink(secret, filepath.Join(root, diskDir, "x.raw")), os.Symlink("/", filepath.Join(root, "etc")))
		}})
		if img := prepare(t, s); img.Bootable || len(img.Users.Passwd) != 0 {
			t.Errorf("image %+v", img)
		}
	})
}

func TestUsers(t *testing.T) {
	u := Users{
		Passwd: []byte("root:x:0:0::/root:/bin/sh\napp:x:1000:2000::/home/app:/bin/sh\n"),
		Group:  []byte("root:x:0:\nwheel:x:10:app\ndata:x:50:\n"),
	}
	for _, tc := range []struct {
		spec   string
		want   User
		failed bool
	}{
		{"", User{Name: "root", Home: "/root"}, false},
		{"app", User{Name: "app", Home: "/home/app", UID: 1000, GID: 2000, Groups: []uint32{10}}, false},
		{"1000", User{Name: "app", Home: "/home/app", UID: 1000, GID: 2000, Groups: []uint32{10}}, false},
		{"app:data", User{Name: "app", Home: "/home/app", UID: 1000, GID: 50}, false},
		{"4711:12", User{Home: "/", UID: 4711, GID: 12}, false},
		{"nobody", User{}, true},
		{"app:none", User{}, true},
	} {
		got, err := u.Resolve(tc.spec)
		if tc.failed {
			if !errors.Is(err, ErrNoUser) {
				t.Errorf("%q: %v", tc.spec, err)
			}
			continue
		}
		if err != nil || got.Name != tc.want.Name || got.Home != tc.want.Home || got.UID != tc.want.UID ||
			got.GID != tc.want.GID || len(got.Groups) != len(tc.want.Groups) {
			t.Errorf("%q: %+v, %v, want %+v", tc.spec, got, err, tc.want)
		}
	}
	if got, err := (Users{}).Resolve("0:0"); err != nil || got.UID != 0 || got.Home != "/" {
		t.Errorf("without files: %+v, %v", got, err)
	}
}

// TestSeedIsFound asks the program by which cloud-init finds it.
func TestSeedIsFound(t *testing.T) {
	need(t, "blkid")
	path := filepath.Join(t.TempDir(), "seed.iso")
	if err := WriteSeed(path, Seed{}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, "blkid", "-p", "-o", "export", path); !strings.Contains(got, "LABEL=cidata\n") ||
		!strings.Contains(got, "TYPE=iso9660\n") {
		t.Errorf("blkid: %s", got)
	}
}

// TestGuestReadsTheDisks has a kernel look at what this package writes.
func TestGuestReadsTheDisks(t *testing.T) {
	need(t, "mke2fs", "qemu-img")
	guest := vmlab.New(t)
	s := open(t, t.TempDir(), &fakeSource{fill: rootFiles})
	img := prepare(t, s)
	dir := t.TempDir()
	root := filepath.Join(dir, "root.qcow2")
	if err := s.Overlay(t.Context(), img, root, 0); err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(dir, "seed.iso")
	user := "#cloud-config\n" + strings.Repeat("# filling several sectors\n", 200)
	if err := WriteSeed(seed, Seed{MetaData: []byte("instance-id: i1\n"), UserData: []byte(user),
		NetworkConfig: []byte("version: 2\n")}); err != nil {
		t.Fatal(err)
	}
	c := qemu.Config{
		Dir: dir, Accelerator: qemu.TCG, MemoryMB: 128, CPUs: 1, Slots: 1,
		Kernel: guest.Kernel, Initrd: guest.Initrd, Cmdline: vmlab.Cmdline(),
		Disks: []qemu.Disk{
			{ID: "root", Path: root, Format: "qcow2"},
			{ID: "seed", Path: seed, Format: "raw", ReadOnly: true},
		},
		Ports: []qemu.Port{{Name: vmlab.Port, Socket: "lab.sock"}},
	}
	m, err := qemu.Start(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Kill(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	conn, err := qemu.DialPort(t.Context(), dir, "lab.sock")
	if err != nil {
		t.Fatal(err)
	}
	sh := vmlab.Open(t, conn)
	sh.Run("mount -t ext4 /dev/vda /mnt")
	if got := sh.Run("stat -c '%a %u' /mnt /mnt/tool | xargs echo; " +
		"cat /mnt/usr/etc/passwd | wc -l"); got != "755 0 4711 0\n2" {
		t.Errorf("the root file system: %q", got)
	}
	sh.Run("dd if=/dev/zero of=/mnt/big bs=1M count=90 && rm /mnt/big && sync && umount /mnt")
	sh.Run("mount -t iso9660 -o ro /dev/vdb /mnt")
	if got := sh.Run("ls /mnt | xargs echo; cat /mnt/meta-data /mnt/network-config"); got !=
		"meta-data network-config user-data\ninstance-id: i1\nversion: 2" {
		t.Errorf("the seed: %q", got)
	}
	if got := sh.Run("cat /mnt/user-data"); got != strings.TrimSpace(user) {
		t.Errorf("user-data: %q", got)
	}
	sh.Run("umount /mnt; mount -t iso9660 -o ro,nojoliet /dev/vdb /mnt")
	if got := sh.Run("ls /mnt | xargs echo"); got != "meta-data network-config user-data" {
		t.Errorf("without Joliet: %q", got)
	}
}
