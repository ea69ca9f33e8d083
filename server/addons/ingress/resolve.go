package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/addons/gateway"
)

// Bounds of one space. Nodes keep all of it in their memory.
const (
	mostHosts     = 2000
	mostPaths     = 20000
	mostBackends  = 4000
	mostEndpoints = 1000    // of a port of a Service
	mostInAll     = 20000   // of all of them
	mostEntries   = 2000    // of spec.tls
	mostBytes     = 8 << 20 // of certificates and keys
	mostProblems  = 20      // that are said of an Ingress
	// mostAlike is how many matches a request is compared with: those of one path, and of what it begins with.
	// mostParts is how many parts paths have together: nodes keep a tree of them.
	mostAlike = 256
	mostParts = 100000
	// mostLooked is how many hosts are looked at, and mostWorked how many endpoints and ports of slices.
	mostLooked = 4 * mostHosts
	mostWorked = 400000
)

// Reasons of Events.
const (
	reasonHost        = "HostNotAllowed"
	reasonTaken       = "HostTaken"
	reasonBackend     = "BackendNotFound"
	reasonCertificate = "CertificateNotFound"
	reasonBounds      = "TooManyPaths"
	reasonConflict    = "HostnameConflict"
)

// view is what a space is resolved from.
type view struct {
	tenant string
	// ingresses are those of this class.
	ingresses []*networkingv1.Ingress
	routes    routes
	service   func(namespace, name string) *corev1.Service
	endpoints func(namespace, service string) []*discoveryv1.EndpointSlice
	secret    func(namespace, name string) *corev1.Secret
	// before are the certificates of the Secrets as they were last time.
	before map[object]parsed
	// refuse says why the space may not have a host, takenBy who has it, by which host; all are empty if it may have
	// it.
	refuse  func(host string) string
	takenBy func(host string) (who, by string)
	// holds reports whether it has it.
	holds func(host string) bool
	// owns reports whether an address is that of a pod of the space.
	owns func(netip.Addr) bool
}

// problem is what an Ingress does not get, and why.
type problem struct{ reason, message string }

// source is an Ingress or a route.
type source struct{ key, namespace string }

func sourceOf(ingress *networkingv1.Ingress) source {
	return source{ingressKey(ingress), ingress.Namespace}
}

// result is what becomes of a space.
type result struct {
	hosts        map[string]*joinapi.IngressHost
	backends     map[string]*joinapi.IngressBackend
	certificates map[string]*joinapi.IngressCertificate
	// wants are the hosts that the space would have, in the order of its Ingresses.
	wants []string
	// served are the sources of which nodes take requests, by key.
	served   map[string]bool
	problems map[string][]problem
	// gateway is what its Gateways and routes come to, nil without, and addressesOf what these have as addresses.
	gateway     *gateway.Result
	addressesOf []string
	// uses are the Services and Secrets that it depends on, whether they are there or not.
	uses map[object]bool
	// addresses are those of all endpoints.
	addresses map[netip.Addr]bool
	// strangers says that endpoints were left out, as their addresses are of no pod of the space so far.
	strangers bool
	// taken are hosts of others that keep the space from some that it wants: these, or what is below them.
	taken map[string]bool
	// parsed are the certificates of the Secrets of spec.tls.
	parsed map[object]parsed
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
	paths map[string]map[string]bool // by host, as matchOf spells them
	count int
	// asked is what became of the hosts that were looked at.
	asked map[string]answer
	// alike is how many matches with conditions have the same host and path, and parts how many all paths have.
	alike map[string]int
	parts int
	// waiting are the sources with hosts that the space might have and does not, and held is how many it has.
	waiting []source
	held    int
	// all is how many endpoints there are, entries of spec.tls, and bytes of certificates.
	all, entries, bytes int
	// looked is how many hosts were looked at, and worked how many endpoints and ports of slices.
	looked, worked int
	found          map[string]bool // backends of Services that are there
	passed         map[string]bool // hosts whose connections with TLS are those of a TLSRoute
	read           map[*discoveryv1.EndpointSlice]*readSlice
}

// waitsFor reports whether one of the hosts, which was another's, kept the space from one that it wants.
func (r *result) waitsFor(freed []string) bool {
	return slices.ContainsFunc(freed, func(host string) bool { return r.taken[host] })
}

// resolve says what becomes of a space.
func resolve(v view) *result {
	r := &resolver{view: v, paths: map[string]map[string]bool{},
		read:  map[*discoveryv1.EndpointSlice]*readSlice{},
		found: map[string]bool{}, passed: map[string]bool{}, asked: map[string]answer{}, alike: map[string]int{}}
	r.result = &result{hosts: map[string]*joinapi.IngressHost{}, backends: map[string]*joinapi.IngressBackend{},
		certificates: map[string]*joinapi.IngressCertificate{}, served: map[string]bool{},
		problems: map[string][]problem{}, uses: map[object]bool{}, parsed: map[object]parsed{},
		taken: map[string]bool{}, addresses: map[netip.Addr]bool{}}
	parts := append(r.ofIngresses(), r.ofRoutes()...)
	// Where two say the same, the older one has it.
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key, b.key))
	})
	for _, one := range parts {
		one.apply()
	}
	r.secureRoutes()
	if r.held >= mostHosts {
		for _, from := range r.waiting {
			r.say(from, reasonBounds, "the Ingresses and routes of this space have more than %d hosts together; the "+
				"rest is left out", mostHosts)
		}
	}
	for _, host := range r.hosts {
		slices.SortStableFunc(host.Paths, byPrecedence)
	}
	return r.result
}

// part is what one source says. Those of a space apply one after the other.
type part struct {
	created time.Time
	key     string
	apply   func()
}

func (r *resolver) ofIngresses() (out []part) {
	for _, ingress := range r.ingresses {
		out = append(out, part{ingress.CreationTimestamp.Time, ingressKey(ingress), func() { r.ingress(ingress) }})
	}
	return out
}

// byPrecedence is the order in which paths are tried. What is equal stays in the order of age.
func byPrecedence(a, b joinapi.IngressPath) int {
	exactFirst := func(p joinapi.IngressPath) int {
		if p.Exact {
			return 0
		}
		return 1
	}
	anyLast := func(p joinapi.IngressPath) int {
		if p.Method == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(len(b.Path), len(a.Path)), cmp.Compare(exactFirst(a), exactFirst(b)),
		cmp.Compare(a.Path, b.Path), cmp.Compare(anyLast(a), anyLast(b)),
		cmp.Compare(len(b.Headers), len(a.Headers)), cmp.Compare(len(b.Query), len(a.Query)))
}

// matchOf spells what requests a path matches.
func matchOf(p *joinapi.IngressPath) string {
	how := "prefix "
	if p.Exact {
		how = "exact "
	}
	if p.Method == "" && p.Scheme == "" && len(p.Headers) == 0 && len(p.Query) == 0 {
		return how + p.Path
	}
	return fmt.Sprintf("%s%q %s %s %q %q", how, p.Path, p.Method, p.Scheme, p.Headers, p.Query)
}

func ingressKey(ingress *networkingv1.Ingress) string { return ingress.Namespace + "/" + ingress.Name }

// say takes note of a problem.
func (r *resolver) say(of source, reason, format string, args ...any) {
	key := of.key
	if len(r.problems[key]) >= mostProblems {
		return
	}
	if p := (problem{reason, fmt.Sprintf(format, args...)}); !slices.Contains(r.problems[key], p) {
		r.problems[key] = append(r.problems[key], p)
	}
}

func (r *resolver) ingress(ingress *networkingv1.Ingress) {
	mine, from := map[string]bool{}, sourceOf(ingress)
	for _, host := range hostsOf(ingress) {
		got := r.ask(host)
		if mine[host] = got.held; got.reason != "" {
			r.say(from, got.reason, "no requests for %s are taken: %s", spelled(host), got.message)
		} else if !got.held { // it is about to, if there is room
			r.waiting = append(r.waiting, from)
		}
	}
	for i := range ingress.Spec.Rules {
		if rule := &ingress.Spec.Rules[i]; mine[rule.Host] {
			r.rule(ingress, rule)
		}
	}
	if b := ingress.Spec.DefaultBackend; b != nil {
		for _, host := range slices.Sorted(maps.Keys(mine)) { // which is left out must not depend on chance
			if mine[host] {
				r.path(from, host, joinapi.IngressPath{Path: "/"}, func(p *joinapi.IngressPath) {
					p.Backend = r.ingressBackend(from, b)
				})
			}
		}
	}
	if len(r.passed) > 0 {
		for host := range securedHosts(ingress) {
			if mine[host] && r.passed[host] {
				r.say(from, reasonConflict, "connections with TLS for %s are those of an older TLSRoute",
					spelled(host))
			}
		}
	}
	r.secure(ingress, mine)
}

// answer is whether a space has a host, and if it does not get it, why.
type answer struct {
	held            bool
	reason, message string
}

// ask says what becomes of a host that an Ingress or a route names, and takes note that it is wanted.
func (r *resolver) ask(host string) answer {
	if was, ok := r.asked[host]; ok {
		return was
	}
	if r.looked++; r.looked > mostLooked {
		return answer{false, reasonBounds, fmt.Sprintf("the Ingresses and routes of this space name more than %d "+
			"hosts together; the rest is left out", mostLooked)}
	}
	r.asked[host] = r.decide(host)
	return r.asked[host]
}

// decide is what ask finds out once for each host.
func (r *resolver) decide(host string) answer {
	if why := r.refuse(host); why != "" {
		return answer{false, reasonHost, why}
	}
	r.paths[host] = map[string]bool{}
	r.wants = append(r.wants, host)
	held := r.holds(host)
	if held {
		r.held++
	}
	if who, by := r.takenBy(host); who != "" {
		r.taken[by] = true
		return answer{false, reasonTaken, about(r.tenant, who)}
	}
	return answer{held: held}
}

func (r *resolver) rule(ingress *networkingv1.Ingress, rule *networkingv1.IngressRule) {
	if rule.HTTP == nil {
		return // for the default backend
	}
	for i := range rule.HTTP.Paths {
		p := &rule.HTTP.Paths[i]
		exact := p.PathType != nil && *p.PathType == networkingv1.PathTypeExact
		path := joinapi.IngressPath{Path: p.Path, Exact: exact}
		if !path.Exact && path.Path != "/" {
			path.Path = strings.TrimRight(path.Path, "/") // it makes no difference
		}
		if path.Path == "" {
			path.Path = "/"
		}
		from := sourceOf(ingress)
		r.path(from, rule.Host, path, func(to *joinapi.IngressPath) {
			to.Backend = r.ingressBackend(from, &p.Backend)
		})
	}
}

// path has requests for a path go where lead says.
func (r *resolver) path(
	from source, host string, path joinapi.IngressPath, lead func(*joinapi.IngressPath),
) {
	match := matchOf(&path)
	if r.paths[host][match] {
		r.served[from.key] = true // by an older one, which has it
		return
	}
	if !r.oneMore(from) {
		return
	}
	r.paths[host][match] = true
	if !r.room(from, host, &path) {
		return
	}
	at := r.at(host)
	r.served[from.key] = true
	lead(&path)
	at.Paths = append(at.Paths, path)
}

// oneMore reports whether there is room for one more path, or for what counts as one.
func (r *resolver) oneMore(from source) bool {
	if r.count++; r.count > mostPaths {
		r.say(from, reasonBounds, "the Ingresses and routes of this space have more than %d paths together; the "+
			"rest is left out", mostPaths)
	}
	return r.count <= mostPaths
}

// at is a host that nodes are told of.
func (r *resolver) at(host string) *joinapi.IngressHost {
	at := r.hosts[host]
	if at == nil {
		at = &joinapi.IngressHost{Name: host, Tenant: r.tenant}
		r.hosts[host] = at
	}
	return at
}

// room reports whether there is room for one more path.
func (r *resolver) room(from source, host string, path *joinapi.IngressPath) bool {
	if r.parts += 1 + strings.Count(path.Path, "/"); r.parts > mostParts {
		r.say(from, reasonBounds, "the paths of this space have more than %d parts together; the rest is left out",
			mostParts)
		return false
	}
	if path.Method == "" && path.Scheme == "" && len(path.Headers) == 0 && len(path.Query) == 0 {
		return true // a request is compared with nothing
	}
	all := 0
	for at := strings.TrimRight(path.Path, "/"); ; at = at[:strings.LastIndexByte(at, '/')] {
		all += r.alike[host+at]
		if all >= mostAlike {
			r.say(from, reasonBounds, "there are more than %d matches of %s that one request is compared with; the "+
				"rest is left out", mostAlike, spelled(host))
			return false
		}
		if !strings.Contains(at, "/") {
			break
		}
	}
	r.alike[host+strings.TrimRight(path.Path, "/")]++
	return true
}

// secure gives hosts their certificates: those that are for the very name before those for a wildcard.
func (r *resolver) secure(ingress *networkingv1.Ingress, mine map[string]bool) {
	bare, from := map[string]bool{}, sourceOf(ingress)
	for host, is := range mine {
		if at := r.hosts[host]; is && at != nil && at.Certificate == "" {
			bare[host] = true
		}
	}
	exact, below := map[string]*joinapi.IngressCertificate{}, map[string]*joinapi.IngressCertificate{}
	var all *joinapi.IngressCertificate
	first := func(of map[string]*joinapi.IngressCertificate, name string, c *joinapi.IngressCertificate) {
		if of[name] == nil {
			of[name] = c
		}
	}
	for i := range ingress.Spec.TLS {
		entry := &ingress.Spec.TLS[i]
		if entry.SecretName == "" {
			continue // the one that nobody signed
		}
		if r.entries++; r.entries > mostEntries {
			r.say(from, reasonBounds, "the Ingresses and routes of this space have more than %d entries of spec.tls "+
				"together; the rest is left out", mostEntries)
			break
		}
		p := r.parse(object{kindSecret, ingress.Namespace, entry.SecretName})
		if p.why != "" {
			r.say(from, reasonCertificate, "Secret %s: %s; connections get a certificate that nobody signed",
				entry.SecretName, p.why)
			continue
		}
		if len(entry.Hosts) == 0 && all == nil {
			all = p.certificate
		}
		for _, name := range entry.Hosts {
			first(exact, name, p.certificate)
			if strings.HasPrefix(name, "*.") {
				first(below, name, p.certificate)
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(bare)) {
		for _, c := range []*joinapi.IngressCertificate{exact[host], below[wildcardOver(host)], all} {
			if c != nil {
				r.present(from, host, c)
				break
			}
		}
	}
}

// present gives a host its certificate.
func (r *resolver) present(from source, host string, c *joinapi.IngressCertificate) {
	if r.certificates[c.ID] == nil {
		if r.bytes+len(c.Chain)+len(c.Key) > mostBytes {
			r.say(from, reasonBounds, "the certificates of this space have more than %d MiB together; the rest "+
				"is left out", mostBytes>>20)
			return
		}
		r.bytes += len(c.Chain) + len(c.Key)
		r.certificates[c.ID] = c
	}
	r.hosts[host].Certificate = c.ID
}

// parse is what a Secret has for connections with TLS.
func (r *resolver) parse(o object) parsed {
	if p, ok := r.parsed[o]; ok {
		return p
	}
	r.uses[o] = true
	secret := r.secret(o.namespace, o.name)
	p, ok := r.before[o]
	if !ok || p.secret != secret {
		p = parsedOf(secret)
	}
	r.parsed[o] = p
	return p
}
