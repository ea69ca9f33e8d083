package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// mostFilters is how many filters a rule or a backendRef has, as the CRD says.
const mostFilters = 16

// filterPlace is where filters are.
type filterPlace int

const (
	placeRule filterPlace = iota
	// placeBackend is a backendRef, which has those of headers only.
	placeBackend
)

// filters reads filters; nil if there are none.
func (r ruleReader) filters(
	field string, list []gatewayv1.HTTPRouteFilter, place filterPlace,
) (*joinapi.IngressFilters, problem) {
	if len(list) == 0 {
		return nil, problem{}
	}
	if len(list) > mostFilters {
		return nil, unsupported("%s.filters has more than %d entries", field, mostFilters)
	}
	out := &joinapi.IngressFilters{}
	seen := map[gatewayv1.HTTPRouteFilterType]bool{}
	for i := range list {
		f := &list[i]
		at := fmt.Sprintf("%s.filters[%d]", field, i)
		if seen[f.Type] {
			return nil, incompatible("%s: there are several filters %s", at,
				quote(f.Type))
		}
		seen[f.Type] = true
		r.spend(1)
		if p := r.filter(at, f, place, out); p.is() {
			return nil, p
		}
	}
	if out.Redirect != nil && out.Rewrite != nil {
		return nil, incompatible("%s.filters: %s and %s exclude each other", field,
			gatewayv1.HTTPRouteFilterRequestRedirect, gatewayv1.HTTPRouteFilterURLRewrite)
	}
	return out, problem{}
}

// incompatible is the problem of what excludes each other.
func incompatible(format string, args ...any) problem {
	return problemf(gatewayv1.RouteReasonIncompatibleFilters, format, args...)
}

func (r ruleReader) filter(
	at string, f *gatewayv1.HTTPRouteFilter, place filterPlace, out *joinapi.IngressFilters,
) (p problem) {
	switch {
	case f.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && f.RequestHeaderModifier != nil:
		out.Request, p = r.headers(at+".requestHeaderModifier", f.RequestHeaderModifier, true)
	case f.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && f.ResponseHeaderModifier != nil:
		out.Response, p = r.headers(at+".responseHeaderModifier", f.ResponseHeaderModifier, false)
	case f.Type == gatewayv1.HTTPRouteFilterRequestRedirect && f.RequestRedirect != nil && place == placeRule:
		out.Redirect, p = redirectOf(at+".requestRedirect", f.RequestRedirect)
	case f.Type == gatewayv1.HTTPRouteFilterURLRewrite && f.URLRewrite != nil && place == placeRule:
		out.Rewrite, p = rewriteOf(at+".urlRewrite", f.URLRewrite)
	case !known(f.Type):
		p = unsupported("%s: filter %s is not supported", at, quote(f.Type))
	case place == placeBackend && !ofHeaders(f.Type):
		p = unsupported("%s: filter %s is not supported in backendRefs", at, quote(f.Type))
	default:
		p = unsupported("%s: filter %s has nothing to do", at, quote(f.Type))
	}
	return p
}

func known(t gatewayv1.HTTPRouteFilterType) bool {
	return ofHeaders(t) || t == gatewayv1.HTTPRouteFilterRequestRedirect || t == gatewayv1.HTTPRouteFilterURLRewrite
}

func ofHeaders(t gatewayv1.HTTPRouteFilterType) bool {
	return t == gatewayv1.HTTPRouteFilterRequestHeaderModifier || t == gatewayv1.HTTPRouteFilterResponseHeaderModifier
}

// headers reads what becomes of headers. One of them is in one list only; in it, the first entry counts.
func (r ruleReader) headers(
	field string, f *gatewayv1.HTTPHeaderFilter, request bool,
) (*joinapi.IngressHeaders, problem) {
	if len(f.Set) > mostValues || len(f.Add) > mostValues || len(f.Remove) > mostValues {
		return nil, unsupported("%s has a list of more than %d entries", field, mostValues)
	}
	r.spend(len(f.Set) + len(f.Add) + len(f.Remove))
	in := map[string]string{} // the list that has a header
	check := func(list, name, value string) (string, problem) {
		canonical := http.CanonicalHeaderKey(clip(name, 2*mostValueName))
		switch {
		case !isHeader(canonical, value):
			return "", unsupported("%s.%s: %s is not a header with a value", field, list, quote(name))
		case isKept(canonical, request):
			return "", unsupported("%s.%s: header %s is of the connection or of the proxy, and stays", field,
				list, canonical)
		case in[canonical] != "" && in[canonical] != list:
			return "", unsupported("%s: header %s is in %s and in %s", field, canonical, in[canonical], list)
		}
		in[canonical] = list
		return canonical, problem{}
	}
	out := &joinapi.IngressHeaders{}
	for i := range f.Set {
		name, p := check("set", string(f.Set[i].Name), f.Set[i].Value)
		if p.is() {
			return nil, p
		}
		out.Set = addFirst(out.Set, name, f.Set[i].Value)
	}
	for i := range f.Add {
		name, p := check("add", string(f.Add[i].Name), f.Add[i].Value)
		if p.is() {
			return nil, p
		}
		out.Add = addFirst(out.Add, name, f.Add[i].Value)
	}
	for _, header := range f.Remove {
		name, p := check("remove", header, "any")
		if p.is() {
			return nil, p
		}
		if !slices.Contains(out.Remove, name) {
			out.Remove = append(out.Remove, name)
		}
	}
	return out, problem{}
}

// isKept reports whether a header is of the connection, of framing, or, in requests, of the proxy: who could change
// it might have a backend read another request than the proxy did, or believe it came from elsewhere.
func isKept(canonical string, request bool) bool {
	switch canonical {
	case "Connection", "Keep-Alive", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Content-Length":
		return true
	case "Host":
		return request
	}
	return strings.HasPrefix(canonical, "Proxy-") || request && saysWhoAsks(canonical)
}

// saysWhoAsks reports whether nodes write a header of requests themselves, whatever clients say in it.
func saysWhoAsks(canonical string) bool {
	return canonical == "Forwarded" || canonical == "X-Real-Ip" || strings.HasPrefix(canonical, "X-Forwarded-")
}

func redirectOf(field string, f *gatewayv1.HTTPRequestRedirectFilter) (*joinapi.IngressRedirect, problem) {
	out := &joinapi.IngressRedirect{Status: http.StatusFound}
	if f.Scheme != nil && *f.Scheme != "" {
		if *f.Scheme != schemeHTTP && *f.Scheme != schemeHTTPS {
			return nil, unsupported("%s.scheme: %s is not supported", field, quote(*f.Scheme))
		}
		out.Scheme = *f.Scheme
	}
	if f.StatusCode != nil {
		switch *f.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
			http.StatusPermanentRedirect:
			out.Status = *f.StatusCode
		default:
			return nil, unsupported("%s.statusCode: %d is not supported", field, *f.StatusCode)
		}
	}
	if f.Port != nil {
		if *f.Port < 1 || *f.Port > 65535 {
			return nil, unsupported("%s.port: %d is not a port", field, *f.Port)
		}
		out.Port = *f.Port
	}
	var p problem
	if out.Host, p = hostOf(field, f.Hostname); p.is() {
		return nil, p
	}
	out.Path, p = changeOf(field+".path", f.Path)
	return out, p
}

func rewriteOf(field string, f *gatewayv1.HTTPURLRewriteFilter) (*joinapi.IngressRewrite, problem) {
	out := &joinapi.IngressRewrite{}
	var p problem
	if out.Host, p = hostOf(field, f.Hostname); p.is() {
		return nil, p
	}
	out.Path, p = changeOf(field+".path", f.Path)
	return out, p
}

func hostOf(field string, hostname *gatewayv1.PreciseHostname) (string, problem) {
	if hostname == nil || *hostname == "" {
		return "", problem{}
	}
	if !isPrecise(string(*hostname)) {
		return "", unsupported("%s.hostname: %s is not a DNS name in lower case", field, quote(*hostname))
	}
	return string(*hostname), problem{}
}

func changeOf(field string, m *gatewayv1.HTTPPathModifier) (*joinapi.IngressPathChange, problem) {
	if m == nil {
		return nil, problem{}
	}
	switch {
	case m.Type == gatewayv1.FullPathHTTPPathModifier && m.ReplaceFullPath != nil:
		decoded, ok := decode(*m.ReplaceFullPath)
		if !ok {
			return nil, unsupported("%s: %s is not a path", field, quote(*m.ReplaceFullPath))
		}
		return &joinapi.IngressPathChange{Full: &decoded}, problem{}
	case m.Type == gatewayv1.PrefixMatchHTTPPathModifier && m.ReplacePrefixMatch != nil:
		prefix := *m.ReplacePrefixMatch
		if prefix == "" {
			return &joinapi.IngressPathChange{Prefix: &prefix}, problem{}
		}
		decoded, ok := decode(prefix)
		if !ok {
			return nil, unsupported("%s: %s is not a path", field, quote(prefix))
		}
		return &joinapi.IngressPathChange{Prefix: &decoded}, problem{}
	}
	return nil, unsupported("%s: type %s is not supported, or has no value", field, quote(m.Type))
}
