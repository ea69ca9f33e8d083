package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// Bounds of the rules of a route, as the CRDs say.
const (
	mostRulesOfRoute = 16
	mostMatches      = 64
	mostAllMatches   = 128
	mostBackends     = 16
)

// compiled is what a route says, whatever its parents are.
type compiled struct {
	// lines are its matches, with those of rules that cannot be done, which have no backends.
	lines []line
	// size is how long the lines are, in bytes.
	size int
	// whole says what is wrong with all of it, invalid with single rules; valid is how many others there are.
	whole   problem
	invalid []problem
	valid   int
	// refs are references that are not resolved.
	refs []problem
}

// line is one match of a route.
type line struct {
	path joinapi.IngressPath
	to   []Target
}

// refusal says why the route is not accepted by any parent.
func (c *compiled) refusal() problem {
	if c.whole.is() || len(c.invalid) == 0 || c.valid > 0 {
		return c.whole
	}
	return problem{c.invalid[0].reason, several(c.invalid)}
}

func (c *compiled) unresolved() problem {
	if len(c.refs) == 0 {
		return problem{}
	}
	return problem{c.refs[0].reason, several(c.refs)}
}

// rules are those of a route of some kind.
type rules interface {
	// count is how many there are, and matches how many matches one of them has.
	count() int
	matches(i int) int
	// read is a rule in the words of HTTPRoutes, without its matches, which are the paths, and what is wrong with
	// these.
	read(r ruleReader, field string, i int) (rule *gatewayv1.HTTPRouteRule, paths []joinapi.IngressPath, wrong problem)
}

// httpRules are those of an HTTPRoute.
type httpRules []gatewayv1.HTTPRouteRule

func (h httpRules) count() int        { return len(h) }
func (h httpRules) matches(i int) int { return len(h[i].Matches) }

func (h httpRules) read(
	r ruleReader, field string, i int,
) (rule *gatewayv1.HTTPRouteRule, paths []joinapi.IngressPath, wrong problem) {
	paths, wrong = matchesOf(r, field, h[i].Matches, r.match)
	return &h[i], paths, wrong
}

// compile reads the rules of a route.
func (r ruleReader) compile(t *route) *compiled {
	if !r.spend(len(t.hostnames)) {
		return &compiled{}
	}
	c := &compiled{whole: wholeOf(t)}
	if c.whole.is() {
		return c
	}
	if t.kind == KindHTTP && t.rules.count() == 0 { // the default of the CRD
		t.rules = make(httpRules, 1)
	}
	for i := range t.rules.count() {
		if r.over() {
			break
		}
		r.rule(t, c, i)
	}
	return c
}

// wholeOf says what is wrong with a route as a whole.
func wholeOf(t *route) problem {
	const reason = gatewayv1.RouteReasonUnsupportedValue
	if most := t.mostHostnames(); len(t.hostnames) > most {
		return problemf(reason, "spec.hostnames has more than %d entries", most)
	}
	for i, hostname := range t.hostnames {
		if !isHost(string(hostname)) {
			return problemf(reason, "spec.hostnames[%d]: %s is not a DNS name in lower case", i, quote(hostname))
		}
	}
	if t.kind == KindTLS {
		return wholeOfTLS(t)
	}
	if t.rules.count() > mostRulesOfRoute {
		return problemf(reason, "spec.rules has more than %d entries", mostRulesOfRoute)
	}
	matches := 0
	for i := range t.rules.count() {
		matches += t.rules.matches(i)
	}
	if matches > mostAllMatches {
		return problemf(reason, "spec.rules have more than %d matches together", mostAllMatches)
	}
	return problem{}
}

// rule reads one rule. If it cannot be done, what it matches is answered with 500, so that no other rule gets it.
func (r ruleReader) rule(t *route, c *compiled, i int) {
	field := fmt.Sprintf("spec.rules[%d]", i)
	rule, paths, wrong := t.rules.read(r, field, i)
	filters, p := r.filters(field, rule.Filters, placeRule)
	wrong = wrong.or(p)
	wrong = wrong.or(suits(field, paths, filters))
	to, p := r.targets(t, c, field, rule, filters)
	wrong = wrong.or(p)
	timeout, backendTimeout, p := timeouts(field, rule.Timeouts)
	wrong = wrong.or(p)
	switch {
	case rule.Retry != nil:
		wrong = wrong.or(unsupported("%s: retry is not supported", field))
	case rule.SessionPersistence != nil:
		wrong = wrong.or(unsupported("%s: sessionPersistence is not supported", field))
	}
	if wrong.is() {
		c.invalid = append(c.invalid, wrong)
		filters, to = nil, nil
	} else {
		c.valid++
	}
	for _, path := range paths {
		if !wrong.is() {
			path.Filters, path.Timeout, path.BackendTimeout = filters, timeout, backendTimeout
		}
		c.lines = append(c.lines, line{path, to})
		c.size += sizeOf(&path, to)
	}
}

// suits says which filters do not suit the matches of their rule.
func suits(field string, paths []joinapi.IngressPath, filters *joinapi.IngressFilters) problem {
	if filters == nil {
		return problem{}
	}
	prefix := filters.Redirect != nil && filters.Redirect.Path != nil && filters.Redirect.Path.Prefix != nil ||
		filters.Rewrite != nil && filters.Rewrite.Path != nil && filters.Rewrite.Path.Prefix != nil
	for i := range paths {
		if prefix && paths[i].Exact {
			return unsupported("%s: %s needs matches of type %s only", field,
				gatewayv1.PrefixMatchHTTPPathModifier, gatewayv1.PathMatchPathPrefix)
		}
	}
	return problem{}
}

// durationOf reads a duration of the Gateway API (GEP-2257): up to four numbers of up to five digits, each with its
// unit.
func durationOf(d *gatewayv1.Duration) (time.Duration, bool) {
	const mostParts, mostDigits = 4, 5
	if d == nil {
		return 0, true
	}
	rest := string(*d)
	for parts := 0; rest != "" || parts == 0; parts++ {
		unit := strings.TrimLeft(rest, "0123456789")
		digits := len(rest) - len(unit)
		end := strings.IndexAny(unit, "0123456789")
		if end < 0 {
			end = len(unit)
		}
		if parts == mostParts || digits < 1 || digits > mostDigits ||
			!slices.Contains([]string{"h", "m", "s", "ms"}, unit[:end]) {
			return 0, false
		}
		rest = unit[end:]
	}
	out, err := time.ParseDuration(string(*d))
	return out, err == nil
}

// timeouts reads those of a rule; 0 is none.
func timeouts(field string, t *gatewayv1.HTTPRouteTimeouts) (request, backend time.Duration, p problem) {
	if t == nil {
		return 0, 0, problem{}
	}
	request, ok := durationOf(t.Request)
	if !ok {
		p = unsupported("%s.timeouts.request: %s is not a duration", field,
			quote(*t.Request))
	}
	backend, ok = durationOf(t.BackendRequest)
	switch {
	case !ok:
		p = p.or(unsupported("%s.timeouts.backendRequest: %s is not a duration", field,
			quote(*t.BackendRequest)))
	case request > 0 && backend > request:
		p = p.or(unsupported("%s.timeouts: backendRequest is longer than request",
			field))
	}
	return request, backend, p
}

// sizeOf is about how long a line is.
func sizeOf(path *joinapi.IngressPath, to []Target) int {
	const fixed = 100
	out := fixed + len(path.Path) + sizeOfValues(path.Headers) + sizeOfValues(path.Query) + sizeOfFilters(path.Filters)
	for i := range to {
		out += fixed + len(to[i].Namespace) + len(to[i].Service) + sizeOfFilters(to[i].Filters)
	}
	return out
}

func sizeOfValues(values []joinapi.IngressValue) (out int) {
	for i := range values {
		out += len(values[i].Name) + len(values[i].Value)
	}
	return out
}

func sizeOfFilters(f *joinapi.IngressFilters) (out int) {
	if f == nil {
		return 0
	}
	for _, h := range []*joinapi.IngressHeaders{f.Request, f.Response} {
		if h == nil {
			continue
		}
		out += sizeOfValues(h.Set) + sizeOfValues(h.Add)
		for _, name := range h.Remove {
			out += len(name)
		}
	}
	const longest = 1024 + mostName // of a path and a host
	if f.Redirect != nil {
		out += longest
	}
	if f.Rewrite != nil {
		out += longest
	}
	return out
}
