package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/sizes"
)

// endsWithin is how long a4s has to end, whatever it does.
const endsWithin = 10 * time.Second

// A server ends soon after it is told to, at any moment of its start.
func TestStopAtAnyMomentOfAStart(t *testing.T) {
	t.Parallel()
	times := sizes.Of(t, "A4S_TERMS", 6)
	c, err := newServer(newHost(t, "stopped"))
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	c.waitOwnNode(t)
	took := time.Since(c.started)
	stopSoon(t, &c.node, "when it runs")
	for range times {
		// Spread over the start, and a little after it.
		moment := rand.N(took + took/4)
		if err := c.start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(moment): // the moment is what is tested
		case <-c.proc.Done():
			t.Fatalf("a4s ended by itself:\n%s", hosts.LastLines(c.proc.Log, 50))
		}
		stopSoon(t, &c.node, "after "+moment.String())
	}
}

// So does one whose datastore is away: one of two members has no majority.
func TestStopWithoutTheDatastore(t *testing.T) {
	t.Parallel()
	first := ownCluster(t, "member-a", "--cluster-init")
	first.waitOwnNode(t)
	second := joinServer(t, "member-b", first)
	second.waitOwnNode(t)
	stopSoon(t, &second.node, "with a majority")
	// It runs, and has lost the majority.
	stopSoon(t, &first.node, "without a majority")
	if err := first.start(); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, startTimeout, "the server waits for its datastore", func(context.Context) error {
		if !first.proc.Running() {
			t.Fatalf("a4s ended by itself:\n%s", hosts.LastLines(first.proc.Log, 50))
		}
		if said := first.a4s(t, "doctor").Stdout; !strings.Contains(said, "runs as node") {
			return fmt.Errorf("doctor says %s", said)
		}
		return nil
	})
	stopSoon(t, &first.node, "while it waits for a majority")
}

func stopSoon(t *testing.T, n *node, when string) {
	t.Helper()
	began := time.Now()
	if err := n.proc.Stop(time.Minute); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if took := time.Since(began); took > endsWithin {
		t.Errorf("the stop %s took %s:\n%s", when, took, hosts.LastLines(n.proc.Log, 40))
	}
	code, err := n.proc.ExitCode(time.Second)
	if code < 0 && hosts.LastLines(n.proc.Log, 1) == "" {
		return // the signal came before the program took it, and ended it as it ends any
	}
	if err != nil || code != 0 {
		t.Errorf("the stop %s ended with %d, %v:\n%s", when, code, err, hosts.LastLines(n.proc.Log, 20))
	}
}
