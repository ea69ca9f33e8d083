package spaces_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// parityMaker makes up requests as clients send them, and as they should not.
type parityMaker struct {
	rand      *rand.Rand
	resources []*parityResource
	weighted  []*parityResource
	made      int
}

func newParityMaker(seed uint64, resources []*parityResource) *parityMaker {
	g := &parityMaker{rand: rand.New(rand.NewPCG(seed, seed)), resources: resources}
	for _, r := range resources {
		weight := 4
		switch {
		case r.class == kinds.System || r.class == kinds.Shared:
			weight = 1
		case r.custom, r.group == "" &&
			slices.Contains([]string{"pods", "services", "configmaps", "namespaces", "secrets"}, r.name):
			weight = 16
		case r.group == "", r.group == "apps", strings.HasPrefix(r.group, "rbac"):
			weight = 8
		}
		for range weight {
			g.weighted = append(g.weighted, r)
		}
	}
	return g
}

func (g *parityMaker) chance(percent int) bool { return g.rand.IntN(100) < percent }

func (g *parityMaker) one(of ...string) string { return of[g.rand.IntN(len(of))] }

// request is the next one.
func (g *parityMaker) request() *parityRequest {
	g.made++
	var r *parityRequest
	switch n := g.rand.IntN(100); {
	case n < 5:
		r = g.document()
	default:
		r = g.aboutResource()
		if n < 9 {
			g.oddPath(r)
		}
	}
	r.forms = [2]int{g.form(), g.form()}
	if r.pages || r.resource == nil && r.forms[0] == fullForm {
		r.forms[0] = prefixForm // the composite view has other pages
	}
	if strings.Contains(strings.Join(r.query, "&"), "par-a.b") {
		r.forms[0] = shortForm // where such a name is what it is in a cluster: that of no namespace
	}
	if strings.Contains(fmt.Sprint(r.header), "as=Table") && r.namespace == "" && r.forms[0] == shortForm {
		r.forms[0] = prefixForm // the composite view has a column more
	}
	return r
}

func (g *parityMaker) form() int {
	switch n := g.rand.IntN(10); {
	case n < 5:
		return shortForm
	case n < 8:
		return prefixForm
	}
	return fullForm
}

// document asks for what is not about objects.
func (g *parityMaker) document() *parityRequest {
	resource := g.resources[g.rand.IntN(len(g.resources))]
	r := &parityRequest{method: g.one("GET", "GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE")}
	r.path = g.one("/", "/api", "/apis", "/api/v1", "/apis", "/api/v1", resource.root(), resource.root(),
		"/apis/"+resource.group, "/apis/"+parityGroup, "/apis/"+parityGroup+"/v1", "/apis/"+parityGroup+"/v9",
		"/apis/none.example.com",
		"/version", "/version/", "/healthz", "/livez", "/readyz", "/healthz/ping", "/readyz/ping", "/openapi/v3",
		"/openapi/v3"+resource.root(), "/openapi/v3/nothing", "/openapi", "/nothing", "/api/", "/apis/", "/api/v2",
		"/favicon.ico", "/robots.txt",
		"/.well-known/openid-configuration", "/openid/v1/jwks")
	if g.chance(60) {
		const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		r.header = append(r.header,
			[2]string{"Accept", g.one("application/json", "*/*", aggregated, aggregated+",application/json",
				"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
				"application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList",
				"application/yaml", parityProtobuf, parityProtobuf+",application/json",
				"text/html", "application/cbor",
				"", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
				"application/json;as=Table;v=v1;g=meta.k8s.io",
				"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")})
	}
	if g.chance(10) {
		r.header = append(r.header, [2]string{"If-None-Match", g.one(`"x"`, `*`, `W/"x"`)})
	}
	if g.chance(15) {
		r.query = append(r.query, g.one("pretty=true", "timeout=32s", "timeout=x", "hash=x", "verbose", "exclude=ping",
			"watch=true", "profile=nopeer"))
	}
	return r
}

// oddPath changes the path into one that clients should not send.
func (g *parityMaker) oddPath(r *parityRequest) {
	if r.changes {
		return
	}
	switch g.rand.IntN(8) {
	case 0:
		r.path += "/"
	case 1:
		r.path += "/" + g.one("nothing", "status", "scale", "log", "proxy", "x/y", "status/x", "..", ".", "%2e%2e",
			"a%2Fb", "a%20b", "%00")
	case 2:
		r.path = strings.Replace(r.path, "/v1", "/"+g.one("v9", "V1", "v1alpha1", "v1beta1", ""), 1)
	case 3:
		r.path = strings.Replace(r.path, "/", "//", g.rand.IntN(4))
	case 4:
		r.path = strings.Replace(r.path, r.resource.name, g.one(strings.ToUpper(r.resource.name),
			strings.TrimSuffix(r.resource.name, "s"), "nothings", r.resource.kind), 1)
	case 5:
		r.path = strings.Replace(r.path, "/namespaces/",
			g.one("/namespaces//", "/Namespaces/", "/namespace/", "/namespaces/%20", "/namespaces/-"), 1)
	case 6:
		r.path = r.resource.root() + "/watch" + strings.TrimPrefix(r.path, r.resource.root())
		r.stream = true
		r.query = append(r.query, "timeoutSeconds=1")
	case 7:
		r.method = g.one("OPTIONS", "TRACE", "FOO", "HEAD", "PROPFIND")
	}
}

// aboutResource asks for objects.
func (g *parityMaker) aboutResource() *parityRequest {
	resource := g.weighted[g.rand.IntN(len(g.weighted))]
	r := &parityRequest{resource: resource}
	if resource.namespaced {
		r.namespace = g.one("par-a", "par-a", "par-a", "par-b", "par-b", parityScratch, "default", "nothing")
	}
	if !slices.Contains(resource.verbs, "list") && g.chance(80) {
		g.create(r) // a review
		return r
	}
	switch n := g.rand.IntN(100); {
	case n < 14:
		g.get(r)
	case n < 38:
		g.list(r)
	case n < 50:
		g.watch(r)
	case n < 62:
		g.create(r)
	case n < 71:
		g.update(r)
	case n < 86:
		g.patch(r)
	case n < 92:
		g.delete(r)
	case n < 95:
		g.deleteCollection(r)
	default:
		g.connect(r)
	}
	return r
}

// existing gives the request the name of an object, which mostly exists.
func (g *parityMaker) existing(r *parityRequest) {
	r.name = g.one("par-1", "par-1", "par-2", "par-3", "nothing")
	if !r.resource.namespaced {
		r.name += "-" + g.one("par-a", "par-b")
	}
	switch {
	case r.resource.name == "namespaces":
		r.name = g.one("par-a", "par-b", "par-s", "nothing")
	case r.resource.name == "customresourcedefinitions":
		r.name = g.one("pars", "parcs", "nones") + "." + parityGroup
	case r.namespace == parityScratch:
		r.name = g.scratchName()
	case r.resource.name == "serviceaccounts" && g.chance(20):
		r.name = "default"
	case r.resource.name == "clusterroles" && g.chance(30):
		r.name = g.one("view", "edit", "cluster-admin", "system:basic-user", "system:nothing")
	}
}

func (g *parityMaker) scratchName() string { return fmt.Sprintf("par-w%d", g.rand.IntN(6)) }

// safely reports whether the resource can be written to for good without harm to
// what is compared.
func (g *parityMaker) safely(r *parityResource) bool {
	if r.class != kinds.Tenant || r.group == "admissionregistration.k8s.io" {
		return false
	}
	return !slices.Contains([]string{
		"customresourcedefinitions", "namespaces", "resourcequotas", "limitranges",
	}, r.name)
}

// target chooses whether a request writes for good, to the objects that are
// there for this, or what it would do.
func (g *parityMaker) target(r *parityRequest) {
	if !g.safely(r.resource) || g.chance(50) {
		r.query = append(r.query, "dryRun=All")
		return
	}
	r.changes = true
	r.name = g.scratchName()
	if r.resource.namespaced {
		r.namespace = parityScratch
	}
}

// sub chooses one of the sub-resources that take a verb, or none.
func (g *parityMaker) sub(r *parityRequest, verb string, percent int) string {
	if !g.chance(percent) {
		return ""
	}
	var subs []string
	for _, s := range r.resource.subs {
		if slices.Contains(r.resource.subVerbs[s], verb) && s != "proxy" && s != "exec" && s != "attach" &&
			s != "portforward" {
			subs = append(subs, s)
		}
	}
	if len(subs) == 0 {
		return ""
	}
	return "/" + subs[g.rand.IntN(len(subs))]
}

func (g *parityMaker) get(r *parityRequest) {
	r.method = g.one("GET", "GET", "GET", "GET", "HEAD")
	g.existing(r)
	r.path = r.resource.path(r.namespace, r.name) + g.sub(r, "get", 25)
	g.readQuery(r, 25)
	g.accept(r)
}

func (g *parityMaker) list(r *parityRequest) {
	r.method = g.one("GET", "GET", "GET", "GET", "GET", "GET", "HEAD")
	if r.resource.namespaced && g.chance(40) {
		r.namespace = ""
	}
	r.path = r.resource.path(r.namespace, "")
	if g.chance(25) {
		g.inParts(r)
	}
	g.readQuery(r, 60)
	g.accept(r)
}

// inParts asks for a list in parts. Where the system space has other objects
// beside those that are compared, the parts are put together.
func (g *parityMaker) inParts(r *parityRequest) {
	limit := g.one("1", "2", "3", "100")
	if !slices.Contains(parityNamespaces(), r.namespace) && r.resource.class == kinds.Tenant {
		limit = g.one("50", "100", "500")
	}
	r.query, r.pages, r.method = append(r.query, "limit="+limit), true, http.MethodGet
}

func (g *parityMaker) watch(r *parityRequest) {
	r.method, r.stream = http.MethodGet, true
	if r.resource.namespaced && g.chance(40) {
		r.namespace = ""
	}
	r.path = r.resource.path(r.namespace, "")
	if g.chance(15) {
		g.existing(r)
		r.path = r.resource.path(r.namespace, r.name)
	}
	if g.chance(10) {
		r.path = r.resource.root() + "/watch" + strings.TrimPrefix(r.path, r.resource.root())
	} else {
		r.query = append(r.query, g.key("watch")+"="+g.truth())
		if g.chance(8) {
			r.query = append(r.query, "watch="+g.truth())
		}
	}
	r.query = append(r.query, "timeoutSeconds=1")
	switch g.rand.IntN(6) {
	case 0:
		r.query = append(r.query, "resourceVersion=0")
	case 1:
		r.query = append(r.query, "resourceVersion="+g.one("1", "@NOW@", "@BEFORE@", "x", "999999999999"))
	case 2, 3:
		r.query = append(r.query, "sendInitialEvents="+g.truth(), "resourceVersionMatch="+
			g.one("NotOlderThan", "NotOlderThan", "NotOlderThan", "Exact", "x"), "allowWatchBookmarks="+g.truth())
		if g.chance(30) {
			r.query = append(r.query, "resourceVersion="+g.one("0", "1", "@NOW@"))
		}
	}
	g.selectors(r, 25)
	g.accept(r)
	if g.chance(15) {
		r.websocket = slices.Clone([][]string{{}, {"binary.k8s.io"}, {"base64.binary.k8s.io"}, {"x"},
			{"base64.binary.k8s.io", "binary.k8s.io"}}[g.rand.IntN(5)])
	}
}

// connect asks for what only a node could give.
func (g *parityMaker) connect(r *parityRequest) {
	name := g.one("pods", "pods", "services")
	at := slices.IndexFunc(g.resources, func(r *parityResource) bool { return r.group == "" && r.name == name })
	r.resource = g.resources[at]
	r.namespace, r.name = g.one("par-a", "par-b"), g.one("par-1", "par-2", "nothing")
	r.method = g.one("GET", "GET", "POST")
	port := g.one("", ":80", ":http", "http:par-1:80", ":x", ":99999")
	name = r.name + port
	if strings.HasPrefix(port, "http") {
		name = port
	}
	if r.resource.name == "services" {
		r.path = r.resource.path(r.namespace, name) + "/proxy" + g.one("", "/", "/x", "/x/")
		return
	}
	switch g.rand.IntN(5) {
	case 0:
		r.path = r.resource.path(r.namespace, name) + "/proxy" + g.one("", "/", "/x", "/x/")
	case 1:
		r.path = r.resource.path(r.namespace, r.name) + "/log"
		r.query = append(r.query, g.one("container=c", "container=x", "follow=true", "tailLines=x", "tailLines=-1",
			"previous=1", "sinceSeconds=0", "stream=Stdout", "limitBytes=0"))
	default:
		r.path = r.resource.path(r.namespace, r.name) + g.one("/exec", "/attach", "/portforward")
		r.query = append(r.query, g.one("command=ls", "command=ls&stdout=true", "stdout=1", "stdin=yes&stdout=true",
			"container=x&command=ls&stderr=true", "ports=80", "ports=x", "stdout=true&tty=true&stdin=true"))
		if g.chance(60) {
			r.method = "GET"
			r.websocket = slices.Clone([][]string{{}, {"v5.channel.k8s.io"}, {"v4.channel.k8s.io", "x"}, {"x"},
				{"SPDY/3.1+portforward.k8s.io"}}[g.rand.IntN(5)])
		} else if g.chance(50) {
			r.header = append(r.header, [2]string{"X-Stream-Protocol-Version", "v4.channel.k8s.io"})
		}
	}
}
