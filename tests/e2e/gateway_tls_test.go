package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/tests/hosts"
)

// passGateway is the Gateway that TLSRoutes go by.
const passGateway = `{kind: Gateway, metadata: {name: pass}, spec: {gatewayClassName: a4s, listeners: [
  {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}]}}`

// tlsRoute is a TLSRoute of Gateway pass to port 443 of a Service.
func tlsRoute(name, host, service string) string {
	return fmt.Sprintf("{kind: TLSRoute, metadata: {name: %s}, spec: {parentRefs: [{name: pass}], hostnames: [%s], "+
		"rules: [{backendRefs: [{name: %s, port: 443}]}]}}", name, host, service)
}

// runTLSPod starts a pod, on a node unless that is empty, that opens connections at port 443 of the Service of its
// name itself. Its certificate has its name.
func (c *cluster) runTLSPod(t *testing.T, ns, node, name string) {
	t.Helper()
	pod := testboxPod(name, "serve", ":8080", ":8443")
	if node != "" {
		pod = on(node, pod)
	}
	to := service(name, name)
	to.Spec.Ports[0].Name, to.Spec.Ports[0].Port, to.Spec.Ports[0].TargetPort = "tls", 443, intstr.FromInt32(8443)
	c.createService(t, ns, to)
	c.runPod(t, ns, pod)
}

// waitCertificates waits until both nodes show a certificate with this name.
func (g *gatewayTest) waitCertificates(t *testing.T, host, name string) {
	t.Helper()
	for _, ip := range []string{g.near, g.far} {
		g.waitCertificate(t, ip, host, name)
	}
}

// waitClosed waits until a node closes connections for a host without a word.
func (g *gatewayTest) waitClosed(t *testing.T, ip, host string) {
	t.Helper()
	what := fmt.Sprintf("connections for %s at %s are closed", host, ip)
	hosts.Until(t, soon, what, func(ctx context.Context) error {
		shown, err := g.handshake(ctx, ip, host)
		if err == nil {
			return fmt.Errorf("the certificate of %s is shown", shown.Subject.CommonName)
		}
		if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset by peer") {
			return err
		}
		return nil
	})
}

// kept is a connection by which a client asks again and again.
type kept struct {
	net.Conn
	in *bufio.Reader
}

func (g *gatewayTest) keep(t *testing.T, ip, host string) *kept {
	t.Helper()
	raw, err := dialFrom(g.outside)(t.Context(), "tcp", net.JoinHostPort(ip, "443"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	conn := tls.Client(raw, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	return &kept{conn, bufio.NewReader(conn)}
}

// pod asks which pod there is at the other end.
func (k *kept) pod(t *testing.T) string {
	t.Helper()
	if err := k.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(k, "GET /hostname HTTP/1.1\r\nHost: any\r\n\r\n")
	resp, err := http.ReadResponse(k.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

// testTLSRoutes: connections are passed on unopened, and stay where they are when their route changes or goes.
func (g *gatewayTest) testTLSRoutes(t *testing.T) {
	const host = "pass.example.com"
	g.c.runTLSPod(t, g.ns, g.c.host.Name, "tls-near")
	g.c.runTLSPod(t, g.ns, g.worker.host.Name, "tls-far")
	g.c.applyGateway(t, g.ns, passGateway)
	g.c.waitGateway(t, g.ns, "pass", g.near, g.far)
	g.c.applyGateway(t, g.ns, tlsRoute("pass", host, "tls-near"))
	g.c.waitCondition(t, g.ns, "TLSRoute", "pass", "Accepted=True", "")
	g.c.waitCondition(t, g.ns, "TLSRoute", "pass", "ResolvedRefs=True", "")
	g.waitCertificates(t, host, "tls-near")
	g.waitCertificate(t, g.near, "unknown.example.com", nobodysCertificate)
	g.always(t, host, "404", ofStatus(http.StatusNotFound)) // without TLS it is nobody's

	one := g.keep(t, g.far, host)
	if pod := one.pod(t); pod != "tls-near" {
		t.Errorf("the answer is that of pod %q", pod)
	}
	g.c.applyGateway(t, g.ns, tlsRoute("pass", host, "tls-far"))
	g.waitCertificates(t, host, "tls-far")
	two := g.keep(t, g.far, host)
	if first, second := one.pod(t), two.pod(t); first != "tls-near" || second != "tls-far" {
		t.Errorf("the answers are those of pods %q and %q", first, second)
	}

	g.c.applyGateway(t, g.ns, tlsRoute("gone", "gone.example.com", "gone"))
	g.c.waitCondition(t, g.ns, "TLSRoute", "gone", "ResolvedRefs=False BackendNotFound", "gone")
	g.waitClosed(t, g.far, "gone.example.com")

	// A younger Ingress with TLS does not get the connections of the host, and all that is without TLS.
	g.c.createIngress(t, g.ns, withTLS(ingressRule("beside-tls", host, "near"), "none"))
	g.c.waitIngressEvent(t, g.ns, "beside-tls", "HostnameConflict", host)
	g.waitPods(t, host, "near")
	g.waitCertificates(t, host, "tls-far")

	g.c.deleteGateway(t, g.ns, "TLSRoute", "pass")
	g.waitCertificates(t, host, nobodysCertificate)
	if first, second := one.pod(t), two.pod(t); first != "tls-near" || second != "tls-far" {
		t.Errorf("without their route the answers are those of pods %q and %q", first, second)
	}
	g.c.deleteIngress(t, g.ns, "beside-tls")
}

// testTakenTLSRoute: a host whose connections are passed on is of one space, as all others.
func (g *gatewayTest) testTakenTLSRoute(t *testing.T, red, blue *cluster) {
	const host = "tls.example.com"
	for pod, c := range map[string]*cluster{"tls-red": red, "tls-blue": blue} {
		c.runTLSPod(t, "default", "", pod)
		c.applyGateway(t, "default", passGateway)
		c.waitGateway(t, "default", "pass", g.near, g.far)
	}
	red.applyGateway(t, "default", tlsRoute("tls", host, "tls-red"))
	g.waitCertificates(t, host, "tls-red")
	blue.applyGateway(t, "default", tlsRoute("take", host, "tls-blue"))
	blue.waitKindRefusal(t, "TLSRoute", "take", "HostTaken", host)
	blue.applyGateway(t, "default", route("take-tls", "["+host+"]", toService("web")))
	blue.waitRouteRefusal(t, "take-tls", "HostTaken", host)
	blue.applyGateway(t, "default", tlsRoute("shop", "shop.example.com", "tls-blue")) // blue's by now
	blue.applyGateway(t, "default", tlsRoute("wild", "'*.example.com'", "tls-blue"))
	blue.waitKindRefusal(t, "TLSRoute", "wild", "HostNotAllowed", "")
	g.waitCertificates(t, "shop.example.com", "tls-blue")
	g.waitCertificates(t, host, "tls-red")
	blue.deleteGateway(t, "default", "HTTPRoute", "take-tls")
	red.deleteGateway(t, "default", "TLSRoute", "tls")
	g.waitCertificates(t, host, "tls-blue")
	blue.waitCondition(t, "default", "TLSRoute", "take", "Accepted=True", "")
}
