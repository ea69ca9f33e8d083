package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	admit "k8s.io/apiserver/pkg/admission"
	upstreamapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/filters"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/server/controlplane/failure"
)

// asking is what upstream's handlers have asked the storage for.
type asking struct {
	Call, Namespace, Name string
	Lists                 internalversion.ListOptions
	Deletes               metav1.DeleteOptions
}

type askingKey struct{}

func note(ctx context.Context, a asking) {
	if into, ok := ctx.Value(askingKey{}).(*[]asking); ok {
		a.Namespace = endpoints.NamespaceValue(ctx)
		*into = append(*into, a)
	}
}

// recorder is storage that takes note of what it is asked for, and has one
// object of t1.
type recorder struct {
	rest.TableConvertor
	kind string
	one  func() runtime.Object
	list func() runtime.Object
}

func (r *recorder) New() runtime.Object     { return r.one() }
func (r *recorder) NewList() runtime.Object { return r.list() }
func (r *recorder) Destroy()                {}
func (r *recorder) NamespaceScoped() bool   { return r.kind != "namespace" }
func (r *recorder) GetSingularName() string { return r.kind }

func (r *recorder) object() runtime.Object {
	obj := r.one()
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	if m.SetName("default.t1"); r.NamespaceScoped() {
		m.SetName("x")
		m.SetNamespace("default.t1")
	}
	return obj
}

func (r *recorder) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	note(ctx, asking{Call: "get", Name: name})
	return r.object(), nil
}

func (r *recorder) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	note(ctx, asking{Call: "list", Lists: *options})
	list := r.list()
	return list, meta.SetList(list, []runtime.Object{r.object()})
}

func (r *recorder) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	note(ctx, asking{Call: "watch", Lists: *options})
	w := watch.NewFakeWithChanSize(2, false)
	w.Add(r.object())
	w.Modify(r.object())
	w.Stop()
	return w, nil
}

func (r *recorder) Delete(
	ctx context.Context, name string, _ rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	note(ctx, asking{Call: "delete", Name: name, Deletes: *options})
	return r.object(), true, nil
}

func (r *recorder) DeleteCollection(
	ctx context.Context, _ rest.ValidateObjectFunc, options *metav1.DeleteOptions, of *internalversion.ListOptions,
) (runtime.Object, error) {
	note(ctx, asking{Call: "deletecollection", Lists: *of, Deletes: *options})
	list := r.list()
	return list, meta.SetList(list, []runtime.Object{r.object()})
}

// newUpstreamAPI is upstream's API, with its routes and handlers, over storage
// that takes notes.
func newUpstreamAPI(t testing.TB) http.Handler {
	t.Helper()
	container := restful.NewContainer()
	container.ServeMux = http.NewServeMux()
	container.Router(restful.CurlyRouter{})
	version := corev1.SchemeGroupVersion
	group := upstreamapi.APIGroupVersion{
		Storage: map[string]rest.Storage{
			"configmaps": &recorder{TableConvertor: rest.NewDefaultTableConvertor(corev1.Resource("configmaps")),
				kind: "configmap",
				one: func() runtime.Object {
					return &corev1.ConfigMap{}
				}, list: func() runtime.Object { return &corev1.ConfigMapList{} }},
			"namespaces": &recorder{TableConvertor: rest.NewDefaultTableConvertor(corev1.Resource("namespaces")),
				kind: "namespace",
				one: func() runtime.Object {
					return &corev1.Namespace{}
				}, list: func() runtime.Object { return &corev1.NamespaceList{} }},
		},
		Root: "/api", GroupVersion: version, OptionsExternalVersion: &version,
		Serializer: scheme.Codecs, ParameterCodec: scheme.ParameterCodec,
		Typer: scheme.Scheme, Creater: scheme.Scheme, Convertor: scheme.Scheme, Defaulter: scheme.Scheme,
		ConvertabilityChecker:      scheme.Scheme,
		Namer:                      runtime.Namer(meta.NewAccessor()),
		UnsafeConvertor:            runtime.UnsafeObjectConvertor(scheme.Scheme),
		TypeConverter:              managedfields.NewDeducedTypeConverter(),
		EquivalentResourceRegistry: runtime.NewEquivalentResourceRegistry(),
		MinRequestTimeout:          time.Hour, Admit: admit.NewChainHandler(),
	}
	if _, _, err := group.InstallREST(container); err != nil {
		t.Fatal(err)
	}
	resolver := genericapiserver.NewRequestInfoResolver(&genericapiserver.Config{
		LegacyAPIGroupPrefixes: sets.NewString(genericapiserver.DefaultLegacyAPIPrefix),
	})
	return filters.WithRequestInfo(container, resolver)
}

// connection is what upstream takes for one of HTTP/2.
type connection struct{ *httptest.ResponseRecorder }

func (connection) CloseNotify() <-chan bool { return nil }

// run sends a request and says what upstream's storage was asked for.
func run(
	t testing.TB, method, path, query string, serve func(http.ResponseWriter, *http.Request) error,
) (*httptest.ResponseRecorder, []asking) {
	t.Helper()
	var calls []asking
	req := httptest.NewRequestWithContext(context.WithValue(t.Context(), askingKey{}, &calls), method, path, nil)
	req.URL.RawQuery = query
	w := connection{httptest.NewRecorder()}
	if err := serve(w, req); err != nil {
		failure.Write(w, err)
	}
	return w.ResponseRecorder, calls
}

// composite is what storage must be asked for when a user of t1 asks for a.
func (a asking) composite(t testing.TB, namespaces bool) asking {
	t.Helper()
	of := func(name string) string {
		if name == "" {
			return ""
		}
		return name + ".t1"
	}
	if a.Namespace = of(a.Namespace); namespaces {
		a.Name = of(a.Name)
	}
	if a.Lists.FieldSelector != nil {
		var err error
		a.Lists.FieldSelector, err = a.Lists.FieldSelector.Transform(
			func(field, value string) (string, string, error) {
				if field == "metadata.namespace" || namespaces && field == "metadata.name" {
					value = of(value)
				}
				return field, value, nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	if a.Lists.LabelSelector == nil || !namespaces {
		return a
	}
	requirements, _ := a.Lists.LabelSelector.Requirements()
	out := labels.NewSelector()
	for _, r := range requirements {
		if values := r.Values().List(); r.Key() == corev1.LabelMetadataName && len(values) > 0 {
			for i := range values {
				values[i] = of(values[i])
			}
			if composed, err := labels.NewRequirement(r.Key(), r.Operator(), values); err == nil {
				r = *composed
			}
		}
		out = out.Add(r)
	}
	a.Lists.LabelSelector = out
	return a
}

func (a asking) String() string {
	selectors := ""
	if a.Lists.LabelSelector != nil {
		selectors = a.Lists.LabelSelector.String()
	}
	if a.Lists.FieldSelector != nil {
		selectors += " " + a.Lists.FieldSelector.String()
	}
	a.Lists.LabelSelector, a.Lists.FieldSelector = nil, nil
	rest, err := json.Marshal(a)
	if err != nil {
		return err.Error()
	}
	return selectors + string(rest)
}

// queried are the requests whose queries the edge reads, or must not read.
var queried = []struct {
	path       string
	namespaces bool
}{
	{"/api/v1/configmaps", false}, {"/api/v1/namespaces/default/configmaps", false},
	{"/api/v1/namespaces/default/configmaps/x", false},
	{"/api/v1/watch/configmaps", false}, {"/api/v1/watch/namespaces/default/configmaps", false},
	{"/api/v1/watch/namespaces/default/configmaps/x", false},
	{"/api/v1/namespaces", true}, {"/api/v1/namespaces/default", true}, {"/api/v1/watch/namespaces", true},
	{"/api/v1/watch/namespaces/default", true},
}

// checkQuery compares what upstream's handlers make of a query with what they
// make of it behind the edge, and looks at how the answer is shown.
func checkQuery(
	t testing.TB, e *Edge, upstream http.Handler, method, path string, namespaces bool, query string,
) (call string) {
	t.Helper()
	direct, want := run(t, method, path, query, func(w http.ResponseWriter, req *http.Request) error {
		upstream.ServeHTTP(w, req)
		return nil
	})
	at := func() string { return fmt.Sprintf("%s %s?%s", method, path, query) }
	edge, got := run(t, method, path, query, func(w http.ResponseWriter, req *http.Request) error {
		r := read(req)
		if r.resource == nil {
			t.Fatalf("%s is not a resource", at())
		}
		r.space, r.ofTenant = "t1", "t1"
		e.findKind(r)
		return e.serveSpace(w, req, upstream, r)
	})
	if direct.Code != edge.Code {
		t.Errorf("%s: upstream answers %d, behind the edge %d\n%s\n%s", at(), direct.Code, edge.Code,
			direct.Body, edge.Body)
	}
	if len(want) != len(got) {
		t.Fatalf("%s: upstream asks for %v, behind the edge for %v", at(), want, got)
	}
	for i := range want {
		if want, got := want[i].composite(t, namespaces).String(), got[i].String(); want != got {
			t.Errorf("%s: storage must be asked for\n%s\nand is asked for\n%s", at(), want, got)
		}
		call = want[i].Call
	}
	if strings.Contains(edge.Body.String(), "default.t1") && !strings.Contains(query, "t1") {
		t.Errorf("%s shows composite names: %s", at(), edge.Body)
	}
	if edge.Code != http.StatusOK || method != http.MethodGet {
		return call
	}
	items := 0
	for d := json.NewDecoder(edge.Body); d.More(); {
		var shown struct {
			Kind   string
			Object json.RawMessage
			Items  []json.RawMessage
		}
		var whole json.RawMessage
		if err := errors.Join(d.Decode(&whole), json.Unmarshal(whole, &shown)); err != nil {
			t.Fatalf("%s: %v", at(), err)
		}
		if shown.Object != nil {
			shown.Items = []json.RawMessage{shown.Object}
		} else if shown.Items == nil {
			shown.Items = []json.RawMessage{whole}
		}
		for _, item := range shown.Items {
			var object struct {
				Metadata struct{ Name, Namespace, Tenant string }
			}
			if err := json.Unmarshal(item, &object); err != nil || object.Metadata.Tenant != "t1" {
				t.Errorf("%s: not as the tenant sees it: %s, %v", at(), item, err)
			}
			items++
		}
	}
	// A watch that must end at once may end before its events.
	if wanted := map[string]int{"watch": 2, "list": 1, "get": 1}[call]; items != wanted &&
		(call != "watch" || items > wanted || !strings.Contains(query, "timeout")) {
		t.Errorf("%s: a %s shows %d objects", at(), call, items)
	}
	return call
}

// Queries as clients of all sorts write them, and as nobody should.
var queries = []string{
	"", "watch", "watch=", "watch=true", "watch=True", "watch=TRUE", "watch=1", "watch=yes", "watch=0", "watch=false",
	"watch=False", "watch=FALSE", "watch=no", "watch=%20", "watch=00",
	"watch=0&watch=1", "watch=1&watch=0", "Watch=1", "WATCH=true", "watch[]=1", "w%61tch=1", "watch=%74rue",
	"%77%61%74%63%68", "watch%3D1", "watch=%zz", "watch=1;limit=1", ";watch=1", "a=b;watch=1&watch=1", "&&watch=1&&",
	"watch=1#", "+watch=1", "watch+=1", "watch=1%00",
	"watch=1&limit=x", "watch=0&limit=x", "limit=x", "watch=1&timeoutSeconds=1", "watch=1&timeoutSeconds=-1",
	"watch=1&resourceVersion=0", "watch=1&allowWatchBookmarks=", "watch=1&sendInitialEvents",
	"watch=True&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=True",
	"sendInitialEvents=true", "resourceVersionMatch=Exact&resourceVersion=1",
	"resourceVersionMatch=&resourceVersionMatch=Exact", "ResourceVersionMatch=Exact", "limit=1&continue=x",
	"limit=1&limit=2", "dryRun=All", "dryRun", "dryRun=All&dryRun=x",
	"fieldSelector=metadata.namespace=default", "fieldSelector=metadata.namespace%3Ddefault",
	"fieldSelector=metadata.namespace!=default,metadata.name==x",
	"fieldSelector=&fieldSelector=metadata.namespace=default",
	"fieldSelector=metadata.namespace=default&fieldSelector=metadata.namespace=other",
	"FieldSelector=metadata.namespace=default", "fieldSelector=metadata.name=default",
	"fieldSelector=metadata.name=default&watch=", "fieldSelector=metadata.namespace", "fieldSelector=,,",
	"fieldSelector=metadata.namespace%3D%5C%2C", "fieldSelector=metadata.name=a/b&watch=yes",
	"labelSelector=kubernetes.io/metadata.name=default",
	"labelSelector=kubernetes.io/metadata.name+in+(default,x)&watch=True",
	"labelSelector=kubernetes.io/metadata.name!=default",
	"labelSelector=a&labelSelector=kubernetes.io/metadata.name=default", "labelSelector=%21",
	"labelSelector=kubernetes.io%2Fmetadata.name", "labelselector=app",
	"labelSelector=app=x%2Ckubernetes.io/metadata.name+notin+(default)",
}

// TestQueriesAsUpstream: behind the edge upstream's handlers make of a query
// what they make of it without, and a watch is shown as a watch.
func TestQueriesAsUpstream(t *testing.T) {
	e, upstream := New(Options{}), newUpstreamAPI(t)
	calls := map[string]int{}
	for _, query := range queries {
		for _, q := range queried {
			calls[checkQuery(t, e, upstream, http.MethodGet, q.path, q.namespaces, query)]++
		}
		calls[checkQuery(t, e, upstream, http.MethodDelete, "/api/v1/namespaces/default/configmaps", false, query)]++
		calls[checkQuery(t, e, upstream, http.MethodDelete, "/api/v1/namespaces/default/configmaps/x", false, query)]++
		calls[checkQuery(t, e, upstream, http.MethodHead, "/api/v1/configmaps", false, query)]++
	}
	// Made up of parts of these.
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var parts []string
	for _, query := range queries {
		parts = append(parts, strings.Split(query, "&")...)
	}
	const odd = "aW0=;&%+ ,\x00/1"
	for range 5000 {
		var of []string
		for range 1 + r.IntN(4) {
			part := []byte(parts[r.IntN(len(parts))])
			if len(part) > 0 && r.IntN(4) == 0 {
				i := r.IntN(len(part))
				part[i] = odd[r.IntN(len(odd))]
			}
			of = append(of, string(part))
		}
		q := queried[r.IntN(len(queried))]
		calls[checkQuery(t, e, upstream, http.MethodGet, q.path, q.namespaces, strings.Join(of, "&"))]++
	}
	t.Logf("calls: %v", calls)
	for _, call := range []string{"get", "list", "watch", "deletecollection"} {
		if calls[call] < 20 {
			t.Errorf("only %d requests were a %s", calls[call], call)
		}
	}
}

func FuzzQueriesAsUpstream(f *testing.F) {
	e, upstream := New(Options{}), newUpstreamAPI(f)
	for i, query := range queries {
		f.Add(uint(i), query)
	}
	f.Fuzz(func(t *testing.T, at uint, query string) {
		if at %= uint(len(queried) + 1); at == uint(len(queried)) {
			checkQuery(t, e, upstream, http.MethodDelete, "/api/v1/namespaces/default/configmaps", false, query)
			return
		}
		checkQuery(t, e, upstream, http.MethodGet, queried[at].path, queried[at].namespaces, query)
	})
}
