package vm

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/process"
	"github.com/a4s-io/a4s/tests/vmlab"
)

// bootTimeout bounds the guest's whole life. Emulation is ten to thirty times
// slower than the machine.
const bootTimeout = 45 * time.Minute

// TestCgroupV2AndSystemd runs guest/job.sh in the guest; each of its results
// is a subtest.
func TestCgroupV2AndSystemd(t *testing.T) {
	binary, next, archive := os.Getenv("A4S_BINARY"), os.Getenv("A4S_VM_NEXT"), os.Getenv("A4S_VM_IMAGE")
	if binary == "" || next == "" || archive == "" {
		t.Skip("boots a guest: run it with `make test-vm`")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	arch := cmp.Or(os.Getenv("A4S_VM_ARCH"), runtime.GOARCH)
	m, ok := vmlab.MachineOf(arch)
	if !ok {
		t.Fatalf("A4S_VM_ARCH=%s: want amd64 or arm64", arch)
	}
	dir := filepath.Join(cache, "a4s-vm-"+arch)
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	image := exec.CommandContext(ctx, "./image.sh", dir, binary, next, archive, arch)
	if out, err := image.CombinedOutput(); err != nil {
		t.Fatalf("making the image of the guest: %v\n%s", err, out)
	}

	console, results := filepath.Join(t.TempDir(), "console.log"), filepath.Join(t.TempDir(), "results.log")
	qemu := exec.CommandContext(ctx, m.Emulator,
		"-accel", "tcg,thread=multi,tb-size=512", "-cpu", m.CPU, "-M", m.Board, "-m", "3072", "-smp", "2",
		"-nodefaults", "-no-user-config", "-display", "none",
		"-serial", "file:"+console, "-device", "virtio-serial-pci",
		"-chardev", "file,id=results,path="+results, "-device", "virtserialport,chardev=results,name=results",
		"-kernel", filepath.Join(dir, "vmlinuz"), "-initrd", filepath.Join(dir, "initrd.gz"),
		"-append", "console="+m.Console+" quiet panic=-1 systemd.unified_cgroup_hierarchy=1",
		"-drive", "file="+filepath.Join(dir, "root.ext4")+",format=raw,if=virtio,cache=unsafe",
		"-netdev", "user,id=n0,restrict=on", "-device", "virtio-net-pci,netdev=n0,romfile=")
	out, err := process.CombinedOutput(qemu)
	log, readErr := os.ReadFile(results)
	if err != nil || readErr != nil || !bytes.Contains(log, []byte("\nDONE")) {
		tail, _ := os.ReadFile(console)
		t.Fatalf("the guest did not get to its end: %v, %v\n%s\n%s\n%s", err, readErr, out, tail, log)
	}
	passed := 0
	for line := range strings.Lines(string(log)) {
		verdict, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verdict {
		case "OK":
			passed++
			t.Log(name)
		case "FAILED":
			t.Errorf("in the guest: %s", name)
		}
	}
	if passed == 0 || t.Failed() {
		t.Errorf("%d checks passed in the guest; its log:\n%s", passed, log)
	}
}
