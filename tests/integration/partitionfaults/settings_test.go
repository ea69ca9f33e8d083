package partitionfaults_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAServerForgetsItsRanges: a server of a partition that starts again without the ranges of the partition is
// refused, also while home is away, and starts with them.
func TestAServerForgetsItsRanges(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	home := n.home(t)
	tp := n.begin(t, home, "tp2", 0, "--tenant-partition", "tp2", "--service-node-port-range", "28000-29999")
	home.kill()
	tp.kill()
	whole := slices.Clone(tp.args)
	refused := func(what string, flags ...string) {
		t.Helper()
		tp.args = nil
		for i := 0; i < len(whole); i++ {
			if slices.Contains(flags, whole[i]) {
				i++
				continue
			}
			tp.args = append(tp.args, whole[i])
		}
		tp.start(t)
		select {
		case <-tp.ended:
		case <-time.After(startTimeout):
			t.Fatalf("%s: the server runs", what)
		}
		log, err := os.ReadFile(tp.log(tp.starts))
		must(t, err)
		for _, flag := range flags {
			if want := flag + ": it is not given, which makes it"; !strings.Contains(string(log), want) {
				t.Errorf("%s: no %q in\n%s", what, want, log)
			}
		}
	}
	refused("without node ports", "--service-node-port-range")
	refused("without all of them", "--service-node-port-range", "--service-cidr", "--cluster-cidr")
	tp.args = whole
	tp.start(t)
	tp.ready(t)
}
