package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/nstest"
)

const (
	// ingressChild is what the process is called that takes requests on a node.
	ingressChild = "a4s-ingress"
	// nobodysCertificate is the name in the one of hosts that have none.
	nobodysCertificate = "a4s ingress default certificate"
	// answerTimeout is for one request, which may come while the child is replaced.
	answerTimeout = 30 * time.Second
)

// ingressTest is a cluster of two nodes, and a machine outside that asks them.
type ingressTest struct {
	c       *cluster
	worker  *node
	outside *hosts.Host
	http    *http.Client // each request has a connection of its own
	// ns is of the system space. It has the pods near, on the server, and far, on the worker, each with a
	// Service of its name, and the Service web of both.
	ns        string
	near, far string // the addresses of the nodes
}

// newIngressTest starts the machines, whose names begin with a name, and the pods.
func newIngressTest(t *testing.T, name string) *ingressTest {
	t.Helper()
	c := ownCluster(t, name)
	worker := newAgent(t, name+"-worker", c)
	i := &ingressTest{c: c, worker: worker, outside: newHost(t, name+"-client"), near: c.host.IP.String(),
		far: worker.host.IP.String()}
	i.http = &http.Client{Transport: &http.Transport{DialContext: dialFrom(i.outside), DisableKeepAlives: true},
		// An answer that is a redirect is what a test looks at.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.waitOwnNode(t)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	i.makePods(t)
	return i
}

func (i *ingressTest) makePods(t *testing.T) {
	i.ns = i.c.namespace(t)
	for name, node := range map[string]string{"near": i.c.host.Name, "far": i.worker.host.Name} {
		pod := on(node, testboxPod(name))
		pod.Labels = map[string]string{"app": "web", "at": name}
		i.c.createPod(t, i.ns, pod)
		one := service(name, "")
		one.Spec.Selector = map[string]string{"at": name}
		i.c.createService(t, i.ns, one)
	}
	i.c.createService(t, i.ns, service("web", "web"))
	for _, n := range []*node{&i.c.node, i.worker} {
		if ports := n.listensForIngress(t); ports != "" {
			t.Errorf("without an Ingress, %s listens: %s", n.host.Name, ports)
		}
	}
	i.c.waitPodReady(t, i.ns, "near")
	i.c.waitPodReady(t, i.ns, "far")
}

// inNetworkOf runs f as a process on a host does, as far as the network goes.
func inNetworkOf(h *hosts.Host, f func() error) error {
	return nstest.InFile(h.Path("/proc/1/ns/net"), f)
}

// dialFrom connects as a process on a host does.
func dialFrom(h *hosts.Host) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = inNetworkOf(h, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// answer is what a request got. The fields of JSON are what a pod says of it.
type answer struct {
	status int
	text   string
	said   http.Header // the headers of the answer itself
	Pod    string
	Path   string
	Host   string
	Header http.Header
}

// get asks a node for a path of a host; without a host by the node's address.
func (i *ingressTest) get(ctx context.Context, ip, host, path string, headers ...string) (answer, error) {
	return get(ctx, i.http, ip, host, path, headers...)
}

func get(ctx context.Context, client *http.Client, ip, host, path string, headers ...string) (answer, error) {
	return getBy(ctx, client, "http", ip, host, path, headers...)
}

func getBy(
	ctx context.Context, client *http.Client, scheme, ip, host, path string, headers ...string,
) (answer, error) {
	return request(ctx, client, http.MethodGet, scheme+"://"+ip+path, host, headers...)
}

func request(
	ctx context.Context, client *http.Client, method, url, host string, headers ...string,
) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return answer{}, err
	}
	req.Host = host
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Add(pair[0], pair[1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, text: strings.TrimSpace(string(b)), said: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

// waitPodOf waits until requests for a host are answered by a pod.
func (i *ingressTest) waitPodOf(t *testing.T, ip, host, pod string) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("pod %s answers at %s for host %q", pod, ip, host),
		func(ctx context.Context) error {
			a, err := i.get(ctx, ip, host, "/request/")
			if err == nil && a.Pod != pod {
				err = fmt.Errorf("%d %s", a.status, a.text)
			}
			return err
		})
}

// waitStatus waits until requests for a path of a host get this status.
func (i *ingressTest) waitStatus(t *testing.T, ip, host, path string, status int) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("%s of host %q gets %d at %s", path, host, status, ip),
		func(ctx context.Context) error {
			a, err := i.get(ctx, ip, host, path)
			if err == nil && a.status != status {
				err = fmt.Errorf("%d %s", a.status, a.text)
			}
			return err
		})
}

// always checks that each of many requests for a host gets the same.
func (i *ingressTest) always(t *testing.T, host, what string, is func(answer) bool) {
	t.Helper()
	for range 10 {
		for _, ip := range []string{i.near, i.far} {
			if a, err := i.get(t.Context(), ip, host, "/request/"); err != nil || !is(a) {
				t.Errorf("host %q at %s: %+v (%v), want %s", host, ip, a, err, what)
			}
		}
	}
}

func ofPod(pod string) func(answer) bool { return func(a answer) bool { return a.Pod == pod } }

func ofStatus(status int) func(answer) bool { return func(a answer) bool { return a.status == status } }

// handshake returns the certificate that a node shows for a name.
func (i *ingressTest) handshake(ctx context.Context, ip, name string) (*x509.Certificate, error) {
	raw, err := dialFrom(i.outside)(ctx, "tcp", net.JoinHostPort(ip, "443"))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// waitCertificate waits until a node shows a certificate with this name.
func (i *ingressTest) waitCertificate(t *testing.T, ip, host, name string) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("the certificate of %q at %s is %q", host, ip, name),
		func(ctx context.Context) error {
			shown, err := i.handshake(ctx, ip, host)
			if err == nil && shown.Subject.CommonName != name {
				err = fmt.Errorf("it is %q", shown.Subject.CommonName)
			}
			return err
		})
}

// certificateSecret has a certificate for a host, whose subject has another name by which one knows it.
func certificateSecret(t *testing.T, secret, host, name string) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		}}
}

// ingressRule is an Ingress that sends all requests for a host to port 80 of a Service.
func ingressRule(name, host, service string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
				ingressPath("/", networkingv1.PathTypePrefix, service)}}}}},
	}}
}

func ingressPath(path string, as networkingv1.PathType, service string) networkingv1.HTTPIngressPath {
	return networkingv1.HTTPIngressPath{Path: path, PathType: &as, Backend: networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: service,
			Port: networkingv1.ServiceBackendPort{Number: 80}}}}
}

// withTLS gives an Ingress a certificate for the host of its rule.
func withTLS(o *networkingv1.Ingress, secret string) *networkingv1.Ingress {
	o.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{o.Spec.Rules[0].Host}, SecretName: secret}}
	return o
}

func (c *cluster) createIngress(t *testing.T, ns string, o *networkingv1.Ingress) *networkingv1.Ingress {
	t.Helper()
	made, err := c.client.NetworkingV1().Ingresses(ns).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (c *cluster) deleteIngress(t *testing.T, ns, name string) {
	t.Helper()
	if err := c.client.NetworkingV1().Ingresses(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// setHost changes the host of the only rule of an Ingress.
func (c *cluster) setHost(t *testing.T, ns, name, host string) {
	t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/rules/0/host","value":%q}]`, host)
	if _, err := c.client.NetworkingV1().Ingresses(ns).Patch(t.Context(), name, types.JSONPatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitIngressAddresses waits until an Ingress has exactly these addresses.
func (c *cluster) waitIngressAddresses(t *testing.T, ns, name string, want ...string) {
	t.Helper()
	slices.Sort(want)
	hosts.Until(t, soon, fmt.Sprintf("Ingress %s has the addresses %v", name, want), func(ctx context.Context) error {
		got, err := c.ingressAddresses(ctx, ns, name)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it has %v", got)
		}
		return err
	})
}

func (c *cluster) ingressAddresses(ctx context.Context, ns, name string) (out []string, err error) {
	o, err := c.client.NetworkingV1().Ingresses(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, at := range o.Status.LoadBalancer.Ingress {
		out = append(out, at.IP)
	}
	slices.Sort(out)
	return out, nil
}

// waitIngressEvent waits for an Event about an Ingress, and returns what it says.
func (c *cluster) waitIngressEvent(t *testing.T, ns, name, reason, part string) (message string) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("an Event %s of Ingress %s says %q", reason, name, part),
		func(ctx context.Context) error {
			events, err := c.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{
				FieldSelector: "involvedObject.kind=Ingress,involvedObject.name=" + name})
			if err != nil {
				return err
			}
			var all []string
			for _, e := range events.Items {
				if e.Reason == reason && strings.Contains(e.Message, part) {
					message = e.Message
					return nil
				}
				all = append(all, e.Reason+": "+e.Message)
			}
			return fmt.Errorf("the Events are %q", all)
		})
	return message
}

// patchTenant changes the spec of a Tenant.
func (c *cluster) patchTenant(t *testing.T, name, spec string) {
	t.Helper()
	if _, err := c.tenants(t).Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":`+spec+`}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// takesIngress returns the process that takes requests on a node, 0 for none.
func (n *node) takesIngress(t *testing.T) int { return findChild(t, n.proc.PID(), ingressChild) }

// listensForIngress tells the ports for Ingresses at which a node listens.
func (n *node) listensForIngress(t *testing.T) string {
	t.Helper()
	return run(t, n.host, "ss", "-Hltn", "sport = :80 or sport = :443")
}

// waitNoIngress waits until nothing on a node takes requests, by what it has and by what one sees from outside.
func (i *ingressTest) waitNoIngress(t *testing.T, n *node) {
	t.Helper()
	hosts.Until(t, soon, "nothing on "+n.host.Name+" takes requests", func(ctx context.Context) error {
		if ports := n.listensForIngress(t); ports != "" {
			return fmt.Errorf("it listens: %s", ports)
		}
		for pid, command := range n.processes(t) {
			if strings.HasPrefix(command, ingressChild+" ") {
				return fmt.Errorf("process %d: %s", pid, command)
			}
		}
		if a, err := i.get(ctx, n.host.IP.String(), "", "/"); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("a request gets %+v, %v", a, err)
		}
		return nil
	})
}
