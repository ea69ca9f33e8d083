package ingress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// Bounds of one space. Nodes keep all of it in their memory.
const (
	mostHosts     = 2000
	mostPaths     = 20000
	mostEndpoints = 1000 // of a port of a Service
)

// Reasons of Events.
const (
	reasonHost        = "HostNotAllowed"
	reasonTaken       = "HostTaken"
	reasonBackend     = "BackendNotFound"
	reasonCertificate = "CertificateNotFound"
	reasonBounds      = "TooManyPaths"
)

// view is what a space is resolved from.
type view struct {
	tenant string
	// ingresses are those of this class.
	ingresses []*networkingv1.Ingress
	service   func(namespace, name string) *corev1.Service
	endpoints func(namespace, service string) []*discoveryv1.EndpointSlice
	// certificate is what is in a Secret, or why it is none.
	certificate func(namespace, name string) (*joinapi.IngressCertificate, string)
	// refuse says why the space may not have a host, taken who has it; both are empty if it may have it.
	refuse func(host string) string
	taken  func(host string) string
	// holds reports whether it has it.
	holds func(host string) bool
	// owns reports whether an address is that of a pod of the space.
	owns func(netip.Addr) bool
}

// problem is what an Ingress does not get, and why.
type problem struct{ reason, message string }

// result is what becomes of a space.
type result struct {
	hosts        map[string]*joinapi.IngressHost
	backends     map[string]*joinapi.IngressBackend
	certificates map[string]*joinapi.IngressCertificate
	// wants are the hosts that the space would have, in the order of its Ingresses.
	wants []string
	// served are the Ingresses of which nodes take requests, by key.
	served   map[string]bool
	problems map[string][]problem
	// uses are the Services and Secrets that it depends on, whether they are there or not.
	uses map[object]bool
	// strangers says that endpoints were left out, as their addresses are of no pod of the space so far.
	strangers bool
	// contested says that a host was another's.
	contested bool
}

// object names a Service or a Secret.
type object struct{ kind, namespace, name string }

const (
	kindService = "Service"
	kindSecret  = "Secret"
)

type resolver struct {
	view
	*result
	paths map[string]map[joinapi.IngressPath]bool // by host, without backends
	count int
}

// resolve says what becomes of a space.
func resolve(v view) *result {
	r := &resolver{view: v, paths: map[string]map[joinapi.IngressPath]bool{}, result: &result{
		hosts: map[string]*joinapi.IngressHost{}, backends: map[string]*joinapi.IngressBackend{},
		certificates: map[string]*joinapi.IngressCertificate{}, served: map[string]bool{},
		problems: map[string][]problem{}, uses: map[object]bool{},
	}}
	// Where two say the same, the older one has it.
	slices.SortFunc(r.ingresses, func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(ingressKey(a), ingressKey(b)))
	})
	for _, ingress := range r.ingresses {
		r.ingress(ingress)
	}
	for _, host := range r.hosts {
		slices.SortFunc(host.Paths, byPrecedence)
	}
	return r.result
}

// byPrecedence is the order in which paths are tried.
func byPrecedence(a, b joinapi.IngressPath) int {
	exactFirst := func(p joinapi.IngressPath) int {
		if p.Exact {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(len(b.Path), len(a.Path)), cmp.Compare(exactFirst(a), exactFirst(b)),
		cmp.Compare(a.Path, b.Path))
}

func ingressKey(ingress *networkingv1.Ingress) string { return ingress.Namespace + "/" + ingress.Name }

// say takes note of a problem.
func (r *resolver) say(ingress *networkingv1.Ingress, reason, format string, args ...any) {
	key, p := ingressKey(ingress), problem{reason, fmt.Sprintf(format, args...)}
	if !slices.Contains(r.problems[key], p) {
		r.problems[key] = append(r.problems[key], p)
	}
}

func (r *resolver) ingress(ingress *networkingv1.Ingress) {
	mine := map[string]bool{}
	for _, host := range hostsOf(ingress) {
		if why := r.refuse(host); why != "" {
			r.say(ingress, reasonHost, "no requests for %s are taken: %s", spelled(host), why)
			continue
		}
		r.want(host)
		if who := r.taken(host); who != "" {
			r.contested = true
			r.say(ingress, reasonTaken, "no requests for %s are taken: %s", spelled(host), about(r.tenant, who))
			continue
		}
		if r.holds(host) { // or it is about to
			mine[host] = true
		}
	}
	for i := range ingress.Spec.Rules {
		if rule := &ingress.Spec.Rules[i]; mine[rule.Host] {
			r.rule(ingress, rule)
		}
	}
	if b := ingress.Spec.DefaultBackend; b != nil {
		for host := range mine {
			r.path(ingress, host, joinapi.IngressPath{Path: "/"}, b)
		}
	}
	r.secure(ingress, mine)
}

func (r *resolver) want(host string) {
	if _, ok := r.paths[host]; !ok {
		r.paths[host] = map[joinapi.IngressPath]bool{}
		r.wants = append(r.wants, host)
	}
}

func (r *resolver) rule(ingress *networkingv1.Ingress, rule *networkingv1.IngressRule) {
	if rule.HTTP == nil {
		return // for the default backend
	}
	for i := range rule.HTTP.Paths {
		p := &rule.HTTP.Paths[i]
		path := joinapi.IngressPath{Path: p.Path, Exact: p.PathType != nil && *p.PathType == networkingv1.PathTypeExact}
		if !path.Exact && path.Path != "/" {
			path.Path = strings.TrimRight(path.Path, "/") // it makes no difference
		}
		if path.Path == "" {
			path.Path = "/"
		}
		r.path(ingress, rule.Host, path, &p.Backend)
	}
}

// path has requests for a path go to a backend.
func (r *resolver) path(
	ingress *networkingv1.Ingress, host string, path joinapi.IngressPath, to *networkingv1.IngressBackend,
) {
	if r.paths[host][path] {
		return // an older one has it
	}
	if r.count++; r.count > mostPaths {
		r.say(ingress, reasonBounds, "the Ingresses of this space have more than %d paths together; the "+
			"rest is left out", mostPaths)
		return
	}
	r.paths[host][path] = true
	at := r.hosts[host]
	if at == nil {
		at = &joinapi.IngressHost{Name: host, Tenant: r.tenant}
		r.hosts[host] = at
	}
	r.served[ingressKey(ingress)] = true
	path.Backend = r.backend(ingress, to)
	at.Paths = append(at.Paths, path)
}

// secure gives hosts their certificates.
func (r *resolver) secure(ingress *networkingv1.Ingress, mine map[string]bool) {
	for i := range ingress.Spec.TLS {
		entry := &ingress.Spec.TLS[i]
		if entry.SecretName == "" {
			continue // the one that nobody signed
		}
		r.uses[object{kindSecret, ingress.Namespace, entry.SecretName}] = true
		certificate, why := r.certificate(ingress.Namespace, entry.SecretName)
		if why != "" {
			r.say(ingress, reasonCertificate, "Secret %s: %s; connections get a certificate that nobody signed",
				entry.SecretName, why)
			continue
		}
		for host := range mine {
			if at := r.hosts[host]; at != nil && at.Certificate == "" && covers(entry.Hosts, host) {
				at.Certificate = certificate.ID
				r.certificates[certificate.ID] = certificate
			}
		}
	}
}

// covers reports whether an entry of spec.tls is for a host of a rule.
func covers(entries []string, host string) bool {
	over := wildcardOver(host)
	return len(entries) == 0 || slices.Contains(entries, host) || over != "" && slices.Contains(entries, over)
}
