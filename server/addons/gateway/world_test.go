package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
)

// world is a cluster as one space sees it.
type world struct {
	tenant     string
	gateways   []*gatewayv1.Gateway
	routes     []*gatewayv1.HTTPRoute
	grpc       []*gatewayv1.GRPCRoute
	tls        []*gatewayv1.TLSRoute
	ingresses  map[string]int64 // that open connections, by host and age
	grants     []*gatewayv1.ReferenceGrant
	services   map[string]*corev1.Service
	secrets    map[string]bool
	namespaces map[string]map[string]string
	refused    map[string]string // messages, by host
	addresses  []string
	now        time.Time
	asked      []string // the namespaces that the View was asked for something in
	hosts      []string // those that the View was asked for
}

// basics are in each world.
const basics = `
{kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}, {port: 53, protocol: UDP}]}}
---
{kind: Service, metadata: {name: api}, spec: {ports: [{port: 8080}]}}
---
{kind: Service, metadata: {name: far, namespace: other}, spec: {ports: [{port: 80}]}}
---
{kind: Service, metadata: {name: outside}, spec: {type: ExternalName, externalName: a.b, ports: [{port: 80}]}}
---
{kind: Service, metadata: {name: odd}, spec: {ports: [{port: 1, appProtocol: kubernetes.io/wss},
  {port: 2, appProtocol: kubernetes.io/h2c}, {port: 3, appProtocol: tls}, {port: 4, appProtocol: http}]}}
---
{kind: Secret, metadata: {name: cert}}
---
{kind: Secret, metadata: {name: second}}
---
{kind: Secret, metadata: {name: far, namespace: other}}
---
{kind: Namespace, metadata: {name: default, labels: {team: a}}}
---
{kind: Namespace, metadata: {name: other, labels: {team: b, a4s.io/tenant: t1}}}
`

// gw is a Gateway that takes routes of its namespace for every host.
const gw = "{kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: a4s, " +
	"listeners: [{name: http, port: 80, protocol: HTTP}]}}\n"

// worldOf reads objects in YAML, with native namespaces, "default" if they have none. Later ones are younger.
func worldOf(t testing.TB, tenant string, documents ...string) *world {
	t.Helper()
	w := &world{tenant: tenant, services: map[string]*corev1.Service{}, secrets: map[string]bool{},
		namespaces: map[string]map[string]string{}, addresses: []string{"192.0.2.1", "2001:db8::1"},
		refused: map[string]string{}, now: time.Unix(2e9, 5)}
	all := strings.Join(append([]string{basics}, documents...), "\n---\n")
	for i, document := range strings.Split(all, "\n---\n") {
		if strings.TrimSpace(document) != "" {
			w.add(t, i, document)
		}
	}
	return w
}

func (w *world) add(t testing.TB, age int, document string) {
	t.Helper()
	var meta struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	decode := func(into any) {
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
	}
	decode(&meta)
	place := func(m *metav1.ObjectMeta) string {
		if m.Namespace == "" {
			m.Namespace = "default"
		}
		m.Namespace, m.Generation = space.Namespace(w.tenant, m.Namespace), 7
		if m.CreationTimestamp.IsZero() {
			m.CreationTimestamp = metav1.Unix(1e9+int64(age), 0)
		}
		return m.Namespace + "/" + m.Name
	}
	switch meta.Kind {
	case "Gateway":
		o := &gatewayv1.Gateway{}
		decode(o)
		place(&o.ObjectMeta)
		w.gateways = append(w.gateways, o)
	case "HTTPRoute":
		o := &gatewayv1.HTTPRoute{}
		decode(o)
		place(&o.ObjectMeta)
		w.routes = append(w.routes, o)
	case "GRPCRoute":
		o := &gatewayv1.GRPCRoute{}
		decode(o)
		place(&o.ObjectMeta)
		w.grpc = append(w.grpc, o)
	case "TLSRoute":
		o := &gatewayv1.TLSRoute{}
		decode(o)
		place(&o.ObjectMeta)
		w.tls = append(w.tls, o)
	case "ReferenceGrant":
		o := &gatewayv1.ReferenceGrant{}
		decode(o)
		place(&o.ObjectMeta)
		w.grants = append(w.grants, o)
	case "Service":
		o := &corev1.Service{}
		decode(o)
		w.services[place(&o.ObjectMeta)] = o
	case "Secret":
		w.secrets[place(&meta.Metadata)] = true
	case "Namespace":
		name := space.Namespace(w.tenant, meta.Metadata.Name)
		w.namespaces[name] = maps.Clone(meta.Metadata.Labels)
		w.namespaces[name][corev1.LabelMetadataName] = name
	default:
		t.Fatalf("kind %q in %s", meta.Kind, document)
	}
}

func (w *world) view() View {
	w.hosts = nil
	ask := func(namespace, name string) string {
		w.asked = append(w.asked, namespace)
		return namespace + "/" + name
	}
	return View{
		Tenant: w.tenant, Gateways: w.gateways, Routes: w.routes, GRPCRoutes: w.grpc, TLSRoutes: w.tls,
		Grants:    w.grants,
		Addresses: w.addresses, Now: metav1.NewTime(w.now),
		Ours: func(class string) bool { return class == ClassName },
		Labels: func(namespace string) (map[string]string, bool) {
			labels, found := w.namespaces[namespace]
			return labels, found
		},
		Service: func(namespace, name string) *corev1.Service { return w.services[ask(namespace, name)] },
		Secret: func(namespace, name string) string {
			if w.secrets[ask(namespace, name)] {
				return ""
			}
			return "there is none"
		},
		Host: func(host string) (string, string) {
			w.hosts = append(w.hosts, host)
			if why := w.refused[host]; why != "" {
				return "HostTaken", why
			}
			return "", ""
		},
		Opened: func(host string, since metav1.Time) bool {
			at, ok := w.ingresses[host]
			return ok && at <= since.Unix()
		},
	}
}

// resolve resolves the space, and checks what is so for all of them.
func (w *world) resolve(t *testing.T) *Result {
	t.Helper()
	out := Resolve(w.view())
	for _, wrong := range w.wrong(out) {
		t.Error(wrong)
	}
	return out
}

// wrong is what must not be, whatever the objects are.
func (w *world) wrong(r *Result) (wrong []string) {
	inside := func(namespace string) {
		if !sameSpace(space.OfNamespace(namespace), w.tenant) {
			wrong = append(wrong, "namespace "+namespace+" is of another space")
		}
	}
	for _, namespace := range w.asked {
		inside(namespace)
	}
	if len(r.Rules) > mostRules {
		wrong = append(wrong, fmt.Sprintf("there are %d rules", len(r.Rules)))
	}
	passed, opened := map[string]int{}, map[string]bool{}
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.Kind == KindTLS {
			if passed[rule.Host]++; rule.Host == anyHost || !reflect.ValueOf(rule.Path).IsZero() {
				wrong = append(wrong, fmt.Sprintf("there is the rule %+v", rule))
			}
		} else if rule.Path.Scheme != schemeHTTP {
			opened[rule.Host] = true
		}
		inside(r.Rules[i].Route.Namespace)
		for _, target := range r.Rules[i].To {
			if !target.Broken {
				inside(target.Namespace)
			}
		}
	}
	for host, n := range passed {
		if n > 1 || opened[host] {
			wrong = append(wrong, fmt.Sprintf("connections for %s are of %d routes, and opened: %v", host, n,
				opened[host]))
		}
	}
	for i, c := range r.Certificates {
		inside(c.Namespace)
		if i > 0 && r.Certificates[i-1].Host >= c.Host {
			wrong = append(wrong, "host "+c.Host+" has several certificates")
		}
	}
	ours := []string{"Accepted", "Programmed", "ResolvedRefs", "Conflicted", "OverlappingTLSConfig",
		"PartiallyInvalid"}
	said := func(of string, list []metav1.Condition) {
		for _, c := range list {
			if c.LastTransitionTime.IsZero() || c.LastTransitionTime.Nanosecond() != 0 || len(list) > mostConditions ||
				slices.Contains(ours, c.Type) && (len(c.Message) > mostMessage || c.Reason == "") {
				wrong = append(wrong, fmt.Sprintf("%s has condition %+v", of, c))
			}
		}
	}
	for name, status := range r.Gateways {
		inside(name.Namespace)
		said(name.String(), status.Conditions)
		for i := range status.Listeners {
			said(name.String(), status.Listeners[i].Conditions)
		}
	}
	for _, routes := range []map[types.NamespacedName][]gatewayv1.RouteParentStatus{r.Routes, r.GRPCRoutes,
		r.TLSRoutes} {
		for name, parents := range routes {
			inside(name.Namespace)
			if len(parents) > mostParents {
				wrong = append(wrong, name.String()+" has too many parents")
			}
			for i := range parents {
				said(name.String(), parents[i].Conditions)
			}
		}
	}
	return wrong
}

// conditionsOf are conditions as "Type=Status/Reason", with those left out that say that all is well.
func conditionsOf(list []metav1.Condition) string {
	var out []string
	for _, c := range list {
		if c.Status == metav1.ConditionTrue && c.Reason == c.Type || c.Reason == "NoConflicts" {
			continue
		}
		out = append(out, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func messageOf(list []metav1.Condition, typ string) string {
	for _, c := range list {
		if c.Type == typ {
			return c.Message
		}
	}
	return ""
}

// rulesOf are rules as "host [scheme] [=]path [conditions] > backends".
func (r *Result) rulesOf() (out []string) {
	for i := range r.Rules {
		rule := &r.Rules[i]
		words := []string{rule.Host}
		if rule.Host == "" {
			words[0] = "any"
		}
		if rule.Path.Scheme != "" {
			words = append(words, rule.Path.Scheme)
		}
		if rule.Kind == KindTLS {
			words = append(words, "passed")
		}
		if rule.Path.Exact {
			words = append(words, "="+rule.Path.Path)
		} else if rule.Kind != KindTLS {
			words = append(words, rule.Path.Path)
		}
		if rule.Path.Method != "" {
			words = append(words, rule.Path.Method)
		}
		for _, v := range rule.Path.Headers {
			words = append(words, v.Name+":"+v.Value)
		}
		for _, v := range rule.Path.Query {
			words = append(words, "?"+v.Name+"="+v.Value)
		}
		if rule.Path.Timeout+rule.Path.BackendTimeout > 0 {
			words = append(words, rule.Path.Timeout.String()+"/"+rule.Path.BackendTimeout.String())
		}
		words = append(words, filtersText(rule.Path.Filters)+">")
		for _, to := range rule.To {
			words = append(words, targetText(to))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func filtersText(f *joinapi.IngressFilters) string {
	if f == nil {
		return ""
	}
	out, _ := json.Marshal(f) // strings and numbers only
	return string(out)
}

func targetText(to Target) string {
	out := to.Namespace + "/" + to.Service + ":" + strconv.Itoa(int(to.Port))
	if to.Broken {
		out = "500"
	}
	if to.Weight != 1 {
		out += "*" + strconv.Itoa(int(to.Weight))
	}
	return out + filtersText(to.Filters)
}

// parentsOf are the entries of a route of the namespace "default", each as its conditions.
func (w *world) parentsOf(r *Result, route string) (out []string) {
	for _, p := range r.Routes[w.name(route)] {
		out = append(out, conditionsOf(p.Conditions))
	}
	return out
}

func (w *world) name(native string) types.NamespacedName {
	namespace, name, ok := strings.Cut(native, "/")
	if !ok {
		namespace, name = "default", native
	}
	return types.NamespacedName{Namespace: space.Namespace(w.tenant, namespace), Name: name}
}

// route is an HTTPRoute "r" of Gateway "gw".
func routeYAML(spec string) string {
	return "{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: gw}], " + spec + "}}"
}
