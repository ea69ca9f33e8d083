package spaces_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
	"github.com/a4s-io/a4s/tests/sizes"
)

const (
	// isolationRequests is how many requests a run sends unless
	// A4S_ISOLATION_REQUESTS says another number.
	isolationRequests = 200_000
	isolationWorkers  = 32
	// isolationPatience is how long more are sent where too few are answered.
	isolationPatience = 15 * time.Minute
)

// canary is what must never be seen by another tenant: in names, contents and
// labels of everything that tenant b and the system space hold. It is found in
// base64 and hexadecimal as well.
type canary struct{ forms [][]byte }

func newCanary(word string) canary {
	c := canary{forms: [][]byte{[]byte(word), []byte(fmt.Sprintf("%x", word))}}
	for shift := range 3 { // base64 of the word at each of the three offsets
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + word + "xxx"))
		c.forms = append(c.forms, []byte(encoded[4:len(encoded)-8]))
	}
	return c
}

func (c canary) in(b []byte) bool {
	for _, f := range c.forms {
		if bytes.Contains(b, f) {
			return true
		}
	}
	return false
}

// TestIsolation drives random requests as a user of tenant a, with all rights
// in their space, against a server where tenant b and the system space hold
// canaries: no byte of one may come back (secrecy), none may be changed
// (integrity), and the system and b go on meanwhile (availability).
func TestIsolation(t *testing.T) {
	if nstest.Isolate(t) {
		of := startProvider(t)
		isolation(t, start(t, of.configure), of, isolationRequests, true)
	}
}

// TestIsolationInAServiceGroup is TestIsolation on a server that caches b and not a, whose
// deletion is the work of the group that has it.
func TestIsolationInAServiceGroup(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	of := startProvider(t)
	p := start(t, func(cfg *config.Server) {
		of.configure(cfg)
		cfg.ServiceGroupID = "0"
	})
	const config = `{"apiVersion":"v1","kind":"DataPartitionConfig","metadata":{"name":"p"},` +
		`"serviceGroupId":"0","rangeStart":"b","isRangeStartValid":true}`
	if code, body := do(t, p.Admin, http.MethodPost, partitionsPath, config, nil); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	isolation(t, p, of, isolationRequests/4, false)
}

// isolation sends the requests. At last it deletes the attacker's tenant, if the server has it.
func isolation(t *testing.T, p *plane, of *provider, total int, hasAttacker bool) {
	total = sizes.Of(t, "A4S_ISOLATION_REQUESTS", total)
	p.narrow(t, p.bareTenant(t, "a"))
	b := p.tenant(t, "b")
	const word = "zqcanaryzq"
	c := newCanary(word)
	plant(t, b.client, "default", word)
	plant(t, p.admin, "default", word)
	plant(t, p.admin, "kube-system", word)
	// A system namespace that is called like the tenant of the attacker.
	if _, err := p.admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	plant(t, p.admin, "a", word)
	plantCustoms(t, p, b, word)
	plantAPIServer(t, p, word)
	plantOwned(t, p)
	plantNode(t, p, "web", word)
	plantDevices(t, p, b)
	plantAccess(t, p, word)
	member, own := newDouble(t, p, of, word), newGuest(t, p)
	if err := p.showNodes(t, "a", "ReadOnly"); err != nil {
		t.Fatal(err)
	}
	planes.CreateTenant(t, p.Admin, asleep)
	far := plantPartition(t, p)
	held := plantClass(t, p)
	p.limit(t, "b", `{"quota":{"count/things.`+word+`.example.com":"1000000","secrets":"1000000"}}`)
	before := planted(t, p, word)
	if code, body := get(t, p.Admin, "/api/v1/secrets"); code != http.StatusOK || !c.in([]byte(body)) {
		t.Fatal("the canary is not found where it is")
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("A4S_ISOLATION_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64) //nolint:errcheck // 0 is a seed too
	}
	t.Logf("%d requests, A4S_ISOLATION_SEED=%d", total, seed)
	// As one of the masters of their space: they cannot lose their rights by
	// deleting what binds them.
	a := p.as(t, "a", p.user(t, "mallory", []string{"tenant:a"}, []string{"system:masters"}))
	done := make(chan struct{})
	defer close(done)
	ownCustoms(t, a, done)
	client, err := rest.HTTPClientFor(a.config)
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	var background sync.WaitGroup
	over := make(chan struct{})
	background.Go(func() { steady(t.Context(), t, p, b, over) })
	background.Go(func() { far.watch(t.Context(), t, over) })
	background.Go(func() { member.bound(t.Context(), t, p, over) })
	composite := regexp.MustCompile(`\bdefault\.a([^a-zA-Z0-9.-]|$)`)
	var sent, failures, customs, hostile, sockets atomic.Int64
	codes := make([]atomic.Int64, 600)
	answered := func() bool { return codes[http.StatusOK].Load() >= int64(total)*9/10/20 }
	customized := func() bool { return customs.Load() >= int64(total)/200 }
	streamed := func() bool { return sockets.Load() >= int64(total)/20_000 }
	// A slow machine answers few of them in the time that the attacker waits: then more are sent.
	enough := func() bool {
		return answered() && customized() && streamed() && member.enough(total) && own.enough(total)
	}
	begun := time.Now()
	var workers sync.WaitGroup
	for i := range isolationWorkers {
		workers.Go(func() {
			g := &attacker{rand: rand.New(rand.NewPCG(seed, uint64(i))), host: a.config.Host, kinds: customKinds()}
			g.held = held
			for !t.Failed() && (sent.Add(1) <= int64(total) || !enough() && time.Since(begun) < isolationPatience) {
				r := g.request()
				if g.chance(10) {
					r = g.hostile()
					hostile.Add(1)
				}
				if g.chance(10) {
					r.instead(asleep)
				}
				code, answer := 0, []byte(nil)
				switch {
				case g.chance(10):
					code, answer = member.send(t.Context(), g, r)
				case g.chance(10):
					code, answer = own.send(t.Context(), g, r)
				default:
					if code, answer = r.send(t.Context(), client); code < len(codes) {
						codes[code].Add(1)
					}
				}
				if code == http.StatusOK && strings.Contains(r.url, "/"+isolationGroup+"/v") {
					customs.Add(1)
				}
				if code == http.StatusSwitchingProtocols {
					sockets.Add(1)
				}
				// Nor is anything of a's own shown by the name that others know.
				if at := composite.FindIndex(answer); at != nil && code < http.StatusBadRequest &&
					!r.mentions("default.a") {
					t.Errorf("%s %s\n%s\n%s\nanswered %d with a composite name:\n%s", r.method, r.url, r.header,
						r.body, code, answer[max(0, at[0]-300):min(len(answer), at[1]+300)])
				}
				if code == http.StatusInternalServerError && failures.Add(1) <= 10 {
					t.Logf("%s %s\n%s\nfailed: %.500s", r.method, r.url, r.body, answer)
				}
				if c.in(answer) && !r.mentions(word) {
					t.Errorf("%s %s\n%s\n%s\nanswered %d with a canary:\n%s", r.method, r.url, r.header, r.body,
						code, clip(answer, c))
				}
			}
		})
	}
	workers.Wait()
	close(over)
	background.Wait()
	summary := ""
	for code := range codes {
		if n := codes[code].Load(); n > 0 {
			summary += fmt.Sprintf(" %d:%d", code, n)
		}
	}
	t.Logf("answers by code:%s", summary)
	// A run that was refused at the door would prove nothing.
	if !answered() {
		t.Errorf("too few requests were answered: the test does not test")
	}
	t.Logf("%d requests about custom resources were answered", customs.Load())
	if !customized() {
		t.Errorf("too few of them: the test does not test custom resources")
	}
	t.Logf("%d requests were of kinds that did harm once", hostile.Load())
	t.Logf("%d watches were over WebSocket", sockets.Load())
	if !streamed() {
		t.Errorf("too few: the test does not test them")
	}
	member.check(t, total)
	own.check(t, total)
	keepsCustoms(t, p, b, c)
	keepsDevices(t, p)
	keepsAccess(t, p)
	keepsAllowances(t.Context(), t, p)
	after := planted(t, p, word)
	for path, was := range before {
		if after[path] != was {
			t.Errorf("%s was\n%s\nand is\n%s", path, was, after[path])
		}
	}
	if code, body := get(t, p.Admin, "/api/v1/tenants/b/secrets"); code != http.StatusOK || !c.in([]byte(body)) {
		t.Errorf("the canaries of the other tenant are gone: %d", code)
	}
	// The attacker may make a namespace of that name in their own space.
	keys := slices.DeleteFunc(p.keys(t, "/"+asleep+"/"), func(key string) bool {
		return strings.Contains(key, "/a/"+asleep+"/")
	})
	if len(keys) > 0 {
		t.Errorf("the space of a tenant that nobody uses is made: %q", keys)
	}
	if code, body := get(t, p.Admin, "/api/v1/tenants/"+asleep); !strings.Contains(body, tenantapi.ReasonDormant) {
		t.Errorf("a tenant that nobody uses: %d %s", code, body)
	}
	classGoes(t, p)
	if hasAttacker {
		tenantGoes(t, p, "a")
	}
}

// asleep is a tenant that nobody uses, so its space is not made.
const asleep = "asleep"

// instead addresses another tenant than b.
func (r *attack) instead(tenant string) {
	names := strings.NewReplacer("tenants/b", "tenants/"+tenant, ".b", "."+tenant, `"b"`, `"`+tenant+`"`)
	r.url, r.body = names.Replace(r.url), names.Replace(r.body)
	for _, values := range r.header {
		for i := range values {
			if values[i] == "b" {
				values[i] = tenant
			}
		}
	}
}

func clip(answer []byte, c canary) []byte {
	for _, f := range c.forms {
		if i := bytes.Index(answer, f); i >= 0 {
			return answer[max(0, i-300):min(len(answer), i+300)]
		}
	}
	return answer
}

// plant makes objects with the canary in them.
func plant(t *testing.T, client kubernetes.Interface, ns, word string) {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: "x-" + word, Labels: map[string]string{"app": word},
		Annotations: map[string]string{"note": word}}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.CoreV1().Secrets(ns).Create(ctx,
		&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"k": word}}, metav1.CreateOptions{})
	check(err)
	_, err = client.CoreV1().ConfigMaps(ns).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": word}}, metav1.CreateOptions{})
	check(err)
	// Under a name that the attacker guesses.
	plain := *meta.DeepCopy()
	plain.Name = "web"
	_, err = client.CoreV1().ConfigMaps(ns).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: plain, Data: map[string]string{"k": word}}, metav1.CreateOptions{})
	check(err)
	d := deployment("web")
	d.Annotations = map[string]string{"note": word}
	d.Spec.Template.Annotations = map[string]string{"note": word}
	d.Spec.Template.Spec.Containers[0].Image = "example.com/" + word
	_, err = client.AppsV1().Deployments(ns).Create(ctx, d, metav1.CreateOptions{})
	check(err)
	_, err = client.CoreV1().Services(ns).Create(ctx, &corev1.Service{
		ObjectMeta: plain,
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: word, Port: 80}}},
	}, metav1.CreateOptions{})
	check(err)
	_, err = client.AppsV1().StatefulSets(ns).Create(ctx,
		&appsv1.StatefulSet{ObjectMeta: plain, Spec: appsv1.StatefulSetSpec{
			Selector: d.Spec.Selector, Template: d.Spec.Template, ServiceName: word}}, metav1.CreateOptions{})
	check(err)
	_, err = client.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{
		ObjectMeta: plain,
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{word}, APIGroups: []string{word}, Resources: []string{word}}},
	}, metav1.CreateOptions{})
	check(err)
	for _, name := range []string{"web", "x-" + word} {
		name = name + "-" + ns
		cluster := *meta.DeepCopy()
		cluster.Name = name
		v := volume(name)
		v.ObjectMeta = cluster
		_, err = client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
		check(err)
		_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: cluster},
			metav1.CreateOptions{})
		check(err)
	}
	_, err = client.CoreV1().Events(ns).Create(ctx, &corev1.Event{ObjectMeta: plain, Message: word, Reason: "Canary",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: word}}, metav1.CreateOptions{})
	check(err)
}

// attacker makes up requests.
type attacker struct {
	rand  *rand.Rand
	host  string
	kinds []kinds.Kind
	held  string // the UID of what holding is about
}

type attack struct {
	method, url, body string
	header            http.Header
	watch             bool
}

// mentions reports whether the request itself has the canary in it: an answer
// may repeat what was asked.
func (r *attack) mentions(word string) bool {
	return strings.Contains(r.url+r.body+fmt.Sprint(r.header), word)
}

func (r *attack) send(ctx context.Context, client *http.Client) (int, []byte) {
	// Nobody waits for the attacker's own webhooks and for hosts that are none.
	within := time.Second
	if r.watch {
		within = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, body)
	if err != nil {
		return 0, nil
	}
	req.Header = r.header
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	// A connection that was upgraded does not end with its request.
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
	// What came before a watch was left is looked at too.
	answer, _ := io.ReadAll(resp.Body) //nolint:errcheck // see above
	for name, values := range resp.Header {
		answer = append(answer, name+strings.Join(values, " ")...)
	}
	return resp.StatusCode, answer
}

func pick[T any](g *attacker, of ...T) T { return of[g.rand.IntN(len(of))] }

func (g *attacker) chance(percent int) bool { return g.rand.IntN(100) < percent }

// name is one that exists in the attacker's space, in others, or in none.
func (g *attacker) name() string {
	return pick(g, "web", "web", "default", "admin", "view", "cluster-admin", "system:node", "kube-root-ca.crt",
		"web-default", "web.b.tenant", "web-default.b.tenant", "usage", "usage.b.tenant",
		"default.b", "../default.b", "..%2Fdefault.b", "b", "system", "all", "web%00", "kubernetes",
		strconv.Itoa(g.rand.IntN(50)))
}

func (g *attacker) namespace() string {
	return pick(g, "default", "default", "default", "kube-system", "kube-public", "default.b", "default.b.a", "b", "a",
		"a.a", "..", ".", "", "default%2Fb", "default.system", "kube-system.b")
}

func (g *attacker) request() *attack {
	r := &attack{header: http.Header{}}
	k := pick(g, g.kinds...)
	version := pick(g, "v1", "v1", "v1", "v2", "v1beta1", "v1alpha1")
	if k.Group == isolationGroup && g.chance(70) {
		version = "v1"
	}
	root := "/apis/" + k.Group + "/" + version
	if k.Group == "" {
		root = "/api/v1"
	}
	path := root
	if g.chance(10) {
		path += "/watch"
	}
	if g.chance(15) {
		path += "/tenants/" + pick(g, "a", "b", "system", "all", "nobody", "a/tenants/b", "..", "")
	}
	if k.Namespaced && g.chance(70) || g.chance(5) {
		ns := g.namespace()
		if k.Group == isolationGroup && g.chance(50) {
			ns = "default"
		}
		path += "/namespaces/" + ns
	}
	path += "/" + k.Resource
	named := g.chance(45)
	if named {
		name := g.name()
		switch {
		case k.Resource == "customresourcedefinitions":
			name = g.definitionName()
		case k.Group == isolationGroup && g.chance(80):
			name = g.customName()
		}
		path += "/" + name
		if g.chance(25) {
			path += "/" + pick(g, "status", "scale", "log", "exec", "proxy", "finalize", "eviction", "token",
				"binding", "attach", "portforward", "ephemeralcontainers", "approval", "resize")
		}
	}
	switch g.rand.IntN(20) {
	case 0:
		path = pick(g, "/tenants/a", "/tenants/b", "/tenants/system", "/tenants/all", "/tenants/",
			"/partitions/main", "/partitions/tp2", "/partitions/main/tenants/b", "/partitions/") + path
	case 1:
		path = pick(g, "/", "/api", "/apis", root, "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1",
			"/openapi/v3"+root, "/apis/"+isolationGroup, "/apis/"+isolationGroup+"/v1", "/apis/"+isolationGroup+"/v2",
			"/openapi/v3/apis/"+isolationGroup+"/v1", "/openapi/v3/apis/"+isolationGroup+"/v2", "/version", "/metrics",
			"/healthz", "/livez?verbose", "/readyz", "/logs", "/logs/", "/debug/pprof/heap",
			"/configz", "/.well-known/openid-configuration", "/openid/v1/jwks", "/v1-a4s/status", "/v1-a4s/config",
			"/cacerts", "/v1-a4s/podaddresses", "/statusz", "/flagz",
			"/debug/api_priority_and_fairness/dump_requests", "/metrics/slis")
	case 2:
		path = strings.Replace(path, "/", pick(g, "//", "/./", "/%2e%2e/", "/tenants/b/"), 1+g.rand.IntN(2))
	}
	query := url.Values{}
	r.method = pick(g, "GET", "GET", "GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
	if g.chance(12) && r.method == "GET" && (!named || g.chance(20)) {
		query["watch"] = pick(g, []string{"true"}, []string{"True"}, []string{""}, []string{"yes"},
			[]string{"1", "0"}, []string{"0", "1"})
		r.watch = true
		if g.chance(50) {
			query.Set("resourceVersion", pick(g, "0", "1", ""))
		}
		if g.chance(30) {
			query.Set("sendInitialEvents", "true")
			query.Set("resourceVersionMatch", "NotOlderThan")
			query.Set("allowWatchBookmarks", "true")
		}
	}
	r.watch = r.watch || strings.Contains(path, "/watch/")
	if g.chance(20) {
		query.Set("fieldSelector",
			pick(g, "metadata.namespace=default.b", "metadata.namespace=default", "metadata.name=web",
				"metadata.name!=web", "metadata.namespace!=default", "involvedObject.namespace=default.b",
				"spec.nodeName=", "a4s.tenant=b", "a4s.tenant=system", "a4s.tenant!=a", "metadata.namespace=",
				"status.phase=Pending", "spec.secret=x"))
	}
	if g.chance(20) {
		query.Set("labelSelector", pick(g, "app", "!app", "a4s.io/tenant=b", "a4s.io/tenant", "!a4s.io/tenant",
			"kubernetes.io/metadata.name=default.b", "kubernetes.io/metadata.name in (default,default.b)",
			"app notin (x)", "a4s.io/tenant!=a"))
	}
	if g.chance(10) {
		query.Set("limit", strconv.Itoa(1+g.rand.IntN(3)))
	}
	if g.chance(5) {
		token := pick(g, `{"v":"meta.k8s.io/v1","rv":-1,"start":"../b/default/web\u0000"}`,
			`{"v":"meta.k8s.io/v1","rv":-1,"start":"/b/default/"}`,
			`{"v":"meta.k8s.io/v1","rv":2,"start":"default/a\u0000"}`, "garbage")
		query.Set("continue", base64.RawURLEncoding.EncodeToString([]byte(token)))
	}
	if g.chance(8) {
		query.Set("resourceVersion", pick(g, "0", "1", "100", "999999999", "x"))
		query.Set("resourceVersionMatch", pick(g, "Exact", "NotOlderThan", ""))
	}
	if g.chance(5) {
		query.Set("dryRun", "All")
	}
	if g.chance(3) {
		query.Set("pretty", "true")
	}
	g.headers(r)
	if r.method == "POST" || r.method == "PUT" || r.method == "PATCH" || (r.method == "DELETE" && g.chance(20)) {
		g.body(r, k, version, query)
	}
	if len(query) > 0 && !strings.Contains(path, "?") {
		path += "?" + query.Encode()
	}
	r.url = g.host + path
	return r
}

func (g *attacker) headers(r *attack) {
	const table, partial = "application/json;as=Table;v=v1;g=meta.k8s.io",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	if g.chance(60) {
		r.header.Set("Accept", pick(g, "application/json", table, table+",application/json", partial,
			"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/yaml",
			"application/vnd.kubernetes.protobuf",
			"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
			"application/cbor", "*/*", "text/html",
			"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
			"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"))
	}
	if g.chance(10) {
		r.header.Set("Accept-Encoding", pick(g, "gzip", "gzip;q=0", "br", "deflate"))
	}
	if g.chance(10) {
		r.header.Set("Impersonate-User", pick(g, "alice", "admin", "system:admin",
			"system:serviceaccount:default:default", "system:serviceaccount:default.b:default",
			"system:serviceaccount:kube-system:default", "system:node:x"))
		if g.chance(50) {
			r.header.Set("Impersonate-Group",
				pick(g, "system:masters", "system:nodes", "system:serviceaccounts:default.b", "tenant:b"))
		}
		if g.chance(30) {
			r.header.Set("Impersonate-Extra-"+pick(g, "a4s.io%2Ftenant", "a4s.io/tenant", "A4s.io%2ftenant", "scopes"),
				pick(g, "a", "b", "system", ""))
		}
	}
	if g.chance(3) {
		r.header.Set(pick(g, partitionapi.PartHeader, partitionapi.StreamHeader),
			pick(g, "0", "1", "system", partitionapi.Rest))
	}
	if g.chance(3) {
		r.header.Set(pick(g, "X-Remote-User", "X-Remote-Group", "X-Forwarded-For", "X-Remote-Extra-A4s.io%2ftenant",
			"A4s-Partition", "A4s-Tenant-Uid"), pick(g, "admin", "system:masters", "b", "main", "tp2"))
	}
	if g.chance(2) || r.watch && g.chance(30) {
		r.header.Set("Connection", "Upgrade")
		r.header.Set("Upgrade", pick(g, "websocket", "websocket", "websocket", "SPDY/3.1"))
		r.header.Set("Sec-WebSocket-Version", "13")
		r.header.Set("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
		r.header.Set("Origin", pick(g, "http://example.com", "http://example.com", "null"))
		if g.chance(30) {
			r.header.Set("Sec-WebSocket-Protocol", pick(g, "base64.binary.k8s.io", "v5.channel.k8s.io", "a, b"))
		}
	}
}

func (g *attacker) body(r *attack, k kinds.Kind, version string, query url.Values) {
	apiVersion := version
	if k.Group != "" {
		apiVersion = k.Group + "/" + version
	}
	ns := pick(g, `"namespace":"default",`, "", `"namespace":"default.b",`, `"namespace":"`+g.namespace()+`",`)
	tenant := pick(g, "", "", "", "", `"tenant":"a",`, `"tenant":"b",`, `"tenant":"system",`,
		`"tenant":"b","tenant":"a",`, `"tenant":null,"tenant":"b",`,
		`"selfLink":"/api/v1/tenants/b/namespaces/default/configmaps/web",`,
		`"namespace":"default.b","namespace":"default",`)
	name := pick(g, `"name":"`+strings.ReplaceAll(g.name(), "%", "")+`"`,
		`"name":"n`+strconv.Itoa(g.rand.IntN(50))+`"`, `"generateName":"g-"`)
	labels := pick(g, "", `,"labels":{"a4s.io/tenant":"b"}`, `,"labels":{"app":"x"}`)
	owner := pick(g, "", "", "",
		`,"ownerReferences":[{"apiVersion":"v1","kind":"PersistentVolume","name":"web-default.b.tenant","uid":"1"}]`)
	spec := pick(g, "", "", `,"data":{"k":"v"}`, `,"spec":{}`, `,"roleRef":{"apiGroup":"rbac.authorization.k8s.io",`+
		`"kind":"ClusterRole","name":"`+pick(g, "view", "web-default.b.tenant", "cluster-admin")+
		`"},"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"`+pick(g, "default", "default.b")+`"}]`,
		`,"spec":{"containers":[{"name":"c","image":"x"}],`+
			`"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"x",`+
			`"namespaceSelector":{},"namespaces":["default.b"]}]}}}`,
		`,"spec":{"volumeName":"web-default.b.tenant","storageClassName":"by-hand","accessModes":["ReadWriteOnce"],`+
			`"resources":{"requests":{"storage":"1Gi"}}}`,
		`,"spec":{"resourceAttributes":{"namespace":"default.b","verb":"get","resource":"secrets"},"user":"admin"}`,
		`,"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"},`+
			`"claimRef":{"namespace":"default.b","name":"web"}}`,
		`,"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}],`+
			`"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"app":"x"}},{}]}`,
		`,"webhooks":[{"name":"x.example.com","clientConfig":{"service":{"name":"web","namespace":"default.b"}},`+
			`"rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["*"],"resources":["nothing"]}],`+
			`"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore"}]`)
	if g.chance(5) { // what is translated comes twice
		spec += pick(g, `,"roleRef":{"kind":"ClusterRole"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",`+
			`"name":"web-default.b.tenant"}`, `,"metadata":{"namespace":"default.b"}`, `,"metadata":null`,
			`,"spec":{"claimRef":{"namespace":"default.b"},"claimRef":{"name":"web"},"claimRef":null}`,
			`,"kind":"Status","kind":"`+k.Kind+`"`)
	}
	switch {
	case k.Resource == tenantapi.Accesses && g.chance(80):
		spec = g.access()
	case k.Resource == "customresourcedefinitions":
		if name, spec = g.definition(); g.chance(80) {
			tenant, owner = "", ""
		}
		name = `"name":"` + name + `"`
	case k.Group == isolationGroup:
		spec = pick(g, `,"spec":{"size":9}`, `,"spec":{"replicas":2}`, `,"spec":{"secret":1}`,
			`,"status":{"replicas":1}`, `,"spec":"x"`, "")
		if g.chance(60) {
			name, tenant = `"name":"`+pick(g, "web", "web", "x", "web.b.tenant")+`"`, ""
		}
	}
	r.body = `{"apiVersion":"` + apiVersion + `","kind":"` + k.Kind + `","metadata":{` + ns + tenant + name + labels +
		owner + `}` + spec + `}`
	if g.chance(5) {
		// Kinds that the API server may read otherwise than the edge.
		r.body = strings.Replace(r.body, `"apiVersion":"`+apiVersion+`","kind"`,
			pick(g, `"apiVersion":"","kind"`, `"apiVersion":"/","kind"`, `"APIVersion":"`+apiVersion+`","kind"`,
				`"KIND":"`+k.Kind+`","APIVERSION":"`+apiVersion+`","apiVersion":"x/v1","kind":"X","was"`,
				`"apiVersion":null,"kind"`), 1)
	}
	r.header.Set("Content-Type", pick(g, "application/json", "application/json", "application/json",
		"application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", "text/plain"))
	if r.method != "PATCH" {
		if g.chance(20) {
			r.body = "# YAML\n" + strings.ReplaceAll(r.body, "{", "{\n")
			r.header.Set("Content-Type", "application/yaml")
		}
		return
	}
	switch media := pick(g, "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/json-patch+json", "application/apply-patch+yaml"); media {
	case "application/json-patch+json":
		r.header.Set("Content-Type", media)
		r.body = `[{"op":"` + pick(g, "add", "replace", "remove", "test", "copy", "move") + `","path":"` +
			pick(g, "/metadata/namespace", "/metadata/name", "/metadata/labels/a4s.io~1tenant", "/metadata/tenant",
				"/metadata/annotations", "/spec", "/spec/conversion", "/spec/names", "/metadata", "") +
			`",` + pick(g, "", "", `"path":"/metadata/namespace","value":"b",`, `"other":"default.b",`) +
			`"from":"/metadata/name","value":` + pick(g, `"default.b"`, `"b"`, `{}`, `{"x":"y"}`, `null`) + `}]`
	case "application/apply-patch+yaml":
		r.header.Set("Content-Type", media)
		query.Set("fieldManager", "attacker")
		query.Set("force", "true")
	default:
		r.header.Set("Content-Type", media)
	}
}
