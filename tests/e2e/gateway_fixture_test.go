package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	gatewayGroup      = "gateway.networking.k8s.io"
	gatewayController = "a4s.io/gateway"
	crdSharing        = "arktos.futurewei.com/crd-sharing-policy"
)

// gatewayTest is an ingressTest that also asks for what Gateways and HTTPRoutes serve.
type gatewayTest struct{ *ingressTest }

// gatewayCRDs are the kinds of the Gateway API that a test uses, with the resource of each.
func gatewayCRDs() map[string]string {
	return map[string]string{"GatewayClass": "gatewayclasses", "Gateway": "gateways", "HTTPRoute": "httproutes",
		"TLSRoute": "tlsroutes", "ReferenceGrant": "referencegrants"}
}

// moduleDir is where a module is that the module in a directory has.
func moduleDir(t *testing.T, dir, module string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = dir
	out, err := list.Output()
	found := strings.TrimSpace(string(out))
	if err != nil || found == "" {
		t.Fatalf("%s: %v: %q (go mod download gets it)", list, err, out)
	}
	return found
}

// installGatewayAPI applies the CRDs as its documentation says, and waits until there is the class of a4s.
func (c *cluster) installGatewayAPI(t *testing.T) {
	t.Helper()
	// Of the standard channel, and of the version that a4s is built with.
	c.mustKubectl(t, "apply --server-side -f "+
		filepath.Join(moduleDir(t, "../..", "sigs.k8s.io/gateway-api"), "config/crd/standard"))
	for _, resource := range gatewayCRDs() {
		c.mustKubectl(t, "wait --for=condition=Established --timeout=2m crd/"+resource+"."+gatewayGroup)
	}
	c.waitCondition(t, "", "GatewayClass", "a4s", "Accepted=True", "")
}

// shareGatewayAPI lets tenants have the CRDs.
func (c *cluster) shareGatewayAPI(t *testing.T) {
	t.Helper()
	for _, resource := range gatewayCRDs() {
		c.mustKubectl(t, "annotate --overwrite crd/"+resource+"."+gatewayGroup+" "+crdSharing+"=optional")
	}
}

// deleteGatewayAPI deletes the CRDs, and with them all objects of theirs.
func (c *cluster) deleteGatewayAPI(t *testing.T) {
	t.Helper()
	for _, resource := range gatewayCRDs() {
		c.mustKubectl(t, "delete --timeout=2m crd/"+resource+"."+gatewayGroup)
	}
}

// gatewayObjects are those of a kind of the Gateway API in a namespace.
func (c *cluster) gatewayObjects(t *testing.T, ns, kind string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	resource := client.Resource(schema.GroupVersionResource{Group: gatewayGroup, Version: "v1",
		Resource: gatewayCRDs()[kind]})
	if ns == "" {
		return resource
	}
	return resource.Namespace(ns)
}

// gatewayObject is what a manifest says without its apiVersion.
func gatewayObject(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatalf("%v in %s", err, manifest)
	}
	o.SetAPIVersion(gatewayGroup + "/v1")
	return o
}

// applyGateway makes or changes an object of the Gateway API. Tenants have a CRD that is shared after a moment.
func (c *cluster) applyGateway(t *testing.T, ns, manifest string) {
	t.Helper()
	o := gatewayObject(t, manifest)
	hosts.Until(t, soon, fmt.Sprintf("%s %s is applied", o.GetKind(), o.GetName()), func(ctx context.Context) error {
		_, err := c.gatewayObjects(t, ns, o.GetKind()).Apply(ctx, o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	})
}

func (c *cluster) deleteGateway(t *testing.T, ns, kind, name string) {
	t.Helper()
	if err := c.gatewayObjects(t, ns, kind).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gatewayStatus is what an object of the Gateway API says of itself.
type gatewayStatus struct {
	Addresses  []struct{ Type, Value string }
	Conditions []metav1.Condition
	Listeners  []struct {
		Name           string
		AttachedRoutes int32
		Conditions     []metav1.Condition
	}
	Parents []struct {
		ControllerName string
		Conditions     []metav1.Condition
	}
}

func (c *cluster) gatewayStatus(ctx context.Context, t *testing.T, ns, kind, name string) (gatewayStatus, error) {
	t.Helper()
	o, err := c.gatewayObjects(t, ns, kind).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return gatewayStatus{}, err
	}
	b, err := o.MarshalJSON()
	if err != nil {
		return gatewayStatus{}, err
	}
	var all struct{ Status gatewayStatus }
	err = json.Unmarshal(b, &all)
	return all.Status, err
}

// conditions are those of an object itself, or as a route by a4s.
func (s gatewayStatus) conditions() []metav1.Condition {
	out := s.Conditions
	for _, p := range s.Parents {
		if p.ControllerName == gatewayController {
			out = append(out, p.Conditions...)
		}
	}
	return out
}

// waitCondition waits until an object of the Gateway API has a condition, such as "Accepted=True" or
// "ResolvedRefs=False RefNotPermitted", whose message has a part in it, and returns the message.
func (c *cluster) waitCondition(t *testing.T, ns, kind, name, want, part string) (message string) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("%s %s is %s %q", kind, name, want, part), func(ctx context.Context) error {
		status, err := c.gatewayStatus(ctx, t, ns, kind, name)
		if err != nil {
			return err
		}
		var all []string
		for _, is := range status.conditions() {
			text := fmt.Sprintf("%s=%s %s", is.Type, is.Status, is.Reason)
			if (text == want || strings.HasPrefix(text, want+" ")) && strings.Contains(is.Message, part) {
				message = is.Message
				return nil
			}
			all = append(all, text+": "+is.Message)
		}
		return fmt.Errorf("it is %q", all)
	})
	return message
}

// waitGateway waits until a Gateway takes requests at all of these addresses.
func (c *cluster) waitGateway(t *testing.T, ns, name string, want ...string) {
	t.Helper()
	c.waitCondition(t, ns, "Gateway", name, "Accepted=True", "")
	c.waitCondition(t, ns, "Gateway", name, "Programmed=True", "")
	slices.Sort(want)
	hosts.Until(t, soon, fmt.Sprintf("Gateway %s has the addresses %v", name, want), func(ctx context.Context) error {
		status, err := c.gatewayStatus(ctx, t, ns, "Gateway", name)
		if err != nil {
			return err
		}
		var got []string
		for _, at := range status.Addresses {
			if at.Type != "IPAddress" {
				t.Errorf("%s is of type %s", at.Value, at.Type)
			}
			got = append(got, at.Value)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// waitRoute waits until a route has all that it names.
func (c *cluster) waitRoute(t *testing.T, ns, name string) {
	t.Helper()
	c.waitCondition(t, ns, "HTTPRoute", name, "Accepted=True", "")
	c.waitCondition(t, ns, "HTTPRoute", name, "ResolvedRefs=True", "")
}

// route is an HTTPRoute of Gateway edge in the same namespace. Hostnames and rules are in the flow style of YAML.
func route(name, hostnames, rules string) string {
	return fmt.Sprintf("{kind: HTTPRoute, metadata: {name: %s}, spec: {parentRefs: [{name: edge}], "+
		"hostnames: %s, rules: %s}}", name, hostnames, rules)
}

// toService is a rule that sends all requests to port 80 of a Service.
func toService(name string) string {
	return fmt.Sprintf("[{backendRefs: [{name: %s, port: 80}]}]", name)
}

// edgeGateway is the Gateway that routes of this name go by: HTTP for all hosts, of all namespaces.
const edgeGateway = `{kind: Gateway, metadata: {name: edge}, spec: {gatewayClassName: a4s, listeners: [
  {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}}`

// waitPods waits until the pods that answer for a host at both nodes are of this name.
func (g *gatewayTest) waitPods(t *testing.T, host, pod string) {
	t.Helper()
	for _, ip := range []string{g.near, g.far} {
		g.waitPodOf(t, ip, host, pod)
	}
}

// waitStatuses waits until both nodes answer for a host with a status.
func (g *gatewayTest) waitStatuses(t *testing.T, host string, status int) {
	t.Helper()
	for _, ip := range []string{g.near, g.far} {
		g.waitStatus(t, ip, host, "/request/", status)
	}
}

// each asks both nodes once, with a method or GET, and checks what comes back.
func (g *gatewayTest) each(t *testing.T, method, host, path string, headers []string, check func(answer) error) {
	t.Helper()
	for _, ip := range []string{g.near, g.far} {
		a, err := request(t.Context(), g.http, method, "http://"+ip+path, host, headers...)
		if err == nil {
			err = check(a)
		}
		if err != nil {
			t.Errorf("%s %s of %s at %s: %v: %+v with %v", method, path, host, ip, err, a, a.said)
		}
	}
}

// isPod is a check that a pod answered.
func isPod(pod string) func(answer) error {
	return func(a answer) error {
		if a.status != http.StatusOK || a.Pod != pod {
			return fmt.Errorf("want an answer of pod %s", pod)
		}
		return nil
	}
}
