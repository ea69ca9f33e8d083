package proxy

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/agent/cluster/clientfile"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/nstest"
)

func TestArguments(t *testing.T) {
	o := Options{
		KubeconfigPath: "/x/kubeconfig", NodeName: "n1", ClusterCIDR: "10.42.0.0/16",
		Args: []string{"conntrack-min=7", "--nodeport-addresses=192.0.2.0/24"},
	}
	_, fs, err := o.options(netfilter.Iptables)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"proxy-mode": "iptables", "kubeconfig": "/x/kubeconfig", "hostname-override": "n1",
		"cluster-cidr": "10.42.0.0/16", "detect-local-mode": "ClusterCIDR",
		"conntrack-max-per-core": "0", "conntrack-min": "7",
		"conntrack-tcp-timeout-established": "0s", "conntrack-tcp-timeout-close-wait": "0s",
		"healthz-bind-address": "127.0.0.1:10256", "metrics-bind-address": "127.0.0.1:10249",
		"nodeport-addresses": "[192.0.2.0/24]",
	} {
		if got := fs.Lookup(name).Value.String(); got != want {
			t.Errorf("--%s = %q, want %q", name, got, want)
		}
	}
}

func TestBadArgumentsAreInput(t *testing.T) {
	for _, arg := range []string{
		"no-such-flag=1", "healthz-bind-address=192.0.2.1", "conntrack-min=many", "cleanup=true", "config=/etc/x",
		"write-config-to=/x", "write_config_to=/x", "init_only=true", "feature_gates=Unknown=true",
		"init-only=true", "v=9", "detect-local-mode=NodeCIDR", "profiling", "feature-gates=Unknown=true",
		"nodeport-addresses=here", "proxy-mode=other", "metrics-bind-address=192.0.2.1:0",
	} {
		_, err := Options{ClusterCIDR: "10.42.0.0/16", Args: []string{arg}}.Ports()
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != argFlag || in.Want == "" {
			t.Errorf("Ports with %s = %v", arg, err)
		}
	}
}

func TestPortsAreThoseOfTheArguments(t *testing.T) {
	for args, want := range map[string]int{
		"": 2, "healthz-bind-address=": 1, "metrics-bind-address=192.0.2.1:10249": 2,
		"healthz-bind-address=192.0.2.1:11256": 2,
	} {
		o := Options{ClusterCIDR: "10.42.0.0/16"}
		if args != "" {
			o.Args = []string{args}
		}
		ports, err := o.Ports()
		if err != nil || len(ports) != want {
			t.Fatalf("%q: %v, %v, want %d", args, ports, err, want)
		}
		if strings.Contains(args, "11256") && !slices.ContainsFunc(ports,
			func(p preflight.Port) bool { return p.Address == "192.0.2.1" && p.Port == 11256 }) {
			t.Errorf("%q: %v", args, ports)
		}
	}
}

// apiServer answers kube-proxy's lists with one service of one endpoint.
func apiServer(t *testing.T, provider *api.AuthProviderConfig) string {
	list := func(kind, version, items string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`,
			kind, version, items)
	}
	answers := map[string]string{
		"/api/v1/nodes": list("NodeList", "v1", `{"metadata":{"name":"n1","uid":"u"},`+
			`"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`),
		"/api/v1/services": list("ServiceList", "v1", `{"metadata":{"name":"web","namespace":"default"},`+
			`"spec":{"clusterIP":"10.43.0.77","clusterIPs":["10.43.0.77"],"ipFamilies":["IPv4"],`+
			`"type":"ClusterIP","ports":[{"name":"http","protocol":"TCP","port":80}]}}`),
		"/apis/discovery.k8s.io/v1/endpointslices": list("EndpointSliceList", "discovery.k8s.io/v1",
			`{"metadata":{"name":"web-1","namespace":"default","labels":{"kubernetes.io/service-name":"web"}},`+
				`"addressType":"IPv4","ports":[{"name":"http","protocol":"TCP","port":8080}],`+
				`"endpoints":[{"addresses":["10.42.0.9"],"conditions":{"ready":true}}]}`),
		"/apis/networking.k8s.io/v1/servicecidrs": list("ServiceCIDRList", "networking.k8s.io/v1", ""),
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, known := answers[r.URL.Path]
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // sends clients to plain lists
			_, _ = fmt.Fprint(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case !known:
			http.NotFound(w, r)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = fmt.Fprint(w, body)
		}
	}))
	dir := t.TempDir()
	file := kubeconfig.Options{Path: filepath.Join(dir, "kubeconfig"), Server: s.URL,
		CAFile: filepath.Join(dir, "ca.crt"), AuthProvider: provider}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := errors.Join(os.WriteFile(file.CAFile, ca, 0o600), kubeconfig.Write(file)); err != nil {
		t.Fatal(err)
	}
	return file.Path
}

// seen are the paths that a transport has carried.
type seen struct {
	http.RoundTripper
	paths *sync.Map
}

func (s seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s.paths.Store(r.URL.Path+"?watch="+r.URL.Query().Get("watch"), true)
	return s.RoundTripper.RoundTrip(r)
}

// TestKernel runs kube-proxy on a machine of its own until a service is in
// the kernel.
func TestKernel(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	o := Options{KubeconfigPath: apiServer(t, nil), NodeName: "n1", ClusterCIDR: "10.42.0.0/16"}

	occupied, err := net.Listen("tcp", healthzAddress)
	if err != nil {
		t.Fatal(err)
	}
	var pre *problem.Precondition
	if err := New(o).Run(t.Context(), func() { t.Error("ready on an occupied port") }); !errors.As(err, &pre) {
		t.Errorf("with its port occupied: %v", err)
	}
	if err := occupied.Close(); err != nil {
		t.Fatal(err)
	}

	// A start that fails after kube-proxy registered itself can be repeated.
	broken := o
	broken.KubeconfigPath = filepath.Join(t.TempDir(), "absent")
	for range 2 {
		if err := New(broken).Run(t.Context(), func() {}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without a kubeconfig: %v", err)
		}
	}

	runUntilSynced(t, o)
	rules, err := exec.Command("nft", "list", "table", "ip", "kube-proxy").CombinedOutput()
	if err != nil || !strings.Contains(string(rules), "10.43.0.77 . tcp . 80") ||
		!strings.Contains(string(rules), "dnat to 10.42.0.9:8080") {
		t.Errorf("the service is not in the kernel: %v\n%s", err, rules)
	}
}

// TestKernelIptables is the fallback, on a machine that ran nftables mode
// before. It has the transport of its kubeconfig.
func TestKernelIptables(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if out, err := exec.Command("nft", "add table ip kube-proxy { chain c { } ; }").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var paths sync.Map
	provider, err := clientfile.Register(func(rt http.RoundTripper) http.RoundTripper { return seen{rt, &paths} })
	if err != nil {
		t.Fatal(err)
	}
	runUntilSynced(t, Options{KubeconfigPath: apiServer(t, provider), NodeName: "n1", ClusterCIDR: "10.42.0.0/16",
		Mode: netfilter.Iptables})
	rules, err := exec.Command("iptables-save", "-t", "nat").CombinedOutput()
	if err != nil || !strings.Contains(string(rules), "-d 10.43.0.77/32 -p tcp") ||
		!strings.Contains(string(rules), "10.42.0.9:8080") {
		t.Errorf("the service is not in the kernel: %v\n%s", err, rules)
	}
	for _, resource := range []string{"/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"} {
		if _, ok := paths.Load(resource + "?watch=true"); !ok {
			t.Errorf("%s is watched by another way", resource)
		}
	}
	tables, err := netfilter.Tables(t.Context())
	if err != nil || slices.Contains(tables, netfilter.Table{Family: "ip", Name: "kube-proxy"}) {
		t.Errorf("the rules of nftables mode are still there: %v, %v", tables, err)
	}
}

// runUntilSynced runs kube-proxy until it is ready, and stops it.
func runUntilSynced(t *testing.T, o Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- New(o).Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-result:
		t.Fatalf("kube-proxy ended: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("kube-proxy did not become ready")
	}
	cancel()
	select {
	case err := <-result:
		if err != nil {
			t.Errorf("stopped with %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("did not stop")
	}
}
