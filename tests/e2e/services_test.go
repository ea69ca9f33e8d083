package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// waitAnswer waits until the test server in a pod answers as wanted: a new
// Service takes a moment to reach kube-proxy and DNS.
func (c *cluster) waitAnswer(t *testing.T, ns, pod, want, path string, params ...string) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("pod %s gets %q for %v", pod, want, params), func(ctx context.Context) error {
		got, err := c.ask(ctx, ns, pod, path, params...)
		if err == nil && got != want {
			err = fmt.Errorf("it gets %q", got)
		}
		return err
	})
}

func TestServices(t *testing.T) { inEverySpace(t, testServices) }

func testServices(t *testing.T, c *cluster) {
	ns, other := c.namespace(t), c.namespace(t)
	backend := c.runPod(t, ns, testboxPod("web"))
	client := c.runPod(t, ns, testboxPod("client"))
	stranger := c.runPod(t, other, testboxPod("stranger"))
	nodePort := service("web", "web")
	nodePort.Spec.Type = corev1.ServiceTypeNodePort
	svc := c.createService(t, ns, nodePort)
	ip := svc.Spec.ClusterIP

	t.Run("by ClusterIP", func(t *testing.T) {
		c.waitAnswer(t, ns, client.Name, "web", "/get", "url", "http://"+ip+"/hostname")
		c.waitAnswer(t, other, stranger.Name, "web", "/get", "url", "http://"+ip+"/hostname")
		// A pod reaches itself through its own Service.
		c.waitAnswer(t, ns, backend.Name, "web", "/get", "url", "http://"+ip+"/hostname")
	})
	t.Run("by name", func(t *testing.T) {
		for _, name := range []string{"web", "web." + ns, "web." + ns + ".svc", "web." + ns + ".svc.cluster.local",
			"web." + ns + ".svc.cluster.local."} {
			c.waitAnswer(t, ns, client.Name, ip, "/resolve", "name", name)
			c.waitAnswer(t, ns, client.Name, "web", "/get", "url", "http://"+name+"/hostname")
		}
		c.waitAnswer(t, other, stranger.Name, "web", "/get", "url", "http://web."+ns+"/hostname")
		if got, err := c.ask(t.Context(), other, stranger.Name, "/resolve", "name", "web"); err == nil {
			t.Errorf("the short name resolves to %q in another namespace", got)
		}
	})
	t.Run("by node port", func(t *testing.T) {
		url := "http://" +
			net.JoinHostPort(c.host.IP.String(), strconv.Itoa(int(svc.Spec.Ports[0].NodePort))) + "/hostname"
		hosts.Until(t, soon, "the node port answers from outside", func(ctx context.Context) error {
			got, err := fetch(ctx, url)
			if err == nil && got != "web" {
				err = fmt.Errorf("it answers %q", got)
			}
			return err
		})
	})
	t.Run("from the host", func(t *testing.T) {
		r, err := c.host.Run(t.Context(), env.testbox, "get", "http://"+ip+"/hostname")
		if err != nil || strings.TrimSpace(r.Stdout) != "web" {
			t.Errorf("the node itself gets %+v (%v) from the ClusterIP", r, err)
		}
	})
	t.Run("the API as a Service", func(t *testing.T) {
		c.waitAnswer(t, ns, client.Name, "10.43.0.1", "/resolve", "name", "kubernetes.default")
	})
}

func TestHeadlessServiceAndOtherRecords(t *testing.T) {
	inEverySpace(t, testHeadlessServiceAndOtherRecords)
}

func testHeadlessServiceAndOtherRecords(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	pods := c.runDeployment(t, ns, deployment("peers", 2))
	client := pods[0].Name
	var ips []string
	for _, p := range pods {
		ips = append(ips, p.Status.PodIP)
	}
	slices.Sort(ips)
	headless := service("peers", "peers")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	headless.Spec.Ports[0].Port = 8080
	c.createService(t, ns, headless)
	svc := c.createService(t, ns, service("front", "peers"))
	external := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "outside"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: hosts.UpstreamName},
	}
	c.createService(t, ns, external)
	suffix := "." + ns + ".svc.cluster.local."

	for _, tc := range []struct{ name, kind, want string }{
		{"peers", "A", strings.Join(ips, "\n")},
		{"_http._tcp.front" + suffix, "SRV", "front" + suffix + ":80"},
		{svc.Spec.ClusterIP, "PTR", "front" + suffix},
		{strings.ReplaceAll(ips[0], ".", "-") + "." + ns + ".pod.cluster.local.", "A", ips[0]},
		// Names of other zones go to the name server of the host.
		{hosts.UpstreamName, "A", hosts.UpstreamAddress},
		{"outside", "A", hosts.UpstreamAddress},
	} {
		c.waitAnswer(t, ns, client, tc.want, "/resolve", "name", tc.name, "type", tc.kind)
	}

	hosts.Until(t, soon, "SRV records of the headless service name both pods", func(ctx context.Context) error {
		got, err := c.ask(ctx, ns, client, "/resolve", "name", "_http._tcp.peers"+suffix, "type", "SRV")
		if err != nil {
			return err
		}
		targets := strings.Split(got, "\n")
		if len(targets) != 2 {
			return fmt.Errorf("they are %q", targets)
		}
		var found []string
		for _, target := range targets {
			host, ok := strings.CutSuffix(target, ":8080")
			if !ok || !strings.HasSuffix(host, ".peers"+suffix) {
				return fmt.Errorf("a record is %q", target)
			}
			ip, err := c.ask(ctx, ns, client, "/resolve", "name", host)
			if err != nil {
				return err
			}
			found = append(found, ip)
		}
		slices.Sort(found)
		if !slices.Equal(found, ips) {
			return fmt.Errorf("their addresses are %v, want %v", found, ips)
		}
		return nil
	})
}
