package sides

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	stopTimeout = 90 * time.Second
	// requestTimeout bounds the requests of a side's own client.
	requestTimeout = 5 * time.Second
	// look is how often a starting side is asked.
	look = 20 * time.Millisecond
	// restartAfter is when a program that ended is started again: systemd's default.
	restartAfter = 100 * time.Millisecond
)

// Maker makes the sides of a benchmark.
type Maker struct {
	Lab *hosts.Lab
	// Binary is a4s, Programs the directory of upstream's.
	Binary, Programs string
	// Carried are the programs that a node of upstream has from a4s. Without
	// them upstream's sides are control planes without a node.
	Carried *payload.Payload
}

// Side is one cluster: a control plane, with or without a node, on a host.
type Side struct {
	Host *hosts.Host
	// TLS is where the CAs are, as seen from here.
	TLS *pki.Files
	// Kubeconfig is the administrator's, as seen from here.
	Kubeconfig string
	// Socket is containerd's, as seen from here.
	Socket string
	// Config and Client are those of an administrator, after Connect.
	Config *rest.Config
	Client kubernetes.Interface

	// launch starts the programs, in an order of its own.
	launch func(ctx context.Context, s *Side)
	args   []string // of a4s
	own    string   // the directory of its copy of the binary, "" for none

	running context.CancelFunc
	kept    sync.WaitGroup
	mu      sync.Mutex
	procs   map[string]*hosts.Process // by name, the latest
	failed  error
}

// newSide makes a side on a host with nothing in its data directory.
func (m *Maker) newSide(ctx context.Context, name string, prepare func(s *Side) error) (*Side, error) {
	h, err := m.Lab.NewHost(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &Side{Host: h, procs: map[string]*hosts.Process{}}
	if err := prepare(s); err != nil {
		s.Close()
		return nil, fmt.Errorf("preparing %s: %w", name, err)
	}
	return s, nil
}

// Close ends the side and removes it. Its logs stay if A4S_BENCH_LOGS names a
// directory for them.
func (s *Side) Close() {
	if dir := os.Getenv("A4S_BENCH_LOGS"); dir != "" {
		for _, path := range s.Host.Logs() {
			if data, err := os.ReadFile(path); err == nil {
				name := s.Host.Name + "-" + filepath.Base(path)
				_ = os.WriteFile(filepath.Join(dir, name), data, 0o644) // a help, no result
			}
		}
	}
	if s.running != nil {
		s.running()
	}
	s.Host.Close()
	s.kept.Wait()
	if s.own != "" {
		_ = os.RemoveAll(s.own) // the lab removes what is left
	}
}

// Start starts the side and does not wait for it.
func (s *Side) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.running = cancel
	s.kept.Go(func() { s.launch(ctx, s) })
}

// Stop ends all programs, each before those that it needs to end well.
func (s *Side) Stop() error {
	s.running()
	s.mu.Lock()
	procs := s.procs
	s.procs = map[string]*hosts.Process{}
	s.mu.Unlock()
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
	s.kept.Wait()
	close(errs)
	s.Client = nil
	return <-errs
}

// Failed is why a program could not be started.
func (s *Side) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// keep starts a program, and again whenever it ends.
func (s *Side) keep(ctx context.Context, path string, args ...string) {
	s.kept.Go(func() {
		for ctx.Err() == nil {
			s.mu.Lock()
			p, err := s.Host.Start(path, args...)
			if err != nil {
				s.failed = err
				s.mu.Unlock()
				return
			}
			s.procs[filepath.Base(path)] = p
			s.mu.Unlock()
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

// Connect makes the client once there are credentials.
func (s *Side) Connect() (err error) {
	s.Config, s.Client, err = s.connect()
	return err
}

func (s *Side) connect() (*rest.Config, kubernetes.Interface, error) {
	content, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, nil, err
	}
	config.Host = "https://" + net.JoinHostPort(s.Host.IP.String(), "6443")
	config.QPS = -1
	short := rest.CopyConfig(config)
	short.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(short)
	return config, client, err
}

// Ready says why the API is not ready.
func (s *Side) Ready(ctx context.Context) error { return ready(ctx, s.Client) }

func ready(ctx context.Context, client kubernetes.Interface) error {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// AwaitReady returns when the API is ready, and connects.
func (s *Side) AwaitReady(ctx context.Context) error {
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	return s.Connect()
}

// awaitReady has a client of its own, since who starts the programs and who
// waits for them are two.
func (s *Side) awaitReady(ctx context.Context) error {
	for {
		_, client, err := s.connect()
		if err == nil {
			err = ready(ctx, client)
		}
		if err == nil {
			return nil
		}
		if failed := s.Failed(); failed != nil {
			return failed
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API: %w: %w", ctx.Err(), err)
		case <-time.After(look):
		}
	}
}
