package gateway

import (
	"slices"
	"strings"
	"testing"
)

func TestFilters(t *testing.T) {
	request := func(does string) string {
		return "{type: RequestHeaderModifier, requestHeaderModifier: {" + does + "}}"
	}
	response := func(does string) string {
		return "{type: ResponseHeaderModifier, responseHeaderModifier: {" + does + "}}"
	}
	redirect := func(does string) string { return "{type: RequestRedirect, requestRedirect: {" + does + "}}" }
	rewrite := func(does string) string { return "{type: URLRewrite, urlRewrite: {" + does + "}}" }
	full := func(path string) string { return "path: {type: ReplaceFullPath, replaceFullPath: '" + path + "'}" }
	prefix := func(path string) string {
		return "path: {type: ReplacePrefixMatch, replacePrefixMatch: '" + path + "'}"
	}
	for name, c := range map[string]struct{ filters, want string }{
		"headers of requests": {request("set: [{name: a-b, value: '1'}], add: [{name: C, value: '2, 3'}], remove: " +
			"[d, D]"),
			`{"request":{"set":[{"name":"A-B","value":"1"}],"add":[{"name":"C","value":"2, 3"}],"remove":["D"]}}`},
		"headers of answers": {response("set: [{name: a, value: '1'}, {name: A, value: '2'}], remove: " +
			"[x-forwarded-for]"),
			`{"response":{"set":[{"name":"A","value":"1"}],"remove":["X-Forwarded-For"]}}`},
		"of both": {request("remove: [a]") + ", " + response("remove: [b]"),
			`{"request":{"remove":["A"]},"response":{"remove":["B"]}}`},
		"a header in two lists": {request("set: [{name: a, value: '1'}], remove: [A]"), ""},
		"a header that is none": {request("set: [{name: ':path', value: '1'}]"), ""},
		"a name with a line":    {request(`add: [{name: "a\nb", value: '1'}]`), ""},
		"a value with a line":   {request(`add: [{name: a, value: "1\r\nb: c"}]`), ""},
		"no value":              {response("add: [{name: a, value: ''}]"), ""},
		"a removed one of none": {response("remove: ['a b']"), ""},
		"17 headers":            {request("remove: [" + strings.Repeat("a,", 17) + "]"), ""},
		"nothing to do":         {"{type: RequestHeaderModifier}", ""},
		"of another type":       {"{type: RequestHeaderModifier, responseHeaderModifier: {remove: [a]}}", ""},
		"a redirect": {redirect("scheme: https, hostname: a.x, port: 8443, statusCode: 301"),
			`{"redirect":{"scheme":"https","host":"a.x","port":8443,"status":301}}`},
		"a redirect to what is":  {redirect(""), `{"redirect":{"status":302}}`},
		"a redirect of a path":   {redirect(full("/a%20b")), `{"redirect":{"path":{"full":"/a b"},"status":302}}`},
		"a redirect of a prefix": {redirect(prefix("/a/")), `{"redirect":{"path":{"prefix":"/a/"},"status":302}}`},
		"a status that is none":  {redirect("statusCode: 200"), ""},
		"a scheme that is none":  {redirect("scheme: javascript"), ""},
		"a port that is none":    {redirect("port: 65536"), ""},
		"a port below":           {redirect("port: 0"), ""},
		"a host with a wildcard": {redirect("hostname: '*.x'"), ""},
		"a host with a path":     {redirect("hostname: a.x/b"), ""},
		"a rewrite": {rewrite("hostname: a.x, " + full("/b")),
			`{"rewrite":{"host":"a.x","path":{"full":"/b"}}}`},
		"a rewrite of a prefix":   {rewrite(prefix("/")), `{"rewrite":{"path":{"prefix":"/"}}}`},
		"a prefix that goes away": {rewrite(prefix("")), `{"rewrite":{"path":{"prefix":""}}}`},
		"a host that is none":     {rewrite("hostname: 'a x'"), ""},
		"a path that is none":     {rewrite(full("b")), ""},
		"a path upwards":          {rewrite(prefix("/../b")), ""},
		"a path of two lines":     {redirect(full("/a%0d%0ab")), ""},
		"a path of another type":  {rewrite("path: {type: ReplaceFullPath, replacePrefixMatch: /a}"), ""},
		"a type that is none":     {rewrite("path: {type: X}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gw, routeYAML("rules: [{filters: ["+c.filters+"]}]"))
			r := w.resolve(t)
			rule, condition := "any http / "+c.want+">", ""
			if c.want == "" {
				condition = "Accepted=False/UnsupportedValue"
			}
			if got := w.parentsOf(r, "r"); !slices.Equal(r.rulesOf(), []string{rule}) || got[0] != condition {
				t.Errorf("got %q %q, want %q %q", r.rulesOf(), got, rule, condition)
			}
		})
	}
}

// Headers by which a backend could be made to read another request, or to believe another client, stay.
func TestHeadersThatStay(t *testing.T) {
	both := []string{"connection", "Keep-Alive", "proxy-authorization", "Proxy-Connection", "transfer-encoding", "TE",
		"Trailer", "upgrade", "CONTENT-LENGTH"}
	requests := []string{"host", "x-forwarded-for", "X-Forwarded-Anything", "forwarded", "x-real-ip"}
	for _, list := range []string{"set: [{name: NAME, value: a}]", "add: [{name: NAME, value: a}]", "remove: [NAME]"} {
		for _, name := range slices.Concat(both, requests) {
			does := strings.ReplaceAll(list, "NAME", name)
			for filter, stays := range map[string]bool{
				"{type: RequestHeaderModifier, requestHeaderModifier: {" + does + "}}":   true,
				"{type: ResponseHeaderModifier, responseHeaderModifier: {" + does + "}}": slices.Contains(both, name),
			} {
				for _, rule := range []string{"rules: [{filters: [" + filter + "]}]",
					"rules: [{backendRefs: [{name: web, port: 80, filters: [" + filter + "]}]}]"} {
					w := worldOf(t, "t1", gw, routeYAML(rule))
					r := w.resolve(t)
					if got := w.parentsOf(r, "r")[0]; (got == "Accepted=False/UnsupportedValue") != stays {
						t.Errorf("%s has %q with %q", filter, got, r.rulesOf())
					}
				}
			}
		}
	}
}

// A prefix can be replaced only where there is one.
func TestPrefixesNeedMatchesOfPrefixes(t *testing.T) {
	for match, want := range map[string]string{"Exact": "Accepted=False/UnsupportedValue", "PathPrefix": ""} {
		for _, filter := range []string{"{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, " +
			"replacePrefixMatch: /a}}}", "{type: RequestRedirect, requestRedirect: {path: {type: " +
			"ReplacePrefixMatch, " +
			"replacePrefixMatch: /a}}}"} {
			w := worldOf(t, "t1", gw, routeYAML("rules: [{matches: [{path: {type: "+match+", value: /b}}], filters: ["+
				filter+"]}]"))
			if got := w.parentsOf(w.resolve(t), "r")[0]; got != want {
				t.Errorf("%s with %s has %q, want %q", filter, match, got, want)
			}
		}
	}
}
