package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// deadline bounds every wait. What is waited for takes seconds at most, on a
// machine that does nothing else.
const deadline = 4 * time.Minute

// Every tenant is searched for the name of the other one, so neither may be a
// word that occurs by itself.
var (
	acme   = &space{name: "acme"}
	globex = &space{name: "globex"}
)

// space is a tenant, as its administrator has access to it.
type space struct {
	name string
	// prefixed is a kubeconfig whose server is that of the tenant, byIdentity
	// one of the plain server, which takes the tenant from the certificate.
	prefixed, byIdentity string
}

// config makes the settings of a client.
func (s *space) config(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

// client is a plain client for what a test has to prepare or look at.
func (s *space) client(t testing.TB) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.config(t, s.prefixed))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// server is the running a4s.
type server struct {
	cmd                *exec.Cmd
	binary, admin, log string
	done               chan struct{}
}

// adminKubeconfig is that of the administrator of the cluster.
func adminKubeconfig() string { return filepath.Join(memory, "admin.yaml") }

func startServer(binary string) (_ *server, err error) {
	started := time.Now()
	s := &server{binary: binary, admin: adminKubeconfig(), log: filepath.Join(memory, "server.log"),
		done: make(chan struct{})}
	// An empty file, as the machine may have settings of its own.
	settings := filepath.Join(memory, "config.yaml")
	if err := os.WriteFile(settings, nil, 0o600); err != nil {
		return nil, err
	}
	out, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer out.Close() //nolint:errcheck // the server has its own descriptor
	s.cmd = exec.Command(binary, "server", "--disable-agent", "--config", settings,
		"--data-dir", filepath.Join(memory, "data"),
		"--write-kubeconfig", s.admin, "--node-ip", addressHere)
	s.cmd.Env = []string{"HOME=" + memory, "PATH=" + os.Getenv("PATH")}
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // its log says more
		close(s.done)
	}()
	defer func() {
		if err != nil {
			s.kill()
			err = fmt.Errorf("starting %s: %w\n%s", binary, err, s.lastLines())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	for {
		err := s.ready(ctx)
		if err == nil {
			fmt.Printf("started the server in %s\n", time.Since(started).Round(100*time.Millisecond))
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-s.done:
			return nil, errors.New("it ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *server) ready(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", s.admin)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-s.done
}

func (s *server) lastLines() string {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// makeTenants makes the tenants as an administrator does.
func (s *server) makeTenants() error {
	for _, tenant := range []*space{acme, globex} {
		started := time.Now()
		tenant.prefixed = filepath.Join(memory, tenant.name+"-prefixed.yaml")
		create := exec.Command(s.binary, "tenant", "create", tenant.name, "--output", tenant.prefixed,
			"--kubeconfig", s.admin)
		create.Env = s.cmd.Env
		if out, err := create.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", create, err, out)
		}
		// The manifests have volumes of the network.
		allow := exec.Command(s.binary, "kubectl", "--kubeconfig", s.admin, "annotate", "tenant", tenant.name,
			"a4s.io/volume-types=nfs")
		allow.Env = s.cmd.Env
		if out, err := allow.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", allow, err, out)
		}
		if err := tenant.splitKubeconfig(); err != nil {
			return err
		}
		fmt.Printf("made tenant %s in %s\n", tenant.name, time.Since(started).Round(100*time.Millisecond))
	}
	return nil
}

// splitKubeconfig makes the second kubeconfig of the tenant from the first.
func (s *space) splitKubeconfig() error {
	cfg, err := clientcmd.LoadFromFile(s.prefixed)
	if err != nil {
		return err
	}
	prefix := "/tenants/" + s.name
	for _, cluster := range cfg.Clusters {
		plain, found := strings.CutSuffix(cluster.Server, prefix)
		if !found {
			return fmt.Errorf("%s: the server is %s, without %s at the end", s.prefixed, cluster.Server, prefix)
		}
		cluster.Server = plain
	}
	s.byIdentity = filepath.Join(memory, s.name+"-by-identity.yaml")
	return clientcmd.WriteToFile(*cfg, s.byIdentity)
}

// eventually waits until check returns nil.
func eventually(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	last := check(ctx)
	for last != nil {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, last)
		case <-time.After(100 * time.Millisecond):
		}
		if err := check(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
	}
}

// keepRunning runs a program until the test ends. What it has said in a file is shown if the test fails.
func keepRunning(t *testing.T, name string, cmd *exec.Cmd, file string) {
	t.Helper()
	said, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = said.Close()
		if data, err := os.ReadFile(file); err == nil && t.Failed() {
			t.Logf("%s says:\n%s", name, data[max(0, len(data)-6000):])
		}
	})
}
