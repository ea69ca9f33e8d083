package hostprep

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// W12: limits that all pods of a machine share are raised, never lowered, and left
// alone on request.
func TestWallW12KernelLimits(t *testing.T) {
	before := map[string]string{
		"kernel/random/boot_id": "b", "net/ipv4/ip_forward": "1",
		"net/bridge/bridge-nf-call-iptables": "1", "net/bridge/bridge-nf-call-ip6tables": "1",
		"fs/aio-max-nr": "65536", "fs/inotify/max_user_instances": "128", "kernel/pty/max": "4096",
		"vm/max_map_count":        "2000000", // more than a4s asks for
		"fs/pipe-user-pages-soft": "0",       // no limit
		"kernel/keys/maxkeys":     "200",
	}
	tr := newTree(t, before)
	log, lines := logtest.NewNullLogger()
	o := Options{RecordFile: filepath.Join(t.TempDir(), RecordName), ProcSys: tr.dir, Log: logrus.NewEntry(log)}

	o.LeaveLimits = true
	if err := Prepare(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for key, value := range before {
		if got := tr.get(key); got != value {
			t.Errorf("%s = %s although limits are to be left alone", key, got)
		}
	}

	o.LeaveLimits = false
	for range 2 { // the second time changes nothing
		if err := Prepare(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{
		"fs/aio-max-nr": "1073741824", "fs/inotify/max_user_instances": "16777216", "kernel/pty/max": "1048576",
		"vm/max_map_count": "2000000", "fs/pipe-user-pages-soft": "0", "kernel/keys/maxkeys": "10000",
	} {
		if got := tr.get(key); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
	raised := 0
	for _, e := range lines.AllEntries() {
		if strings.Contains(e.Message, "fs.aio-max-nr=1073741824 (was 65536)") {
			raised++
		}
		if e.Level < logrus.InfoLevel {
			t.Errorf("%s: %s", e.Level, e.Message)
		}
	}
	if raised != 1 {
		t.Errorf("the log says %d times that a limit was raised", raised)
	}

	tr.set("fs/inotify/max_user_instances", "33554432") // an administrator's, later
	if _, err := Restore(o); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"fs/aio-max-nr": "65536", "fs/inotify/max_user_instances": "33554432"} {
		if got := tr.get(key); got != want {
			t.Errorf("after the cleanup %s = %s, want %s", key, got, want)
		}
	}
}

// In a container /proc/sys is read-only: the node goes on.
func TestLimitsThatCannotBeRaised(t *testing.T) {
	tr := newTree(t, map[string]string{"kernel/random/boot_id": "b", "net/ipv4/ip_forward": "1",
		"fs/aio-max-nr/no-file": ""})
	log, lines := logtest.NewNullLogger()
	o := Options{RecordFile: filepath.Join(t.TempDir(), RecordName), ProcSys: tr.dir, Log: logrus.NewEntry(log)}
	if err := Prepare(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	last := lines.LastEntry()
	if last == nil || last.Level != logrus.InfoLevel ||
		!strings.Contains(last.Message, "fs.aio-max-nr to 1073741824") {
		t.Errorf("the last line is %+v", last)
	}
}

// Whatever is raised is recorded first, so that it can be put back.
func TestLimitsAreRecorded(t *testing.T) {
	recorded := strings.Join(changed, " ")
	for _, l := range limits {
		if !strings.Contains(recorded, l.key) {
			t.Errorf("%s is raised and not recorded", l.key)
		}
	}
}
