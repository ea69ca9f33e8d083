package gateway

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// ControllerName is that of GatewayClasses, and of entries in the status of routes.
	ControllerName = "a4s.io/gateway"
	// ClassName is the name of the GatewayClass.
	ClassName = "a4s"
)

// Kinds of routes.
const (
	KindHTTP = "HTTPRoute"
	KindGRPC = "GRPCRoute"
	KindTLS  = "TLSRoute"
)

// Bounds of one space.
const (
	mostSteps  = 500000 // of comparisons
	mostRoutes = 5000   // of all kinds together, that name a Gateway of this controller
	mostRules  = 20000
	mostHosts  = 8000    // that are looked at
	mostBytes  = 8 << 20 // of all rules; nodes keep them in their memory
)

// costOfEntry is how many steps an entry of a status takes: that of a listener, or of a parent of a route. It is for
// the memory that the entry holds, and must not depend on the present status: else a route at the edge of the bounds
// would be left out and taken in by turns.
const costOfEntry = 32

// View is what a space is resolved from. All objects have composite names; what they say of namespaces is native.
type View struct {
	Tenant string
	// Ours reports whether a GatewayClass is of this controller.
	Ours       func(class string) bool
	Gateways   []*gatewayv1.Gateway
	Routes     []*gatewayv1.HTTPRoute
	GRPCRoutes []*gatewayv1.GRPCRoute
	TLSRoutes  []*gatewayv1.TLSRoute
	Grants     []*gatewayv1.ReferenceGrant
	// Labels are those of a namespace.
	Labels func(namespace string) (labels map[string]string, found bool)
	// Service is nil if there is none. It is asked for every Service that the space depends on.
	Service func(namespace, name string) *corev1.Service
	// Secret says why a Secret has no certificate that can be used; empty if it has one. It is asked for every
	// Secret that the space depends on.
	Secret func(namespace, name string) (why string)
	// Host says why the space gets no requests for a host, as reason and message of a condition. Both are empty if
	// it may have it, or is about to. To ask is to claim: the space wants each host that it is asked for, "" for any
	// and "*.x.y" for wildcards, once each. It is asked for those of listeners with a certificate, and, in the order
	// of age, for those of routes, also where none of the rules of a route can be done: who makes a route invalid
	// for a while must not lose its hosts. It is not asked for those of routes that are beyond a bound.
	Host func(host string) (reason, message string)
	// Opened reports whether something else than a route, and not younger than a time, has connections with TLS for a
	// host opened: these are not passed on then. It may be nil.
	Opened func(host string, since metav1.Time) bool
	// Addresses are the IPs at which requests are taken.
	Addresses []string
	// Now is the time of transitions of conditions.
	Now metav1.Time
}

// Result is what a space comes to. Its parts share memory with each other and with the View: they are to be read only.
type Result struct {
	// Rules are in the order of age of their routes, and those of a route for a host in the order of the route.
	Rules []Rule
	// Certificates are one for each host that has rules for TLS, or a listener with TLS, in the order of the hosts.
	Certificates []Certificate
	// Gateways has the whole status of each Gateway of this controller.
	Gateways map[types.NamespacedName]*gatewayv1.GatewayStatus
	// Routes has, for every HTTPRoute, the entries of this controller, which may be none; the others are alike. A
	// route that is left out has one entry, whatever number of parents it names.
	Routes, GRPCRoutes, TLSRoutes map[types.NamespacedName][]gatewayv1.RouteParentStatus
}

// Rule is a match of a route for a host. Names of headers are in canonical form; headers and parameters are sorted.
// Paths are decoded.
type Rule struct {
	Host string
	// Path has no backends. That of a TLSRoute is empty: it has all connections with TLS for the host, which are not
	// opened, and there is no other rule of a TLSRoute for the host.
	Path joinapi.IngressPath
	// To has the backends; without any, or any weight, requests are answered with 500, those of gRPC with 503, and
	// connections are closed.
	To []Target
	// Kind and Route are of which route it is.
	Kind    string
	Route   types.NamespacedName
	Created metav1.Time
}

// Target is a backend.
type Target struct {
	Namespace, Service string
	Port               int32
	Weight             int32
	Filters            *joinapi.IngressFilters
	// Broken has requests answered with 500, those of gRPC with 503, and connections closed.
	Broken bool
	// HTTP2 has requests sent by HTTP/2 whatever the port says, as gRPC needs.
	HTTP2 bool
}

// Certificate is which Secret the TLS connections of a host get.
type Certificate struct{ Host, Namespace, Secret string }

// work is what was done on one View so far.
type work struct {
	View
	grants *grants
	// spent is how many steps were done.
	spent int
}

// gatewayReader looks at Gateways, ruleReader at the rules of routes.
type (
	gatewayReader struct{ *work }
	ruleReader    struct{ *work }
)

// resolver puts both together.
type resolver struct {
	*work
	gatewayReader
	ruleReader
	out      *Result
	gateways map[types.NamespacedName]*gateway
	// verdicts are what Host says.
	verdicts map[string]problem
	offers   map[string]*offer
	// secures are the routes that have connections with TLS for a host, the oldest of each.
	secures map[string]*route
	// looked is how many routes name a Gateway of this controller, and bytes how long the rules are.
	looked, bytes int
}

// Resolve says what a space comes to.
func Resolve(v View) *Result { return resolve(v).out }

func resolve(v View) *resolver {
	if v.Now.IsZero() {
		v.Now = metav1.Unix(0, 0) // the clock is the caller's
	}
	v.Now = *v.Now.DeepCopy()
	v.Now.Time = v.Now.Rfc3339Copy().Time // as it comes back from the API
	w := &work{View: v}
	r := &resolver{work: w, gatewayReader: gatewayReader{w}, ruleReader: ruleReader{w},
		gateways: map[types.NamespacedName]*gateway{}, verdicts: map[string]problem{}, offers: map[string]*offer{},
		secures: map[string]*route{}}
	r.out = &Result{Gateways: map[types.NamespacedName]*gatewayv1.GatewayStatus{},
		Routes:     map[types.NamespacedName][]gatewayv1.RouteParentStatus{},
		GRPCRoutes: map[types.NamespacedName][]gatewayv1.RouteParentStatus{},
		TLSRoutes:  map[types.NamespacedName][]gatewayv1.RouteParentStatus{}}
	r.grants = newGrants(byAge(r, v.Grants))
	var order []*gateway
	for _, object := range byAge(r, v.Gateways) {
		if v.Ours(string(object.Spec.GatewayClassName)) {
			g := r.gateway(object, len(order))
			order = append(order, g)
			r.gateways[g.name] = g
		}
	}
	for _, t := range r.routesByAge() {
		r.route(t)
	}
	for _, g := range order {
		r.out.Gateways[g.name] = r.statusOf(g)
	}
	r.certify(order)
	return r
}

// object is a pointer to an object of the API.
type object[T any] interface {
	*T
	metav1.Object
}

// byAge are the objects of the space, the oldest first. Those without a namespace are of a CRD of a tenant, with
// another scope. By their namespace they would be the system's.
func byAge[T any, P object[T]](r *resolver, all []P) []P {
	type aged struct {
		object P
		key    string
	}
	var out []aged
	for _, o := range all {
		if o == nil || o.GetNamespace() == "" || !sameSpace(space.OfNamespace(o.GetNamespace()), r.Tenant) {
			continue
		}
		out = append(out, aged{o, o.GetNamespace() + "/" + o.GetName()})
	}
	slices.SortStableFunc(out, func(a, b aged) int {
		at, bt := a.object.GetCreationTimestamp(), b.object.GetCreationTimestamp()
		if c := at.Compare(bt.Time); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	list := make([]P, 0, len(out))
	for _, o := range out {
		list = append(list, o.object)
	}
	return list
}

// routesByAge are the routes of all kinds, the oldest first.
func (r *resolver) routesByAge() (out []*route) {
	for _, o := range byAge(r, r.Routes) {
		out = append(out, &route{kind: KindHTTP, object: o, name: nameOf(o), refs: o.Spec.ParentRefs,
			hostnames: o.Spec.Hostnames, rules: httpRules(o.Spec.Rules), present: o.Status.Parents})
	}
	for _, o := range byAge(r, r.GRPCRoutes) {
		out = append(out, &route{kind: KindGRPC, object: o, name: nameOf(o), refs: o.Spec.ParentRefs,
			hostnames: o.Spec.Hostnames, rules: grpcRules(o.Spec.Rules), present: o.Status.Parents})
	}
	for _, o := range byAge(r, r.TLSRoutes) {
		out = append(out, &route{kind: KindTLS, object: o, name: nameOf(o), refs: o.Spec.ParentRefs,
			hostnames: o.Spec.Hostnames, rules: tlsRules(o.Spec.Rules), present: o.Status.Parents})
	}
	slices.SortStableFunc(out, func(a, b *route) int {
		created := b.object.GetCreationTimestamp()
		if c := a.object.GetCreationTimestamp().Compare(created.Time); c != 0 {
			return c
		}
		return strings.Compare(a.name.String(), b.name.String())
	})
	return out
}

// Entries are those of the routes of a kind.
func (r *Result) Entries(kind string) map[types.NamespacedName][]gatewayv1.RouteParentStatus {
	switch kind {
	case KindGRPC:
		return r.GRPCRoutes
	case KindTLS:
		return r.TLSRoutes
	}
	return r.Routes
}

func sameSpace(a, b string) bool { return a == b || space.IsSystem(a) && space.IsSystem(b) }

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// spend takes steps, and reports whether there were as many left.
func (r *work) spend(steps int) bool {
	r.spent += steps
	return !r.over()
}

func (r *work) over() bool { return r.spent > mostSteps }

// tooMany is the problem of what is left out.
func tooMany() problem {
	return problem{reasonBounds, "the Gateways and routes of this space are too many together; this one is left out"}
}

// namespace is the composite namespace that a reference of an object means; not ok for one that is no name.
func (r *work) namespace(of metav1.Object, native *gatewayv1.Namespace) (composite string, ok bool) {
	if native == nil || *native == "" {
		return of.GetNamespace(), true
	}
	if !isName(string(*native), mostLabel) || strings.Contains(string(*native), ".") {
		return "", false // a dot would lead into another space
	}
	return space.Namespace(r.Tenant, string(*native)), true
}
