package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// Requests for Ingresses on two nodes, seen from a machine that is neither.
func TestIngress(t *testing.T) {
	t.Parallel()
	i := newIngressTest(t, "ingress")
	t.Run("of the system", i.testSystem)
	t.Run("TLS", i.testTLS)
	t.Run("streams", i.testStreams)
	t.Run("tenants", i.testTenants)
	t.Run("load balancers", i.testBalancers)
	t.Run("the child is killed", i.testKilledChild)
	t.Run("a node starts again", i.testRestart)
	t.Run("meanwhile", func(t *testing.T) { // the ports of a node close after a while
		t.Run("a node is taken out", i.testExcluded)
		t.Run("a rolling change", i.testRolling)
	})
	t.Run("disabled", i.testDisabled)
}

// waitBoth waits until pods on both nodes answer at both of them.
func (i *ingressTest) waitBoth(t *testing.T, host string) {
	t.Helper()
	for _, ip := range []string{i.near, i.far} {
		i.waitPodOf(t, ip, host, "near")
		i.waitPodOf(t, ip, host, "far")
	}
}

func (i *ingressTest) testSystem(t *testing.T) {
	c := i.c
	made := c.createIngress(t, i.ns, ingressRule("named", "www.example.com", "web"))
	if class := made.Spec.IngressClassName; class == nil || *class != "a4s" {
		t.Errorf("an Ingress gets the class %v", class)
	}
	c.waitIngressAddresses(t, i.ns, "named", i.near, i.far)
	out := c.must(t, "kubectl", "get", "ingress", "-n", i.ns, "named")
	for _, part := range []string{i.near, i.far, "www.example.com", "a4s"} {
		if !strings.Contains(out, part) {
			t.Errorf("kubectl get ingress says nothing of %s:\n%s", part, out)
		}
	}
	i.waitBoth(t, "www.example.com")
	i.waitPodOf(t, i.far, "WWW.example.com:80", "near")
	i.always(t, "unknown.example.com", "404", ofStatus(http.StatusNotFound))
	i.always(t, "", "404", ofStatus(http.StatusNotFound))

	t.Run("without a host", func(t *testing.T) {
		c.createIngress(t, i.ns, ingressRule("any", "", "web"))
		c.waitIngressAddresses(t, i.ns, "any", i.near, i.far)
		i.waitBoth(t, "")
		i.waitBoth(t, "unknown.example.com")
		c.deleteIngress(t, i.ns, "any")
		i.waitStatus(t, i.near, "", "/", http.StatusNotFound)
		i.waitStatus(t, i.far, "unknown.example.com", "/", http.StatusNotFound)
		i.waitBoth(t, "www.example.com")
	})
	t.Run("paths", i.testPaths)
	t.Run("another class", func(t *testing.T) {
		other := ingressRule("other", "class.example.com", "web")
		other.Spec.IngressClassName = new("somebody")
		c.createIngress(t, i.ns, other)
		// What is made after it is served.
		c.createIngress(t, i.ns, ingressRule("after", "after.example.com", "web"))
		i.waitBoth(t, "after.example.com")
		i.always(t, "class.example.com", "404", ofStatus(http.StatusNotFound))
		c.waitIngressAddresses(t, i.ns, "other")
		// Those of a class that is of this controller are served, whatever its name.
		class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "somebody"},
			Spec: networkingv1.IngressClassSpec{Controller: "a4s.io/ingress"}}
		if _, err := c.client.NetworkingV1().IngressClasses().Create(t.Context(), class,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		i.waitBoth(t, "class.example.com")
		c.waitIngressAddresses(t, i.ns, "other", i.near, i.far)
	})
	t.Run("no endpoint", func(t *testing.T) {
		c.createIngress(t, i.ns, ingressRule("later", "later.example.com", "later"))
		c.waitIngressEvent(t, i.ns, "later", "BackendNotFound", "no Service later")
		i.waitStatus(t, i.near, "later.example.com", "/", http.StatusServiceUnavailable)
		c.createService(t, i.ns, service("later", "later"))
		pod := on(i.worker.host.Name, testboxPod("later"))
		c.runPod(t, i.ns, pod)
		i.waitPodOf(t, i.near, "later.example.com", "later")
		i.waitPodOf(t, i.far, "later.example.com", "later")
		ready := func(ok string) {
			if b, err := c.client.CoreV1().RESTClient().Post().Namespace(i.ns).Resource("pods").
				Name("later:8080").SubResource("proxy").Suffix("readyz").Param("ok", ok).
				DoRaw(t.Context()); err != nil {
				t.Fatalf("switching the pod: %v: %s", err, b)
			}
		}
		ready("false")
		i.waitStatus(t, i.near, "later.example.com", "/", http.StatusServiceUnavailable)
		i.waitStatus(t, i.far, "later.example.com", "/", http.StatusServiceUnavailable)
		ready("true")
		i.waitPodOf(t, i.near, "later.example.com", "later")
	})
}

func (i *ingressTest) testPaths(t *testing.T) {
	const host = "paths.example.com"
	o := ingressRule("paths", host, "near")
	o.Spec.Rules[0].HTTP.Paths = []networkingv1.HTTPIngressPath{
		ingressPath("/request/a", networkingv1.PathTypePrefix, "near"),
		ingressPath("/request/a/b", networkingv1.PathTypeExact, "far"),
		ingressPath("/request/longer/", networkingv1.PathTypePrefix, "far"),
		ingressPath("/request/longer/than", networkingv1.PathTypeImplementationSpecific, "near"),
	}
	i.c.createIngress(t, i.ns, o)
	i.waitStatus(t, i.near, host, "/request/a", http.StatusOK)
	i.waitStatus(t, i.far, host, "/request/a", http.StatusOK)
	for _, c := range []struct{ path, pod string }{
		{"/request/a", "near"},
		{"/request/a/", "near"},
		{"/request/a/c?d=e", "near"},
		{"/request/a/b", "far"},
		{"/request/a/b/", "near"},
		{"/request/ab", ""},
		{"/", ""},
		{"/request/", ""},
		{"/request/longer", "far"},
		{"/request/longer/x", "far"},
		{"/request/longer/than/that", "near"},
	} {
		for _, ip := range []string{i.near, i.far} {
			a, err := i.get(t.Context(), ip, host, c.path)
			wanted := http.StatusOK
			if c.pod == "" {
				wanted = http.StatusNotFound
			}
			asked, _, _ := strings.Cut(c.path, "?")
			if err != nil || a.status != wanted || a.Pod != c.pod ||
				c.pod != "" && (a.Path != asked || a.Host != host) {
				t.Errorf("%s: %+v (%v), want %d of pod %q", c.path, a, err, wanted, c.pod)
			}
		}
	}
}

func (i *ingressTest) testTLS(t *testing.T) {
	const host = "secure.example.com"
	c, both := i.c, []string{i.near, i.far}
	first, second := certificateSecret(t, "secure", host, "first"), certificateSecret(t, "secure", host, "second")
	c.createIngress(t, i.ns, withTLS(ingressRule("secure", host, "web"), "secure"))
	c.createIngress(t, i.ns, withTLS(ingressRule("bare", "bare.example.com", "web"), ""))
	c.waitIngressEvent(t, i.ns, "secure", "CertificateNotFound", "Secret secure")
	for _, ip := range both {
		i.waitPodOf(t, ip, host, "near") // it is not HTTPS alone
		i.waitCertificate(t, ip, host, nobodysCertificate)
	}
	if _, err := c.client.CoreV1().Secrets(i.ns).Create(t.Context(), first, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, ip := range both {
		i.waitCertificate(t, ip, host, "first")
		i.waitCertificate(t, ip, "bare.example.com", nobodysCertificate)
		i.waitCertificate(t, ip, "unknown.example.com", nobodysCertificate)
	}
	child := i.worker.takesIngress(t)
	if _, err := c.client.CoreV1().Secrets(i.ns).Update(t.Context(), second, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, ip := range both {
		i.waitCertificate(t, ip, host, "second")
	}
	if now := i.worker.takesIngress(t); now != child || now == 0 {
		t.Errorf("requests are taken by process %d, before by %d", now, child)
	}
	// A client that checks the certificate gets an answer, and the pod learns that it was HTTPS.
	a, err := i.secureGet(t.Context(), i.far, host, second.Data["tls.crt"])
	if err != nil || a.status != http.StatusOK || a.Header.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("a request by HTTPS: %+v, %v", a, err)
	}
	if err := c.client.CoreV1().Secrets(i.ns).Delete(t.Context(), "secure", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, ip := range both {
		i.waitCertificate(t, ip, host, nobodysCertificate)
	}
}

func (i *ingressTest) testStreams(t *testing.T) {
	const host = "www.example.com"
	open := func(t *testing.T, path, header string) (net.Conn, *bufio.Reader, *http.Response) {
		conn, err := dialFrom(i.outside)(t.Context(), "tcp", net.JoinHostPort(i.far, "80"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host, header)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return conn, in, resp
	}
	t.Run("WebSocket", func(t *testing.T) {
		conn, in, resp := open(t, "/upgrade", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
		if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "websocket" {
			t.Fatalf("%+v", resp)
		}
		for _, word := range []string{"one", "two"} {
			if _, err := fmt.Fprintln(conn, word); err != nil {
				t.Fatal(err)
			}
			if got, err := in.ReadString('\n'); err != nil || strings.TrimSpace(got) != word {
				t.Fatalf("%q comes back as %q: %v", word, got, err)
			}
		}
		// It outlives changes of what is served.
		i.c.createIngress(t, i.ns, ingressRule("change", "change.example.com", "near"))
		i.waitPodOf(t, i.far, "change.example.com", "near")
		if _, err := fmt.Fprintln(conn, "three"); err != nil {
			t.Fatal(err)
		}
		if got, err := in.ReadString('\n'); err != nil || got != "three\n" {
			t.Errorf("after a change %q comes back: %v", got, err)
		}
	})
	t.Run("a streamed answer", func(t *testing.T) {
		_, _, resp := open(t, "/stream", "")
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if resp.StatusCode != http.StatusOK || err != nil || line != "begun\n" {
			t.Errorf("%+v begins with %q: %v", resp, line, err)
		}
	})
	t.Run("a large body", func(t *testing.T) {
		body := strings.Repeat("a4s", 1<<20)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+i.far+"/body",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := i.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body {
			t.Errorf("of %d bytes %d come back: %v", len(body), len(got), err)
		}
	})
}

// testRolling replaces all pods of a Service while clients ask for it, and changes other Ingresses.
func (i *ingressTest) testRolling(t *testing.T) {
	t.Parallel()
	const host, replicas, others = "rolling.example.com", 3, 50
	c := i.c
	add := func(name string, node string) {
		pod := on(node, testboxPod(name))
		pod.Labels["app"] = "rolling"
		graceful(&pod.Spec)
		c.runPod(t, i.ns, pod)
	}
	nodes := []string{c.host.Name, i.worker.host.Name}
	for n := range replicas {
		add(fmt.Sprintf("old-%d", n), nodes[n%2])
	}
	c.createService(t, i.ns, service("rolling", "rolling"))
	c.createIngress(t, i.ns, ingressRule("rolling", host, "rolling"))
	for n := range replicas {
		i.waitPodOf(t, i.near, host, fmt.Sprintf("old-%d", n))
	}
	end := i.load(t, i.near, host)
	changed := make(chan error, 1)
	go func() { changed <- i.changeOthers(t.Context(), others) }()
	for n := range replicas {
		add(fmt.Sprintf("new-%d", n), nodes[n%2])
		if err := c.client.CoreV1().Pods(i.ns).Delete(t.Context(), fmt.Sprintf("old-%d", n),
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hosts.Until(t, podTimeout, "the old pods are gone", func(ctx context.Context) error {
		pods, err := c.client.CoreV1().Pods(i.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=rolling"})
		if err == nil && len(pods.Items) != replicas {
			err = fmt.Errorf("there are %d pods", len(pods.Items))
		}
		return err
	})
	if err := <-changed; err != nil {
		t.Error(err)
	}
	pods := end()
	for n := range replicas {
		for _, name := range []string{fmt.Sprintf("old-%d", n), fmt.Sprintf("new-%d", n)} {
			if !slices.Contains(pods, name) {
				t.Errorf("no request went to pod %s, but to %v", name, pods)
			}
		}
	}
}

// changeOthers makes Ingresses and deletes them.
func (i *ingressTest) changeOthers(ctx context.Context, n int) error {
	api := i.c.client.NetworkingV1().Ingresses(i.ns)
	var errs []error
	for k := range n {
		_, err := api.Create(ctx, ingressRule(fmt.Sprintf("other-%d", k), fmt.Sprintf("%d.other.example.com", k),
			"web"), metav1.CreateOptions{})
		errs = append(errs, err)
	}
	for k := range n {
		errs = append(errs, api.Delete(ctx, fmt.Sprintf("other-%d", k), metav1.DeleteOptions{}))
	}
	return errors.Join(errs...)
}
