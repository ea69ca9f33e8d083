package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/space"
)

func TestBackends(t *testing.T) {
	endpoints := slice("default.t1/web", 8080, "10.42.0.1")
	for name, c := range map[string]struct {
		backend string
		service *corev1.Service
		id      string
		goes    string
		said    string
	}{
		"a port by its number": {"web:80", svc("default.t1/web", ":80"), "web:80", "http 10.42.0.1:8080", ""},
		"a port by its name":   {"web:http", portCalled("http", 80), "web:http", "http 10.42.0.1:8080", ""},
		"a number that it has not": {"web:81", svc("default.t1/web", ":80"), "web:81", "",
			"Service web has no port 81"},
		"a name that it has not":  {"web:x", portCalled("http", 80), "web:x", "", "Service web has no port x"},
		"a Service of a neighbor": {"web:80", svc("default.t2/web", ":80"), "web:80", "", "there is no Service web"},
		"a Service of another namespace": {"web:80", svc("other.t1/web", ":80"), "web:80", "",
			"there is no Service web"},
		"a Service of the system": {"web:80", svc("default/web", ":80"), "web:80", "", "there is no Service web"},
		"a name of something outside": {"web:80", typed(svc("default.t1/web", ":80"), corev1.ServiceTypeExternalName),
			"web:80", "", "Service web is a name of something outside; requests go to pods only"},
		"a port that is not of TCP": {"web:80", over(svc("default.t1/web", ":80"), corev1.ProtocolUDP), "web:80", "",
			"Service web has no port 80"},
		"a port that is of TCP": {"web:80", over(svc("default.t1/web", ":80"), corev1.ProtocolTCP), "web:80",
			"http 10.42.0.1:8080", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{ingresses: one(rule("a.x", "Prefix / "+c.backend)), services: list(c.service),
				slices: list(endpoints), owners: map[string]string{"10.42.0.1": "t1"}}
			if c.service.Spec.Ports[0].Name != "" {
				w.slices[0] = endpoints.DeepCopy()
				w.slices[0].Ports[0].Name = &c.service.Spec.Ports[0].Name
			}
			r := resolve(w.view("t1"))
			if got := r.goes("default.t1/" + c.id); got != c.goes ||
				r.hosts["a.x"].Paths[0].Backend != "default.t1/"+c.id {
				t.Errorf("requests go to %q, want %q: %v", got, c.goes, r.show())
			}
			if said := strings.Join(r.said(), ""); (said == "") != (c.said == "") || !strings.HasSuffix(said, c.said) {
				t.Errorf("it is told %q, want %q", said, c.said)
			}
			if wrong := r.sound("t1"); len(wrong) > 0 {
				t.Error(wrong)
			}
		})
	}
}

func portCalled(name string, number int32) *corev1.Service {
	return svc("default.t1/web", fmt.Sprintf("%s:%d", name, number))
}

func typed(s *corev1.Service, as corev1.ServiceType) *corev1.Service {
	s.Spec.Type = as
	return s
}

func over(s *corev1.Service, protocol corev1.Protocol) *corev1.Service {
	s.Spec.Ports[0].Protocol = protocol
	return s
}

// The port of TCP is found beside one of UDP with the same number.
func TestAPortBesideThatOfUDP(t *testing.T) {
	s := svc("default.t1/web", "dns:53", "dns-tcp:53")
	s.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	if got := portOf(s, to("web:53").Service.Port); got == nil || got.Name != "dns-tcp" {
		t.Errorf("it is %+v", got)
	}
}

func TestABackendThatIsNoService(t *testing.T) {
	w := &world{ingresses: one(rule("a.x", "Prefix / web:80"), otherwise("web:80"))}
	w.ingresses[0].Spec.Rules[0].HTTP.Paths[0].Backend = networkingv1.IngressBackend{
		Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}}
	r := resolve(w.view("t1"))
	if wrong := r.sound("t1"); len(wrong) > 0 || r.goes(r.hosts["a.x"].Paths[0].Backend) != "" {
		t.Errorf("%v: %v", wrong, r.show())
	}
	if got := r.said(); len(got) != 1 || !strings.Contains(got[0], "backends are Services here") {
		t.Errorf("it is told %q", got)
	}
}

func TestWhatEndpointsSpeak(t *testing.T) {
	for _, c := range []struct{ port, app, want string }{
		{"web:80", "-", "http"}, {"web:443", "-", "https"}, {"https:8443", "-", "https"},
		{"https-web:1", "-", "https"},
		{"http:1", "-", "http"}, {"https:443", "http", "http"}, {"https:443", "", "http"},
		{"web:80", "HTTPS", "https"},
		{"web:80", "kubernetes.io/h2c", "h2c"}, {"web:80", "h2c", "h2c"}, {"web:443", "GRPC", "h2c"},
		{"web:443", "kubernetes.io/ws", "http"}, {"web:443", "mycompany.com/own", "http"},
	} {
		port := &svc("default.t1/web", c.port).Spec.Ports[0]
		if c.app != "-" {
			port.AppProtocol = &c.app
		}
		if got := protocolOf(port); got != c.want {
			t.Errorf("port %s with appProtocol %q speaks %s, want %s", c.port, c.app, got, c.want)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for name, c := range map[string]struct {
		slices    []*discoveryv1.EndpointSlice
		want      string
		strangers bool
	}{
		"none": {nil, "http", false},
		"those ready": {list(slice("default.t1/web", 1, "10.42.0.2", "10.42.0.1", "-10.42.0.3")),
			"http 10.42.0.1:1 10.42.0.2:1", false},
		"ready beats end": {list(slice("default.t1/web", 1, "~10.42.0.2", "10.42.0.1")), "http 10.42.0.1:1", false},
		"those that end":  {list(slice("default.t1/web", 1, "~10.42.0.2", "-10.42.0.1")), "http 10.42.0.2:1", false},
		"none of use":     {list(slice("default.t1/web", 1, "-10.42.0.1")), "http", false},
		"each once": {list(slice("default.t1/web", 1, "10.42.0.1"), slice("default.t1/web", 1, "10.42.0.1")),
			"http 10.42.0.1:1", false},
		"of several slices": {list(slice("default.t1/web", 1, "10.42.0.1"), slice("default.t1/web", 2, "10.42.0.2")),
			"http 10.42.0.1:1 10.42.0.2:2", false},
		"a neighbor's pod": {list(slice("default.t1/web", 1, "10.42.0.1", "10.42.9.1")), "http 10.42.0.1:1", true},
		"a pod of the system, the node, the world and itself": {
			list(slice("default.t1/web", 1, "10.42.9.2", "192.0.2.1", "127.0.0.1", "169.254.169.254")), "http", true},
		"a stranger that is not ready": {list(slice("default.t1/web", 1, "-10.42.9.1")), "http", false},
		"a stranger that ends":         {list(slice("default.t1/web", 1, "~10.42.9.1")), "http", true},
		"an address in the other form": {list(slice("default.t1/web", 1, "::ffff:10.42.0.1")),
			"http 10.42.0.1:1", false},
		"a stranger in the other form":  {list(slice("default.t1/web", 1, "::ffff:10.42.9.1")), "http", true},
		"an address of IPv6":            {list(slice("default.t1/web", 1, "fd00::1")), "http [fd00::1]:1", false},
		"no address":                    {list(slice("default.t1/web", 1, "web.x")), "http", false},
		"a slice of names":              {list(fqdn(slice("default.t1/web", 1, "10.42.0.1"))), "http", false},
		"a slice of another Service":    {list(slice("default.t1/api", 1, "10.42.0.1")), "http", false},
		"a slice of another tenant":     {list(slice("default.t2/web", 1, "10.42.0.1")), "http", false},
		"a port of another name":        {list(called(slice("default.t1/web", 1, "10.42.0.1"), "x")), "http", false},
		"a number that no port can be":  {list(slice("default.t1/web", 70000, "10.42.0.1")), "http", false},
		"a number that is none":         {list(slice("default.t1/web", 0, "10.42.0.1")), "http", false},
		"an endpoint without addresses": {list(bare(slice("default.t1/web", 1, "10.42.0.1"))), "http", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{ingresses: one(rule("a.x", "Prefix / web:80")), services: list(svc("default.t1/web", ":80")),
				slices: c.slices, owners: map[string]string{"10.42.0.1": "t1", "10.42.0.2": "t1", "10.42.0.3": "t1",
					"fd00::1": "t1", "10.42.9.1": "t2", "10.42.9.2": space.System}}
			r := resolve(w.view("t1"))
			if got := r.goes("default.t1/web:80"); got != c.want || r.strangers != c.strangers {
				t.Errorf("requests go to %q, want %q; strangers: %v", got, c.want, r.strangers)
			}
		})
	}
}

func fqdn(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.AddressType = discoveryv1.AddressTypeFQDN
	return s
}

func called(s *discoveryv1.EndpointSlice, port string) *discoveryv1.EndpointSlice {
	s.Ports[0].Name = &port
	return s
}

func bare(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.Endpoints[0].Addresses = nil
	return s
}

// The cluster itself may have requests go wherever it likes: to a node, to a tenant.
func TestEndpointsOfTheSystem(t *testing.T) {
	w := &world{ingresses: list(ing("default/a", 1, otherwise("web:80"))), services: list(svc("default/web", ":80")),
		slices: list(slice("default/web", 1, "192.0.2.1", "10.42.9.1")), owners: map[string]string{"10.42.9.1": "t2"}}
	r := resolve(w.view(space.System))
	if got := r.goes("default/web:80"); got != "http 10.42.9.1:1 192.0.2.1:1" || r.strangers {
		t.Errorf("requests go to %q; strangers: %v", got, r.strangers)
	}
	if wrong := r.sound(space.System); len(wrong) > 0 {
		t.Error(wrong)
	}
}

func TestAPortHasSoManyEndpoints(t *testing.T) {
	w := &world{ingresses: one(rule("a.x", "Prefix / web:80")), services: list(svc("default.t1/web", ":80")),
		owners: map[string]string{}}
	for i := range mostEndpoints + 100 {
		address := fmt.Sprintf("10.42.%d.%d", i/250, i%250)
		w.owners[address] = "t1"
		w.slices = append(w.slices, slice("default.t1/web", 1, address))
	}
	first := resolve(w.view("t1")).backends["default.t1/web:80"].Endpoints
	slices.Reverse(w.slices)
	second := resolve(w.view("t1")).backends["default.t1/web:80"].Endpoints
	if len(first) != mostEndpoints || !slices.Equal(first, second) {
		t.Errorf("there are %d, and the same of them in another order: %v", len(first), slices.Equal(first, second))
	}
}
