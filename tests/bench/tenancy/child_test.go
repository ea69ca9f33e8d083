package tenancy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/tests/planes"
)

const (
	// childName is the name under which the test binary is a server.
	childName = "a4s-bench-server"
	address   = planes.Address
	deadline  = planes.Deadline
)

// The servers that a child can be.
const (
	// upstream is what kube-apiserver is made of and nothing else.
	upstream = "upstream"
	// withTenants is a4s, with as few controllers as upstream gets.
	withTenants = "a4s"
	// complete is a4s with everything that it runs.
	complete = "complete"
)

// compaction is how often a complete server has etcd forget the past: every
// A4S_BENCH_COMPACTION seconds (10). Lists of very many tenants take longer than that.
func compaction() time.Duration {
	if seconds, err := strconv.Atoi(os.Getenv("A4S_BENCH_COMPACTION")); err == nil {
		return time.Duration(seconds) * time.Second
	}
	return 10 * time.Second
}

// starting is how long a server may take to start.
const starting = 10 * time.Minute

// fewControllers are those without which no pod can be made.
const fewControllers = "controllers=serviceaccount-controller,root-ca-certificate-publisher-controller," +
	"namespace-controller"

// TestMain lets the test binary be a server.
func TestMain(m *testing.M) {
	if os.Args[0] != childName {
		os.Exit(m.Run())
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve runs a server and answers the commands on its standard input until
// that ends.
func serve(mode, dir string) error {
	if err := planes.Prepare(); err != nil {
		return err
	}
	group := planes.NewGroup()
	defer group.Stop() //nolint:errcheck // the process ends
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	if mode == upstream {
		if err := startUpstream(ctx, group, dir); err != nil {
			return err
		}
	} else if _, err := planes.Run(ctx, group, settings(dir, mode)); err != nil {
		return err
	}
	fmt.Println("ready")
	return answer(os.Stdin, os.Stdout)
}

// answer obeys the benchmark: usage, gc (and usage), idle (and usage), pages, goroutines (and the
// bytes of their stacks), profile FILE, heap FILE, end.
func answer(in io.Reader, out io.Writer) error {
	var profile *os.File
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		command, arg, _ := strings.Cut(lines.Text(), " ")
		var err error
		switch command {
		case "gc":
			debug.FreeOSMemory()
			err = usage(out)
		case "usage":
			err = usage(out)
		case "idle":
			untilIdle()
			debug.FreeOSMemory()
			err = usage(out)
		case "goroutines":
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Fprintln(out, runtime.NumGoroutine(), m.StackInuse, 0) //nolint:errcheck // the benchmark is gone
		case "pages":
			err = pages(out)
		case "profile":
			if profile, err = os.Create(arg); err == nil {
				err = pprof.StartCPUProfile(profile)
			}
			fmt.Fprintln(out, 0, 0, 0) //nolint:errcheck // the benchmark is gone
		case "heap":
			err = writeHeap(arg)
			fmt.Fprintln(out, 0, 0, 0) //nolint:errcheck // as above
		case "accounts":
			err = writeAccounts(arg)
			fmt.Fprintln(out, 0, 0, 0) //nolint:errcheck // as above
		case "end":
			pprof.StopCPUProfile()
			err = profile.Close()
			fmt.Fprintln(out, 0, 0, 0) //nolint:errcheck // as above
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// usage prints the processor time in nanoseconds, the resident size and the
// heap in bytes.
func usage(out io.Writer) error {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, u.Utime.Nano()+u.Stime.Nano(), pages*int64(os.Getpagesize()), m.HeapAlloc)
	return err
}

// untilIdle returns when the server has noticed that it is idle, and collected
// garbage for that reason. It may have done so before it is asked.
func untilIdle() {
	const (
		look   = 50 * time.Millisecond
		atMost = 130 * time.Second // two minutes, of which the second is idle
	)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.NumForcedGC
	for end := time.Now().Add(atMost); time.Now().Before(end); time.Sleep(look) {
		if runtime.ReadMemStats(&m); m.NumForcedGC > before {
			return
		}
	}
}

// pages prints 0 and the resident bytes that are the process' own and those of
// files, which are etcd's and the program's.
func pages(out io.Writer) error {
	own, files, err := resident()
	if err == nil {
		_, err = fmt.Fprintln(out, 0, own, files)
	}
	return err
}

func resident() (own, files int64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		for name, n := range map[string]*int64{"RssAnon": &own, "RssFile": &files} {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				if _, err := fmt.Sscanf(value, "%d kB", n); err != nil {
					return 0, 0, fmt.Errorf("%s: %w", line, err)
				}
			}
		}
	}
	return own << 10, files << 10, nil
}

// writeHeap writes the profiles of the heap and of the goroutines, and where
// else memory is.
func writeHeap(path string) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	err := os.WriteFile(path+".memory",
		fmt.Appendf(nil, "heap %d objects %d in use %d idle %d released %d stacks %d spans %d other %d\n",
			m.HeapAlloc>>10, m.HeapObjects, m.HeapInuse>>10, m.HeapIdle>>10, m.HeapReleased>>10, m.StackInuse>>10,
			m.MSpanInuse>>10, (m.GCSys+m.OtherSys+m.BuckHashSys)>>10), 0o600)
	for suffix, name := range map[string]string{"": "heap", ".goroutines": "goroutine"} {
		err = errors.Join(err, writeProfile(path+suffix, name))
	}
	return err
}

func writeProfile(path, name string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.Lookup(name).WriteTo(f, 0); err != nil {
		return err
	}
	return f.Close()
}

// settings are those of a4s.
func settings(dir, mode string) *config.Server {
	cfg := planes.Settings(dir)
	cfg.TenantDefaultLimits = []string{"objects=none", "pods=none", "definitions=none"} // one tenant has it all
	if mode == complete {
		// What the API server keeps of the past until etcd is compacted, five
		// to ten minutes, is not the memory of idle tenants.
		cfg.KubeAPIServerArgs = []string{"etcd-compaction-interval=" + compaction().String()}
	}
	if mode == withTenants {
		cfg.DisableScheduler = true
		cfg.KubeControllerManagerArgs = []string{fewControllers}
	}
	return cfg
}

// startUpstream starts the API server without anything of a4s in it, on the
// same datastore and with the same settings as a4s.
func startUpstream(ctx context.Context, group *component.Group, dir string) error {
	log := logrus.WithField("component", "upstream")
	f := pki.FilesIn(filepath.Join(dir, "server", "tls"))
	if err := os.MkdirAll(filepath.Dir(f.Dir), 0o700); err != nil {
		return err
	}
	if _, err := pki.Ensure(f.Dir,
		pki.Options{SANs: []string{"localhost", "127.0.0.1", address, "10.43.0.1"}}); err != nil {
		return err
	}
	store, err := etcd.New(etcd.Options{
		Dir:  filepath.Join(dir, "server", "db", "etcd"),
		Name: "upstream", CertFile: f.EtcdServer.Cert, KeyFile: f.EtcdServer.Key, TrustedCAFile: f.EtcdServerCA.Cert,
		PeerCertFile: f.EtcdPeer.Cert, PeerKeyFile: f.EtcdPeer.Key, PeerTrustedCAFile: f.EtcdPeerCA.Cert,
		Zap: logging.Zap(logging.Options{}), Log: log,
	})
	if err != nil {
		return err
	}
	if err := group.StartAndWait(ctx, store.Component()); err != nil {
		return err
	}
	cfg := settings(dir, upstream)
	if err := group.StartAndWait(ctx, apiserver.New(apiserver.Options{
		Port: cfg.HTTPSListenPort, AdvertiseAddress: net.ParseIP(address),
		ServiceCIDR: cfg.ServiceCIDR, ServiceNodePortRange: cfg.ServiceNodePortRange, ClusterDomain: cfg.ClusterDomain,
		Datastore: datastore.Endpoint{URLs: []string{store.ClientURL()}, CAFile: f.EtcdServerCA.Cert,
			CertFile: f.EtcdClient.Cert, KeyFile: f.EtcdClient.Key},
		Files: apiserver.Files{
			ClientCA: f.ClientCA.Cert, ServingCert: f.ServingAPIServer.Cert, ServingKey: f.ServingAPIServer.Key,
			KubeletCA: f.ServerCA.Cert, KubeletClientCert: f.APIServerKubeletClient.Cert,
			KubeletKey:      f.APIServerKubeletClient.Key,
			RequestHeaderCA: f.RequestHeaderCA.Cert, ProxyClientCert: f.AuthProxy.Cert,
			ProxyClientKey:    f.AuthProxy.Key,
			ServiceAccountKey: f.ServiceAccountKey, CertDir: filepath.Join(dir, "server", "tls", "upstream"),
		},
		Log: log,
	})); err != nil {
		return err
	}
	path := filepath.Join(dir, "controller.kubeconfig")
	if err := kubeconfig.Write(kubeconfig.Options{
		Path: path, Server: "https://127.0.0.1:6443", CAFile: f.ServerCA.Cert, CertFile: f.ControllerManager.Cert,
		KeyFile: f.ControllerManager.Key,
	}); err != nil {
		return err
	}
	return group.StartAndWait(ctx, controllers.New(controllers.Options{
		Kubeconfig: path, ClusterCIDR: cfg.ClusterCIDR, ServiceCIDR: cfg.ServiceCIDR,
		ServiceAccountKey: f.ServiceAccountKey, RootCA: f.ServerCA.Cert,
		ClientCACert: f.ClientCA.Cert, ClientCAKey: f.ClientCA.Key, ServerCACert: f.ServerCA.Cert,
		ServerCAKey: f.ServerCA.Key,
		Args:        []string{fewControllers}, Log: log,
	}))
}
