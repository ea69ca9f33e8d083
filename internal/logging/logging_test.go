package logging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/a4s-io/a4s/internal/problem"
)

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// TestOneFormat is one test because Setup configures the whole process.
func TestOneFormat(t *testing.T) {
	var out syncBuffer
	setup := func(o Options) *Log {
		o.Output = &out
		l, err := Setup(o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}

	first := setup(Options{})
	klog.InfoS("upstream chatter")
	klog.ErrorS(fmt.Errorf("watch: %w", context.Canceled), "chatter of a stop")
	klog.Error("The manifest file is empty, ignoring. Chatter of a start")
	klog.Errorf("failed to sync with latest state: %v", fmt.Errorf("%w: chatter", context.Canceled))
	second := fmt.Errorf("failed to patch node CIDR: chatter: %s, requeuing", secondRange)
	klog.ErrorS(second, "Error processing node work item")
	klog.ErrorS(errors.New(secondRange), "a hook said")
	klog.ErrorS(fmt.Errorf("chatter: read version: 1 %s 2", staleCache), "Unhandled Error")
	klog.ErrorS(errors.New("the ClusterIP [IPv4]: chatter for Service default/kubernetes is not allocated; repairing"),
		"Unhandled Error")
	klog.ErrorS(errors.New("forbidden: chatter: no relationship found between node 'n' and this object"),
		"Failed to get status for pod")
	klog.ErrorS(errors.New("the ClusterIP [IPv4]: x for Service a/b is not allocated; repairing"), "Unhandled Error")
	klog.Errorf("Failed to initialize CSINode: %v", errors.New("chatter"))
	klog.ErrorS(errors.New("boom"), "upstream error", "pod", klog.KRef("ns", "p"))
	Zap(Options{}).Warn("etcd warning", zap.String("k", "v"))
	Zap(Options{}).Info("etcd chatter")
	const young = "missing term information"
	Zap(Options{}).Warn("Failed to detect schema version", zap.Error(errors.New(young)), zap.String("k", "chatter"))
	Zap(Options{}).Error("failed to update storage version", zap.String("k", "chatter"),
		zap.Error(fmt.Errorf("cannot detect storage schema version: %s", young)))
	Zap(Options{}).Error("failed to update storage version", zap.Error(errors.New("no room")))
	first.Stopping()
	klog.Error("lost the others: chatter")
	got := out.String()
	for _, want := range []string{
		`level=error msg="upstream error" error=boom pod=ns/p`,
		`level=warning msg="etcd warning" component=etcd k=v`,
		`level=error msg="failed to update storage version" component=etcd error="no room"`,
		`level=error msg="a hook said"`,
		`for Service a/b is not allocated`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("log lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(strings.ToLower(got), "chatter") {
		t.Errorf("informational upstream lines are shown by default:\n%s", got)
	}

	setup(Options{Verbosity: 2})
	klog.V(2).InfoS("second level")
	klog.V(3).InfoS("third level")
	log.Print("from the standard logger")
	got = out.String()
	for _, want := range []string{`level=info msg="second level"`, `level=debug msg="from the standard logger"`} {
		if !strings.Contains(got, want) {
			t.Errorf("log lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "third level") {
		t.Errorf("-v 2 shows level 3:\n%s", got)
	}
}

func TestUnwritableLogFileNamesTheFlag(t *testing.T) {
	_, err := Setup(Options{File: filepath.Join(t.TempDir(), "no", "such", "dir.log")})
	var in *problem.Input
	if !errors.As(err, &in) || in.Source != "--log" {
		t.Fatalf("Setup = %v, want a problem.Input for --log", err)
	}
}

func TestUpstreamExitEndsOnlyItsGoroutine(t *testing.T) {
	if _, err := Setup(Options{Output: &syncBuffer{}}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		t.Error("FlushAndExit returned")
	}()
	<-done
}

// counted says how often it was formatted.
type counted struct{ times int }

func (c *counted) String() string {
	c.times++
	return "formatted"
}

func TestValuesAreFormattedWhenPrinted(t *testing.T) {
	var out bytes.Buffer
	if _, err := Setup(Options{Output: &out}); err != nil {
		t.Fatal(err)
	}
	value := &counted{}
	logger := klog.LoggerWithValues(klog.LoggerWithName(klog.Background(), "one"), "value", value)
	logger = klog.LoggerWithName(logger, "two")
	logger.V(4).Info("not printed")
	if value.times != 0 {
		t.Errorf("a value was formatted %d times, and nothing was printed", value.times)
	}
	logger.Error(nil, "printed", "more", 1)
	for _, want := range []string{"msg=printed", "logger=one.two", "value=formatted", "more=1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
}
