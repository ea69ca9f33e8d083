package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// Bounds of a match, as the CRD says.
const (
	mostValues      = 16
	mostPath        = 1024
	mostValueName   = 256
	mostHeaderValue = 4096
	mostQueryValue  = 1024
)

// unsupported is the problem of something that is not here.
func unsupported(format string, args ...any) problem {
	return problemf(gatewayv1.RouteReasonUnsupportedValue, format, args...)
}

// matchesOf reads the matches of a rule: those that are valid, and what is wrong with the others.
func matchesOf[T any](
	r ruleReader, field string, matches []T, match func(field string, m *T) (joinapi.IngressPath, problem),
) (paths []joinapi.IngressPath, wrong problem) {
	if len(matches) > mostMatches {
		return nil, unsupported("%s.matches has more than %d entries", field, mostMatches)
	}
	if len(matches) == 0 {
		return []joinapi.IngressPath{{Path: "/"}}, problem{}
	}
	for i := range matches {
		if !r.spend(1) {
			break
		}
		path, p := match(fmt.Sprintf("%s.matches[%d]", field, i), &matches[i])
		wrong = wrong.or(p)
		if !p.is() {
			paths = append(paths, path)
		}
	}
	return paths, wrong
}

func (r ruleReader) match(field string, m *gatewayv1.HTTPRouteMatch) (out joinapi.IngressPath, wrong problem) {
	out, wrong = pathOf(field+".path", m.Path)
	if wrong.is() {
		return out, wrong
	}
	if m.Method != nil && *m.Method != "" {
		if !slices.Contains(methods(), *m.Method) {
			return out, unsupported("%s.method: %s is not supported", field, quote(*m.Method))
		}
		out.Method = string(*m.Method)
	}
	if len(m.Headers) > mostValues || len(m.QueryParams) > mostValues {
		return out, unsupported("%s has more than %d headers or queryParams", field, mostValues)
	}
	r.spend(len(m.Headers) + len(m.QueryParams))
	for i := range m.Headers {
		h := &m.Headers[i]
		if h.Type != nil && *h.Type != gatewayv1.HeaderMatchExact {
			return out, unsupported("%s.headers[%d]: type %s is not supported", field, i, quote(*h.Type))
		}
		if wrong = addHeader(&out, fmt.Sprintf("%s.headers[%d]", field, i), string(h.Name), h.Value); wrong.is() {
			return out, wrong
		}
	}
	for i := range m.QueryParams {
		q := &m.QueryParams[i]
		switch {
		case q.Type != nil && *q.Type != gatewayv1.QueryParamMatchExact:
			return out, unsupported("%s.queryParams[%d]: type %s is not supported", field, i, quote(*q.Type))
		case len(q.Name) > mostValueName || !httpguts.ValidHeaderFieldName(string(q.Name)) || q.Value == "" ||
			len(q.Value) > mostQueryValue || !utf8.ValidString(q.Value):
			return out, unsupported("%s.queryParams[%d]: %s is not a parameter with a value", field, i, quote(q.Name))
		}
		out.Query = addFirst(out.Query, string(q.Name), q.Value)
	}
	sortValues(out.Headers) // matches that differ in order only are alike
	sortValues(out.Query)
	return out, problem{}
}

// addHeader adds a header that requests have.
func addHeader(to *joinapi.IngressPath, field, header, value string) problem {
	name := http.CanonicalHeaderKey(clip(header, 2*mostValueName))
	switch {
	case !isHeader(name, value):
		return unsupported("%s: %s is not a header with a value", field, quote(header))
	case name == "Host":
		return unsupported("%s: spec.hostnames has the host, not the headers", field)
	case saysWhoAsks(name):
		return unsupported("%s: what clients say in %s is not believed, so no request is matched by it", field, name)
	}
	to.Headers = addFirst(to.Headers, name, value)
	return problem{}
}

func methods() []gatewayv1.HTTPMethod {
	return []gatewayv1.HTTPMethod{gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodHead, gatewayv1.HTTPMethodPost,
		gatewayv1.HTTPMethodPut, gatewayv1.HTTPMethodDelete, gatewayv1.HTTPMethodConnect, gatewayv1.HTTPMethodOptions,
		gatewayv1.HTTPMethodTrace, gatewayv1.HTTPMethodPatch}
}

// isHeader reports whether it can be a header, with a value that is not empty.
func isHeader(name, value string) bool {
	return len(name) <= mostValueName && httpguts.ValidHeaderFieldName(name) && value != "" &&
		len(value) <= mostHeaderValue && utf8.ValidString(value) && httpguts.ValidHeaderFieldValue(value)
}

// addFirst adds a value, unless there is one with the name: the first counts.
func addFirst(values []joinapi.IngressValue, name, value string) []joinapi.IngressValue {
	if slices.ContainsFunc(values, func(v joinapi.IngressValue) bool { return v.Name == name }) {
		return values
	}
	return append(values, joinapi.IngressValue{Name: name, Value: value})
}

func sortValues(values []joinapi.IngressValue) {
	slices.SortFunc(values, func(a, b joinapi.IngressValue) int { return strings.Compare(a.Name, b.Name) })
}

func pathOf(field string, m *gatewayv1.HTTPPathMatch) (out joinapi.IngressPath, wrong problem) {
	out.Path = "/"
	if m == nil {
		return out, problem{}
	}
	if m.Type != nil {
		switch *m.Type {
		case gatewayv1.PathMatchExact:
			out.Exact = true
		case gatewayv1.PathMatchPathPrefix:
		default:
			return out, unsupported("%s: type %s is not supported", field, quote(*m.Type))
		}
	}
	if m.Value == nil {
		return out, problem{}
	}
	decoded, ok := decode(*m.Value)
	if !ok {
		return out, unsupported("%s: %s is not a path", field, quote(*m.Value))
	}
	if out.Path = decoded; !out.Exact && decoded != "/" {
		out.Path = strings.TrimRight(decoded, "/") // it makes no difference
	}
	return out, problem{}
}

// decode reads a path as objects have it: absolute, without elements that proxies and backends read in several ways.
func decode(path string) (decoded string, ok bool) {
	const others = "-/._~!$&'()*+,;=:@%"
	if len(path) > mostPath || !strings.HasPrefix(path, "/") {
		return "", false
	}
	for i := range len(path) {
		c := path[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte(others, c) < 0 {
			return "", false
		}
	}
	decoded, err := url.PathUnescape(path)
	if err != nil || strings.Count(decoded, "/") != strings.Count(path, "/") || !utf8.ValidString(decoded) ||
		strings.ContainsFunc(decoded, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", false
	}
	elements := strings.Split(decoded[1:], "/")
	for i, element := range elements {
		if element == "." || element == ".." || element == "" && i < len(elements)-1 {
			return "", false
		}
	}
	return decoded, true
}
