package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 90 * time.Second
	// look is how often a starting side is asked.
	look = 20 * time.Millisecond
	// restartAfter is when a program that ended is started again: systemd's default.
	restartAfter = 100 * time.Millisecond
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
)

// cluster is one side: a control plane and its node on a host.
type cluster struct {
	name string
	host *hosts.Host
	// tls is where the CAs are, as seen from here.
	tls *pki.Files
	// kubeconfig is the administrator's, as seen from here.
	kubeconfig string
	// socket is containerd's, as seen from here.
	socket string
	// launch starts the programs, in an order of its own.
	launch func(ctx context.Context, c *cluster)

	running context.CancelFunc
	kept    sync.WaitGroup
	mu      sync.Mutex
	procs   map[string]*hosts.Process // by name, the latest
	failed  error

	config *rest.Config
	client kubernetes.Interface
}

// newCluster makes a side with nothing in its data directory.
func newCluster(b *testing.B, side string) *cluster {
	b.Helper()
	name := map[string]string{sideA4s: "a4s", sidePlain: "plain", sideUpstream: "upstream", sideAtOnce: "at-once"}[side]
	h, err := env.lab.NewHost(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	c := &cluster{name: side, host: h, procs: map[string]*hosts.Process{}}
	b.Cleanup(func() {
		if b.Failed() {
			for _, path := range h.Logs() {
				b.Logf("%s:\n%s", filepath.Base(path), hosts.LastLines(path, 15))
			}
		}
		c.close()
	})
	switch side {
	case sideA4s, sidePlain:
		err = c.prepareA4s()
	default:
		err = c.prepareUpstream()
	}
	if err != nil {
		b.Fatalf("preparing %s: %v", side, err)
	}
	return c
}

// close ends the side and removes it. Its logs stay if A4S_BENCH_LOGS names a
// directory for them.
func (c *cluster) close() {
	if dir := os.Getenv("A4S_BENCH_LOGS"); dir != "" {
		for _, path := range c.host.Logs() {
			if data, err := os.ReadFile(path); err == nil {
				_ = os.WriteFile(filepath.Join(dir, c.host.Name+"-"+filepath.Base(path)), data, 0o644) // a help, no result
			}
		}
	}
	if c.running != nil {
		c.running()
	}
	c.host.Close()
	c.kept.Wait()
}

// start starts the side and does not wait for it.
func (c *cluster) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.running = cancel
	c.kept.Go(func() { c.launch(ctx, c) })
}

// stop ends all programs, each before those that it needs to end well.
func (c *cluster) stop() error {
	c.running()
	c.mu.Lock()
	procs := c.procs
	c.procs = map[string]*hosts.Process{}
	c.mu.Unlock()
	last := []string{"kube-apiserver", "containerd", "etcd"}
	errs := make(chan error, len(procs))
	end := func(name string) {
		if err := procs[name].Stop(stopTimeout); err != nil {
			errs <- fmt.Errorf("%s: %w", name, err)
		}
	}
	var first sync.WaitGroup
	for name := range procs {
		if !slices.Contains(last, name) {
			first.Go(func() { end(name) })
		}
	}
	first.Wait()
	for _, name := range last {
		if procs[name] != nil {
			end(name)
		}
	}
	c.kept.Wait()
	close(errs)
	c.client = nil
	return <-errs
}

// keep starts a program, and again whenever it ends.
func (c *cluster) keep(ctx context.Context, path string, args ...string) {
	c.kept.Go(func() {
		for ctx.Err() == nil {
			c.mu.Lock()
			p, err := c.host.Start(path, args...)
			if err != nil {
				c.failed = err
				c.mu.Unlock()
				return
			}
			c.procs[filepath.Base(path)] = p
			c.mu.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-p.Done():
			}
			select {
			case <-ctx.Done():
			case <-time.After(restartAfter):
			}
		}
	})
}

// connect makes the client once there are credentials.
func (c *cluster) connect() error {
	content, err := os.ReadFile(c.kubeconfig)
	if err != nil {
		return err
	}
	if c.config, err = clientcmd.RESTConfigFromKubeConfig(content); err != nil {
		return err
	}
	c.config.Host = "https://" + net.JoinHostPort(c.host.IP.String(), "6443")
	c.config.QPS = -1
	short := rest.CopyConfig(c.config)
	short.Timeout = 5 * time.Second
	c.client, err = kubernetes.NewForConfig(short)
	return err
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
	c.mu.Lock()
	failed := c.failed
	c.mu.Unlock()
	if failed != nil {
		return failed
	}
	if c.client == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	if s.api == 0 {
		if err := c.apiReady(ctx); err != nil {
			return err
		}
		s.api = time.Since(began)
	}
	node, err := c.client.CoreV1().Nodes().Get(ctx, c.host.Name, metav1.GetOptions{})
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

func (c *cluster) apiReady(ctx context.Context) error {
	return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
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
	node, err := c.client.CoreV1().Nodes().Get(b.Context(), c.host.Name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return readySince(node)
}
