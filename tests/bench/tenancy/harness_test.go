package tenancy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/planes"
	"github.com/a4s-io/a4s/tests/process"
)

// child is a running server.
type child struct {
	stop  func() // and wait for it to end
	mode  string
	files *pki.Files
	ns    netns.NsHandle
	admin *rest.Config

	connect       sync.Once
	asAdmin, asNo *http.Client

	mu  sync.Mutex // the commands come one after the other
	in  io.Writer
	out *bufio.Reader
}

// startChild runs a server until the benchmark ends. Its log goes to a file
// that A4S_BENCH_LOGS names the directory of.
func startChild(b *testing.B, mode string) *child {
	b.Helper()
	return startChildIn(b, mode, b.TempDir())
}

// startChildIn starts a server that has its data in dir.
func startChildIn(b *testing.B, mode, dir string) *child {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("needs root: the servers get network namespaces of their own")
	}
	cmd := exec.Cmd{
		Path: "/proc/self/exe", Args: []string{childName, mode, dir},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET},
	}
	if logs := os.Getenv("A4S_BENCH_LOGS"); logs != "" {
		f, err := os.Create(filepath.Join(logs, mode+".log"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // the server has its own
		cmd.Stderr = f
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	wait, err := process.Start(&cmd)
	if err != nil {
		b.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		in.Close() //nolint:errcheck // that is the sign to stop
		if err := wait(); err != nil {
			b.Errorf("the server %s: %v", mode, err)
		}
	})
	b.Cleanup(stop)
	c := &child{stop: stop, mode: mode, files: pki.FilesIn(filepath.Join(dir, "server", "tls")), in: in,
		out: bufio.NewReader(out)}
	if line, err := c.out.ReadString('\n'); err != nil || line != "ready\n" {
		b.Fatalf("the server %s said %q: %v", mode, line, err)
	}
	if c.ns, err = netns.GetFromPid(cmd.Process.Pid); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.ns.Close() }) //nolint:errcheck // it is not used any more
	c.admin = c.config(b, rest.TLSClientConfig{CertFile: c.files.Admin.Cert, KeyFile: c.files.Admin.Key})
	return c
}

// command sends a command and returns its answer: processor time, resident
// size, heap.
func (c *child) command(b *testing.B, command string) (cpu time.Duration, rss, heap int64) {
	b.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintln(c.in, command); err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fscanln(c.out, &cpu, &rss, &heap); err != nil {
		b.Fatalf("%s: the answer to %s: %v", c.mode, command, err)
	}
	return cpu, rss, heap
}

// profiled profiles the server while f runs, if A4S_BENCH_PROFILE names a
// directory.
func (c *child) profiled(b *testing.B, name string, f func()) {
	b.Helper()
	dir := profiles()
	if dir == "" {
		f()
		return
	}
	c.command(b, "profile "+filepath.Join(dir, name+".pprof"))
	f()
	c.command(b, "end")
}

func (c *child) config(b *testing.B, identity rest.TLSClientConfig) *rest.Config {
	b.Helper()
	identity.CAFile = c.files.ServerCA.Cert
	return &rest.Config{Host: "https://127.0.0.1:6443", QPS: -1, TLSClientConfig: identity, Dial: c.dial}
}

// dial connects to an address in the network of the server.
func (c *child) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	runtime.LockOSThread()
	here, err := netns.Get()
	if err != nil {
		return nil, err
	}
	defer here.Close() //nolint:errcheck // nothing waits on it
	if err := netns.Set(c.ns); err != nil {
		return nil, err
	}
	// One address: the socket is made by this goroutine.
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if e := netns.Set(here); e != nil {
		return nil, e // the thread stays locked and ends with the goroutine
	}
	runtime.UnlockOSThread()
	return conn, err
}

// user is a client configuration with a certificate of these organizations.
func (c *child) user(b *testing.B, name string, organizations ...string) *rest.Config {
	b.Helper()
	return c.config(b, planes.Certificate(b, c.files, name, organizations, nil))
}

// clusterAdmin is a user of the system who may do everything because a role
// says so, as the administrator of a tenant: group system:masters is not asked
// for roles.
func (c *child) clusterAdmin(b *testing.B) *rest.Config {
	b.Helper()
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		b.Fatal(err)
	}
	const name = "bench"
	if _, err := client.RbacV1().ClusterRoleBindings().Create(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	cfg := c.user(b, name)
	planes.AwaitAccount(b, cfg, "default")
	return cfg
}

// tenants is a client of the Tenant API.
func (c *child) tenants(b *testing.B) *tenantapi.Client {
	b.Helper()
	client, err := tenantapi.NewClient(c.admin, nil)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// tenant makes a tenant that has an administrator and returns their access.
func (c *child) tenant(b *testing.B, name string) *rest.Config {
	b.Helper()
	planes.CreateTenant(b, c.admin, name)
	user, organizations := planes.AdminOf(name)
	cfg := c.user(b, user, organizations...)
	planes.AwaitAccount(b, cfg, "default")
	return cfg
}

// clients are one of the administrator and one without an identity.
func (c *child) clients(b *testing.B) (admin, anyone *http.Client) {
	c.connect.Do(func() {
		c.asAdmin, c.asNo = httpClient(b, c.admin), httpClient(b, c.config(b, rest.TLSClientConfig{}))
	})
	return c.asAdmin, c.asNo
}

// httpClient is a client over one HTTP/2 connection, as client-go has it.
func httpClient(b *testing.B, cfg *rest.Config) *http.Client {
	b.Helper()
	secure, err := rest.TLSConfigFor(cfg)
	if err != nil {
		b.Fatal(err)
	}
	t := &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true, DialContext: cfg.Dial,
		DisableCompression: true}
	b.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}
