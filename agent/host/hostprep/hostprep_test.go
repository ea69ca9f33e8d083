package hostprep

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/nstest"
)

type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T, values map[string]string) tree {
	tr := tree{t, t.TempDir()}
	for k, v := range values {
		tr.set(k, v)
	}
	return tr
}

func (tr tree) set(key, value string) {
	tr.t.Helper()
	p := filepath.Join(tr.dir, key)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(value+"\n"), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr tree) get(key string) string {
	tr.t.Helper()
	data, err := os.ReadFile(filepath.Join(tr.dir, key))
	if err != nil {
		tr.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func TestRestorePutsBackTheFirstValues(t *testing.T) {
	tr := newTree(t, map[string]string{
		"kernel/random/boot_id": "boot-1", "net/ipv4/ip_forward": "0",
		"net/bridge/bridge-nf-call-iptables": "1", "kernel/panic": "5",
	})
	o := Options{RecordFile: filepath.Join(t.TempDir(), "agent", RecordName), ProcSys: tr.dir}
	if err := Prepare(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := tr.get("net/ipv4/ip_forward"); got != "1" {
		t.Fatalf("ip_forward = %s after Prepare", got)
	}
	tr.set("kernel/panic", "10") // as kubelet does
	if err := Prepare(t.Context(), o); err != nil {
		t.Fatal(err) // a restart of a4s must not record the changed value
	}
	restored, err := Restore(o)
	if err != nil || strings.Join(restored, " ") != "net.ipv4.ip_forward=0 kernel.panic=5" {
		t.Fatalf("Restore = %q, %v", restored, err)
	}
	if tr.get("net/ipv4/ip_forward") != "0" || tr.get("kernel/panic") != "5" {
		t.Error("the values were not written back")
	}
	if restored, err := Restore(o); err != nil || len(restored) != 0 {
		t.Errorf("second Restore = %q, %v", restored, err)
	}
}

func TestRecordOfAnotherBootIsNotUsed(t *testing.T) {
	tr := newTree(t, map[string]string{"kernel/random/boot_id": "boot-1", "net/ipv4/ip_forward": "0",
		"kernel/panic": "1"})
	o := Options{RecordFile: filepath.Join(t.TempDir(), RecordName), ProcSys: tr.dir}
	if err := Prepare(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	tr.set("kernel/random/boot_id", "boot-2")
	tr.set("kernel/panic", "7") // what this boot's sysctl.conf says
	if restored, err := Restore(o); err != nil || len(restored) != 0 {
		t.Fatalf("Restore = %q, %v", restored, err)
	}
	if err := Prepare(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	tr.set("kernel/panic", "10")
	if _, err := Restore(o); err != nil || tr.get("kernel/panic") != "7" {
		t.Errorf("Restore: %v, kernel.panic = %s, want this boot's 7", err, tr.get("kernel/panic"))
	}
}

func TestForwardingIsRequired(t *testing.T) {
	tr := newTree(t, map[string]string{"kernel/random/boot_id": "b"})
	err := Prepare(t.Context(), Options{RecordFile: filepath.Join(t.TempDir(), RecordName), ProcSys: tr.dir})
	var pre *problem.Precondition
	if !errors.As(err, &pre) || !strings.Contains(pre.What, "net.ipv4.ip_forward") {
		t.Errorf("Prepare without ip_forward = %v", err)
	}
}

func TestKernel(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	// Only the sysctls of this network namespace change here.
	o := Options{RecordFile: filepath.Join(t.TempDir(), RecordName)}.withDefaults()
	before, err := o.read("net/ipv4/ip_forward")
	if err != nil {
		t.Fatal(err)
	}
	if err := Prepare(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got, err := o.read("net/ipv4/ip_forward"); err != nil || got != "1" {
		t.Fatalf("ip_forward = %q, %v", got, err)
	}
	if _, err := Restore(o); err != nil {
		t.Fatal(err)
	}
	if got, err := o.read("net/ipv4/ip_forward"); err != nil || got != before {
		t.Errorf("ip_forward = %q, %v, want %s again", got, err, before)
	}
}
