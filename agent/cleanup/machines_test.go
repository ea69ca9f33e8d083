package cleanup

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	recorded "github.com/a4s-io/a4s/agent/vm/process"
)

func TestMachinesOfThisRunDirectoryEnd(t *testing.T) {
	start := func(pidFile string) *recorded.Process {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(pidFile), 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := recorded.Start(recorded.Spec{PIDFile: pidFile, Path: "/bin/sleep", Args: []string{"1000"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Kill() })
		return p
	}
	run, other, data := t.TempDir(), t.TempDir(), t.TempDir()
	machine := start(filepath.Join(run, "vm/pods/p1/qemu.pid"))
	share := start(filepath.Join(run, "vm/pods/p1/virtiofsd.pid"))
	service := start(filepath.Join(data, "agent/vm/vm-runtime.pid"))
	stranger := start(filepath.Join(other, "vm/pods/p1/qemu.pid"))
	// One that has ended, and whose id may be another one's by now.
	old, err := os.ReadFile(filepath.Join(run, "vm/pods/p1/qemu.pid"))
	if err != nil {
		t.Fatal(err)
	}
	reused := filepath.Join(run, "vm/pods/p2/qemu.pid")
	if err := os.MkdirAll(filepath.Dir(reused), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(reused, []byte(strings.Replace(string(old), " ", " 1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	k := &killer{Options: Options{RunDir: run, DataDir: data}, reporter: reporter{out: &out}}
	if err := k.stopMachines(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*recorded.Process{machine, share, service} {
		select {
		case <-p.Done():
		case <-time.After(2 * time.Minute):
			t.Errorf("process %d goes on", p.PID())
		}
	}
	if !stranger.Alive() {
		t.Error("a machine of another a4s was killed")
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("it says:\n%s", out.String())
	}
}
