package ingress

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
)

// change makes an Ingress what a test needs.
type change func(*networkingv1.Ingress)

func all(changes ...change) change {
	return func(ingress *networkingv1.Ingress) {
		for _, f := range changes {
			f(ingress)
		}
	}
}

func metaOf(key string) metav1.ObjectMeta {
	namespace, name, _ := strings.Cut(key, "/")
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(key)}
}

// ing is an Ingress of the class, with an age in seconds.
func ing(key string, age int, changes ...change) *networkingv1.Ingress {
	class := ClassName
	out := &networkingv1.Ingress{ObjectMeta: metaOf(key), Spec: networkingv1.IngressSpec{IngressClassName: &class}}
	out.CreationTimestamp = metav1.NewTime(time.Unix(int64(1e9-age), 0))
	all(changes...)(out)
	return out
}

// to is a backend: "service:port".
func to(backend string) networkingv1.IngressBackend {
	service, port, _ := strings.Cut(backend, ":")
	out := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service}}
	if number, err := strconv.Atoi(port); err == nil {
		out.Service.Port.Number = int32(number)
	} else {
		out.Service.Port.Name = port
	}
	return out
}

// rule has requests go to backends by paths: "Prefix /path service:port".
func rule(host string, paths ...string) change {
	return func(ingress *networkingv1.Ingress) {
		r := networkingv1.IngressRule{Host: host}
		for _, text := range paths {
			words := strings.Split(text, " ")
			kind := networkingv1.PathType(words[0])
			if r.HTTP == nil {
				r.HTTP = &networkingv1.HTTPIngressRuleValue{}
			}
			r.HTTP.Paths = append(r.HTTP.Paths,
				networkingv1.HTTPIngressPath{Path: words[1], PathType: &kind, Backend: to(words[2])})
		}
		ingress.Spec.Rules = append(ingress.Spec.Rules, r)
	}
}

func otherwise(backend string) change {
	return func(ingress *networkingv1.Ingress) {
		b := to(backend)
		ingress.Spec.DefaultBackend = &b
	}
}

func tlsOf(secret string, hosts ...string) change {
	return func(ingress *networkingv1.Ingress) {
		ingress.Spec.TLS = append(ingress.Spec.TLS, networkingv1.IngressTLS{SecretName: secret, Hosts: hosts})
	}
}

func ofClass(class string) change {
	return func(ingress *networkingv1.Ingress) { ingress.Spec.IngressClassName = &class }
}

// svc is a Service with ports: "name:number".
func svc(key string, ports ...string) *corev1.Service {
	out := &corev1.Service{ObjectMeta: metaOf(key), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	for _, p := range ports {
		name, number, _ := strings.Cut(p, ":")
		n, _ := strconv.Atoi(number)
		out.Spec.Ports = append(out.Spec.Ports, corev1.ServicePort{Name: name, Port: int32(n)})
	}
	return out
}

// slice is an EndpointSlice of a Service with a port without a name: endpoints are "address", with "-" before
// one that is not ready, and "~" before one that ends and serves.
func slice(service string, port int32, endpoints ...string) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{ObjectMeta: metaOf(service), AddressType: discoveryv1.AddressTypeIPv4}
	out.Labels = map[string]string{discoveryv1.LabelServiceName: out.Name}
	out.Name += "-1"
	name, no, yes := "", false, true
	out.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port}}
	for _, text := range endpoints {
		address, e := strings.TrimLeft(text, "-~"), discoveryv1.Endpoint{}
		e.Addresses = []string{address}
		switch text[0] {
		case '-':
			e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &no}
		case '~':
			e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	return out
}

func secretOf(key string, chain, private []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metaOf(key), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: private}}
}

// issue makes a certificate and its key, in PEM.
func issue(t testing.TB, key crypto.Signer) (chain, private []byte) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

func good(t testing.TB, key string) *corev1.Secret {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	chain, text := issue(t, private)
	return secretOf(key, chain, text)
}

// world is what there is.
type world struct {
	ingresses []*networkingv1.Ingress
	services  []*corev1.Service
	slices    []*discoveryv1.EndpointSlice
	secrets   []*corev1.Secret
	owners    map[string]string // by address
	policy    *policy
	holders   *holders // everybody holds everything without it
	gateways  []*gatewayv1.Gateway
	tlsRoutes []*gatewayv1.TLSRoute
}

// view is what a tenant is resolved from.
func (w *world) view(tenant string) view {
	v := view{tenant: tenant, refuse: func(string) string { return "" },
		takenBy: func(string) (string, string) { return "", "" },
		holds:   func(string) bool { return true },
		owns:    func(addr netip.Addr) bool { return w.owners[addr.String()] == tenant },
		service: func(namespace, name string) *corev1.Service {
			return named(w.services, namespace, name)
		},
		secret: func(namespace, name string) *corev1.Secret { return named(w.secrets, namespace, name) },
		endpoints: func(namespace, service string) (out []*discoveryv1.EndpointSlice) {
			for _, s := range w.slices {
				if s.Namespace == namespace && s.Labels[discoveryv1.LabelServiceName] == service {
					out = append(out, s)
				}
			}
			return out
		},
	}
	if w.policy != nil {
		v.refuse = func(host string) string { return w.policy.refuse(tenant, host) }
	}
	if w.holders != nil {
		v.takenBy = func(host string) (string, string) { return w.holders.takenFrom(tenant, host, w.policy) }
		v.holds = func(host string) bool { return w.holders.holder(host) == tenant }
	}
	for _, ingress := range w.ingresses {
		if space.OfNamespace(ingress.Namespace) == tenant {
			v.ingresses = append(v.ingresses, ingress)
		}
	}
	v.routes.ours = func(class string) bool { return class == ClassName }
	v.routes.labels = func(string) (map[string]string, bool) { return nil, true }
	for _, gw := range w.gateways {
		if space.OfNamespace(gw.Namespace) == tenant {
			v.routes.gateways = append(v.routes.gateways, gw)
		}
	}
	for _, route := range w.tlsRoutes {
		if space.OfNamespace(route.Namespace) == tenant {
			v.routes.tlsRoutes = append(v.routes.tlsRoutes, route)
		}
	}
	return v
}

func named[T metav1.Object](all []T, namespace, name string) (none T) {
	for _, o := range all {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return none
}

// show is a result as lines of text.
func (r *result) show() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(r.hosts)) {
		h := r.hosts[name]
		text := fmt.Sprintf("%s of %s:", name, h.Tenant)
		for _, p := range h.Paths {
			exact := ""
			if p.Exact {
				exact = "="
			}
			text += fmt.Sprintf(" %s%s>%s", exact, p.Path, p.Backend)
		}
		if h.Certificate != "" {
			text += " tls " + h.Certificate
		}
		if h.Passthrough != nil {
			text += " passed"
			for _, p := range h.Passthrough.Split {
				text += fmt.Sprintf(" %s*%d", p.Backend, p.Weight)
			}
		}
		out = append(out, text)
	}
	return out
}

// goes is where requests for a backend go, as text, with its protocol.
func (r *result) goes(id string) string {
	b := r.backends[id]
	if b == nil {
		return "none"
	}
	out := b.Protocol
	for _, e := range b.Endpoints {
		out += " " + e.String()
	}
	return out
}

// said is what is wrong, in the order of the Ingresses.
func (r *result) said() (out []string) {
	for _, key := range slices.Sorted(maps.Keys(r.problems)) {
		for _, p := range r.problems[key] {
			out = append(out, key+" "+p.reason+": "+p.message)
		}
	}
	return out
}

// sound says what is not as nodes may depend on it.
func (r *result) sound(tenant string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for key, line := range linesOf(r) {
		if tenantOf(line) != tenant {
			say("%s is of %q", key, tenantOf(line))
		}
	}
	ours := func(id string) bool {
		namespace, _, _ := strings.Cut(id, "/")
		return space.OfNamespace(namespace) == tenant
	}
	for name, h := range r.hosts {
		if h.Name != name {
			say("host %q is called %q", name, h.Name)
		}
		if h.Certificate != "" && (r.certificates[h.Certificate] == nil || !ours(h.Certificate)) {
			say("host %q has the certificate %q", name, h.Certificate)
		}
		for _, p := range h.Paths {
			if r.backends[p.Backend] == nil || !ours(p.Backend) {
				say("host %q has the backend %q", name, p.Backend)
			}
		}
		if h.Passthrough != nil {
			for _, p := range h.Passthrough.Split {
				if p.Backend != "" && (r.backends[p.Backend] == nil || !ours(p.Backend)) || p.Filters != nil {
					say("host %q has connections passed on to %+v", name, p)
				}
			}
		}
		if !slices.IsSortedFunc(h.Paths, func(a, b joinapi.IngressPath) int { return len(b.Path) - len(a.Path) }) {
			say("paths of %q are in the order %v", name, h.Paths)
		}
	}
	return wrong
}
