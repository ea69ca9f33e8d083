package upstream

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	startTimeout = 2 * time.Minute
	// look is how often a starting side is asked.
	look = 20 * time.Millisecond
)

// The sides.
const (
	// sideA4s is a4s as it comes.
	sideA4s = "a4s"
	// sidePlain is a4s without what the seven programs do not do.
	sidePlain = "a4s, plain"
	// sideUpstream are the seven programs.
	sideUpstream = "upstream"
	// sideAtOnce is upstream with all programs started at the same time.
	sideAtOnce = "upstream, at once"
	// sideAgain is upstream at another turn.
	sideAgain = "upstream again"
	// sideBase is another a4s, as sidePlain, in place of upstream.
	sideBase      = "base"
	sideBaseAgain = "base again"
)

// compared are the sides of a benchmark, of which the first one is what the others are
// compared with.
func compared(others ...string) []string {
	if env.base != "" {
		return []string{sideBase, sidePlain}
	}
	return append([]string{sideUpstream}, others...)
}

// cluster is one side, under the name of its results.
type cluster struct {
	*sides.Side
	name string
}

// newCluster makes a side with nothing in its data directory.
func newCluster(b *testing.B, side string) *cluster {
	b.Helper()
	maker := &sides.Maker{Lab: env.lab, Binary: env.binary, Programs: env.programs, Carried: env.carried}
	var s *sides.Side
	var err error
	switch side {
	case sideA4s:
		s, err = maker.A4s(b.Context(), "a4s")
	case sidePlain:
		s, err = maker.A4s(b.Context(), "plain", sides.PlainA4s()...)
	case sideBase:
		maker.Binary = env.base
		s, err = maker.A4s(b.Context(), "base", sides.PlainA4s()...)
	case sideAtOnce:
		s, err = maker.Upstream(b.Context(), "at-once", sides.UpstreamOptions{AtOnce: true})
	default:
		s, err = maker.Upstream(b.Context(), "upstream", sides.UpstreamOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if b.Failed() {
			for _, path := range s.Host.Logs() {
				b.Logf("%s:\n%s", filepath.Base(path), hosts.LastLines(path, 15))
			}
		}
		s.Close()
	})
	return &cluster{Side: s, name: side}
}

// started is how far a side has come how long after its start.
type started struct{ api, ready, schedulable time.Duration }

// awaitNode waits until the node is ready and takes pods. It has to have said
// so later than heard.
func (c *cluster) awaitNode(b *testing.B, heard time.Time) started {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), startTimeout)
	defer cancel()
	began := time.Now()
	var s started
	for {
		last := c.advance(ctx, heard, &s, began)
		if last == nil {
			return s
		}
		select {
		case <-ctx.Done():
			b.Fatalf("%s: %v", c.name, last)
		case <-time.After(look):
		}
	}
}

func (c *cluster) advance(ctx context.Context, heard time.Time, s *started, began time.Time) error {
	if err := c.Failed(); err != nil {
		return err
	}
	if c.Client == nil {
		if err := c.Connect(); err != nil {
			return err
		}
	}
	if s.api == 0 {
		if err := c.Ready(ctx); err != nil {
			return err
		}
		s.api = time.Since(began)
	}
	node, err := c.Client.CoreV1().Nodes().Get(ctx, c.Host.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	at := readySince(node)
	if !at.After(heard) {
		return errors.New("the node is not ready")
	}
	if s.ready == 0 {
		s.ready = time.Since(began)
	}
	for _, taint := range node.Spec.Taints {
		return fmt.Errorf("the node has the taint %s", taint.Key)
	}
	s.schedulable = time.Since(began)
	return nil
}

// readySince returns when the node said last that it is ready.
func readySince(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return condition.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

// heard returns when the node said last that it is ready.
func (c *cluster) heard(b *testing.B) time.Time {
	b.Helper()
	node, err := c.Client.CoreV1().Nodes().Get(b.Context(), c.Host.Name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return readySince(node)
}
