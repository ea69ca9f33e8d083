package spaces_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/tests/nstest"
)

// reached counts what reaches a server that nobody may reach.
type reached struct {
	*httptest.Server
	n    atomic.Int32
	port int
}

func unreachable(t *testing.T, listener net.Listener, body string) *reached {
	t.Helper()
	r := &reached{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(body)) // whoever asked may have gone
	}))
	r.Listener.Close() //nolint:errcheck // it is replaced
	r.Listener = listener
	at, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("listens at %v", listener.Addr())
	}
	r.port = at.Port
	// A port scanner needs no request.
	r.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.n.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

// everywhere listens at all addresses of the machine.
func everywhere(t *testing.T) *reached {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	return unreachable(t, listener, "a service of the machine")
}

// TestWallV13HooksRedirected: an answer of a webhook does not send the API
// server anywhere.
func TestWallV13HooksRedirected(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	s := p.tenant(t, "a")
	machine, h := everywhere(t), newHooks(t)
	var asked atomic.Int32
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		code, _ := strconv.Atoi(filepath.Base(req.URL.Path))
		to := "http://127.0.0.1:" + strconv.Itoa(machine.port) + "/"
		if strings.HasPrefix(req.URL.Path, "/self/") {
			to = h.URL + "/end"
		}
		if strings.HasSuffix(req.URL.Path, "/end") {
			t.Errorf("followed to %s", req.URL)
		}
		http.Redirect(w, req, to, code)
	})
	h.serviceFor(t, s.client)
	hookNames := 0
	for _, path := range []string{"/away/301", "/away/302", "/away/307", "/away/308", "/self/307"} {
		for what, at := range map[string]admissionregistrationv1.WebhookClientConfig{"URL": h.byURL(path),
			"Service": h.byService(path)} {
			hookNames++
			name, before := fmt.Sprintf("hook%d", hookNames), asked.Load()
			remove := func() error {
				return s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), name,
					metav1.DeleteOptions{})
			}
			s.validate(t, name, validating(name, at, "configmaps"))
			var err error
			eventually(t, "the webhook to be asked", func(ctx context.Context) (bool, error) {
				_, err = s.tried(ctx, "x")
				return asked.Load() > before, nil
			})
			if err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
				t.Errorf("%s by %s: %v", path, what, err)
			}
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the webhook to be gone", func(ctx context.Context) (bool, error) {
				_, err := s.tried(ctx, "x")
				return err == nil, nil
			})
		}
	}
	before := asked.Load()
	convertedBy(t, s, h.URL+"/away/307", h.ca)
	if err := converted(t, s); err == nil || asked.Load() == before ||
		!strings.Contains(err.Error(), "redirects are not followed") {
		t.Errorf("a conversion: %v", err)
	}
	if n := machine.n.Load(); n != 0 {
		t.Errorf("the API server connected to its own machine %d times", n)
	}
}

const conversions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// convertedBy makes a CRD whose versions are converted at a URL.
func convertedBy(t *testing.T, s *space, url string, ca []byte) {
	t.Helper()
	body := fmt.Sprintf(
		`{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, url, base64.StdEncoding.EncodeToString(ca))
	if code, text := do(t, s.config, http.MethodPost, conversions, body, nil); code != http.StatusCreated {
		t.Fatalf("making a definition: %d %s", code, text)
	}
	eventually(t, "the definition", func(context.Context) (bool, error) {
		code, _ := get(t, s.config, "/apis/example.com/v2/namespaces/default/things")
		return code == http.StatusOK, nil
	})
}

// converted has an object converted.
func converted(t *testing.T, s *space) error {
	t.Helper()
	code, text := do(t, s.config, http.MethodPost, "/apis/example.com/v2/namespaces/default/things",
		`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"x"}}`, nil)
	if code != http.StatusCreated {
		return fmt.Errorf("%d %s", code, text)
	}
	return nil
}

// otherNode has no server and no kubelet.
const otherNode = "other"

// running makes a pod that has an address and is ready, as a node would say.
func (p *plane) running(t *testing.T, s *space, name, ip string, phase corev1.PodPhase) {
	t.Helper()
	if _, err := s.client.CoreV1().Pods("default").
		Create(t.Context(), simplePod(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Target: corev1.ObjectReference{Kind: "Node", Name: otherNode}}
	if err := p.admin.CoreV1().Pods("default."+s.name).Bind(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	status := fmt.Sprintf(`{"status":{"phase":%q,"podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready",`+
		`"status":"True"}]}}`, phase, ip, ip)
	if _, err := p.admin.CoreV1().Pods("default."+s.name).
		Patch(t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// hostNames has the machine know names, in the mounts of this process.
func hostNames(t *testing.T, lines string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("127.0.0.1 localhost\n"+lines), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(file, "/etc/hosts", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount("/etc/hosts", syscall.MNT_DETACH) }) // the process ends anyway
}

// TestWallV13HooksToLoopback: the webhooks of a tenant are called at its own pods
// and outside of the cluster, and its proxies end at its own pods.
func TestWallV13HooksToLoopback(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	hostNames(t, "127.0.0.1 lo.example.org\n::1 lo6.example.org\n10.42.0.6 pod.example.org\n"+address+
		" node.example.org\n")
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, local := range []string{"169.254.169.254/32", "10.42.0.1/32", "203.0.113.5/32"} {
		addr, err := netlink.ParseAddr(local)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(lo, addr); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: otherNode}}
	if _, err := p.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	status := []byte(`{"status":{"addresses":[{"type":"InternalIP","address":"203.0.113.8"}]}}`)
	if _, err := p.admin.CoreV1().Nodes().Patch(t.Context(), otherNode, types.MergePatchType, status,
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	machine := everywhere(t)
	foreign := unreachable(t, listenOutside(t, "10.42.0.6", machine.port), "a page of b")
	far := unreachable(t, listenOutside(t, "203.0.113.8", machine.port), "a service of a node")
	own, out := newHooksAt(t, listenOutside(t, "10.42.0.5", 0)), newHooks(t)
	p.running(t, a, "own", "10.42.0.5", corev1.PodRunning)
	p.running(t, b, "web", "10.42.0.6", corev1.PodRunning)

	n := 0
	hook := func(at admissionregistrationv1.WebhookClientConfig) error {
		t.Helper()
		n++
		name := fmt.Sprintf("hook%d", n)
		a.validate(t, name, validating(name, at, "configmaps"))
		var err error
		eventually(t, "the webhook to be known", func(ctx context.Context) (bool, error) {
			// Others that answer are distinguished by what they are asked.
			_, err = a.tried(ctx, name)
			return err != nil || len(own.calls("/", name))+len(out.calls("/", name)) > 0, nil
		})
		if e := a.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), name,
			metav1.DeleteOptions{}); e != nil {
			t.Fatal(e)
		}
		eventually(t, "the webhook to be gone", func(ctx context.Context) (bool, error) {
			_, e := a.tried(ctx, "x")
			return e == nil, nil
		})
		return err
	}
	service := func(name string, selector map[string]string, port int) admissionregistrationv1.WebhookClientConfig {
		t.Helper()
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: selector,
			Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt(port)}}}}
		if _, err := a.client.CoreV1().Services("default").
			Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		path := "/"
		return admissionregistrationv1.WebhookClientConfig{
			Service:  &admissionregistrationv1.ServiceReference{Namespace: "default", Name: name, Path: &path},
			CABundle: own.ca,
		}
	}
	byURL := func(host string) admissionregistrationv1.WebhookClientConfig {
		url := "https://" + net.JoinHostPort(host, strconv.Itoa(machine.port)) + "/"
		return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: own.ca}
	}
	const refusal = "to their own pods and to hosts outside of the cluster only"
	for _, host := range []string{
		"127.0.0.1", "127.1.2.3", "localhost", "::1", "::ffff:127.0.0.1", "0.0.0.0",
		"lo.example.org", "lo6.example.org",
		"169.254.169.254", address, "node.example.org", "203.0.113.5", "203.0.113.8", "10.42.0.1", "10.42.0.6",
		"pod.example.org", "10.43.0.1", "fe80::1", "224.0.0.1",
	} {
		if err := hook(byURL(host)); err == nil || !strings.Contains(err.Error(), refusal) {
			t.Errorf("a webhook at %s: %v", host, err)
		}
	}
	convertedBy(t, a, *byURL("127.0.0.1").URL, own.ca)
	if err := converted(t, a); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("a conversion at the loopback: %v", err)
	}
	// What is in the cluster is not written into the endpoints of a Service.
	for i, ip := range []string{address, "203.0.113.5", "203.0.113.8", "10.42.0.6", "10.43.0.1"} {
		slice := fmt.Sprintf(`{"metadata":{"name":"to%[1]d","labels":{"kubernetes.io/service-name":"to%[1]d"}},`+
			`"addressType":"IPv4","endpoints":[{"addresses":[%[2]q]}],"ports":[{"port":%[3]d}]}`, i, ip, machine.port)
		code, text := do(t, a.config, http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
			slice, nil)
		if code != http.StatusForbidden || !strings.Contains(text, "is inside the cluster") {
			t.Errorf("writing endpoints at %s: %d %s", ip, code, text)
		}
	}

	// What tenants have webhooks for.
	if err := hook(out.byURL("/")); err != nil {
		t.Errorf("a webhook outside: %v", err)
	}
	if err := hook(own.byURL("/")); err != nil {
		t.Errorf("a webhook in a pod, by URL: %v", err)
	}
	mine := service("hook", map[string]string{"app": "own"}, int(own.port))
	eventually(t, "the endpoint of the Service", func(ctx context.Context) (bool, error) {
		slices, err := a.client.DiscoveryV1().EndpointSlices("default").List(ctx,
			metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=hook"})
		return err == nil && len(slices.Items) > 0 && len(slices.Items[0].Endpoints) > 0, err
	})
	eventually(t, "a webhook in a pod, by its Service", func(context.Context) (bool, error) {
		return hook(mine) == nil, nil
	})

	// A status that says the address of another's pod, as of a pod that ended.
	p.running(t, a, "forged", "10.42.0.6", corev1.PodRunning)
	p.running(t, a, "ended", "10.42.0.6", corev1.PodSucceeded)
	port := strconv.Itoa(machine.port)
	for _, path := range []string{"pods/forged:" + port, "pods/ended:" + port, "pods/https:forged:" + port} {
		if code, text := get(t, a.config, "/api/v1/namespaces/default/"+path+
			"/proxy/"); code < http.StatusInternalServerError || strings.Contains(text, "a page of b") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	for _, path := range []string{"pods/https:own:" + strconv.Itoa(int(own.port)), "services/https:hook:443"} {
		eventually(t, "the proxy of "+path, func(context.Context) (bool, error) {
			code, text := get(t, a.config, "/api/v1/namespaces/default/"+path+"/proxy/")
			return code == http.StatusBadRequest && strings.Contains(text, "not a review"), nil
		})
	}
	for what, r := range map[string]*reached{"its own machine": machine, "a pod of another tenant": foreign,
		"another node": far} {
		if n := r.n.Load(); n != 0 {
			t.Errorf("the API server connected to %s %d times", what, n)
		}
	}
	// Nothing else kept it from doing so.
	if conn, err := net.Dial("tcp", net.JoinHostPort("10.42.0.6", port)); err != nil {
		t.Errorf("the pod cannot be reached at all: %v", err)
	} else {
		conn.Close() //nolint:errcheck // it was only tried
	}
}
