package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func scoreOf(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// TestWallW16MachinesScore: what a runtime starts has a score of its own, not that of
// the runtime, which is the node's when the kubelet lowered it before. Nor have its
// children.
func TestWallW16MachinesScore(t *testing.T) {
	const own = "/proc/self/oom_score_adj"
	was := scoreOf(t, os.Getpid())
	t.Cleanup(func() {
		if err := os.WriteFile(own, []byte(was), 0o600); err != nil {
			t.Error(err)
		}
	})
	// That of a node, or another one where nobody may lower it.
	node := "-999"
	if err := os.WriteFile(own, []byte(node), 0o600); err != nil {
		node = "7"
		if err := os.WriteFile(own, []byte(node), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, s := start(t, `sleep 100 & echo up; wait`)
	if score := scoreOf(t, p.PID()); score == node {
		t.Errorf("what was started has the score %s of the node", score)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if log, _ := os.ReadFile(s.Log); strings.Contains(string(log),
			"up") { //nolint:errcheck // it may be there later
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	// As the kubelet says for a pod without requests, after the runtime has come back.
	again, err := Open(s.PIDFile)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close() //nolint:errcheck // it was only looked at
	if err := again.SetOOMScore(1000); err != nil {
		t.Fatal(err)
	}
	started, err := children(p.PID())
	if err != nil || len(started) != 1 {
		t.Fatalf("children %v, %v", started, err)
	}
	for _, pid := range append(started, p.PID()) {
		if score := scoreOf(t, pid); score != "1000" {
			t.Errorf("process %d of the machine has the score %s", pid, score)
		}
	}
}
