package partitiontest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
)

// Asked is a request that came.
type Asked struct {
	Method, Path string
	Query        url.Values
	ContentType  string
	Body         []byte
}

// Server is a partition.
type Server struct {
	*httptest.Server
	name string

	// Away makes connections fail, Hangs lets requests wait until their end.
	Away, Hangs atomic.Bool
	// Waiting counts the requests that hang.
	Waiting atomic.Int32

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]runtime.Object // by collection, then by namespace and name
	events   []event
	earliest int           // watches can begin here
	news     chan struct{} // closed at the next event, and when watches are to end
	round    int           // counts HangUp
	asked    []Asked
	answers  map[string]func(a Asked) (int, runtime.Object)
}

type event struct {
	version    int
	collection string
	kind       string
	obj        runtime.Object
}

// New starts a server.
func New(t *testing.T, name string) *Server {
	t.Helper()
	s := &Server{name: name, version: 100, objects: map[string]map[string]runtime.Object{},
		news: make(chan struct{}), answers: map[string]func(Asked) (int, runtime.Object){}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Partition is the server as a partition.
func (s *Server) Partition(home bool) origin.Partition {
	return origin.Partition{Name: s.name, Home: home, Transport: s.Transport()}
}

// Transport leads to the server, unless it is away.
func (s *Server) Transport() http.RoundTripper {
	base, err := url.Parse(s.URL)
	if err != nil {
		panic(err) // a test server has a URL
	}
	return road{s, origin.At(base, &http.Transport{})}
}

type road struct {
	s    *Server
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r road) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.s.Away.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return r.next.RoundTrip(request)
}

// Answer says what requests of a method and path get.
func (s *Server) Answer(method, path string, f func(a Asked) (int, runtime.Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[method+" "+path] = f
}

// Asked returns the requests of a method whose path begins like this.
func (s *Server) Asked(method, prefix string) []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asked), func(a Asked) bool {
		return a.Method != method || !strings.HasPrefix(a.Path, prefix)
	})
}

// Put creates or changes an object of a collection, for example "pods".
func (s *Server) Put(t *testing.T, collection string, obj runtime.Object) {
	t.Helper()
	s.change(t, collection, obj, false)
}

// Delete removes an object.
func (s *Server) Delete(t *testing.T, collection string, obj runtime.Object) {
	t.Helper()
	s.change(t, collection, obj, true)
}

func (s *Server) change(t *testing.T, collection string, obj runtime.Object, deleted bool) {
	t.Helper()
	obj = obj.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	m.SetResourceVersion(strconv.Itoa(s.version))
	if s.objects[collection] == nil {
		s.objects[collection] = map[string]runtime.Object{}
	}
	key, kind := m.GetNamespace()+"/"+m.GetName(), "ADDED"
	if s.objects[collection][key] != nil {
		kind = "MODIFIED"
	}
	s.objects[collection][key] = obj
	if deleted {
		delete(s.objects[collection], key)
		kind = "DELETED"
	}
	s.events = append(s.events, event{s.version, collection, kind, obj})
	s.wake()
}

// Objects returns what a collection has.
func (s *Server) Objects(collection string) []runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var objs []runtime.Object
	for _, obj := range s.objects[collection] {
		objs = append(objs, obj.DeepCopyObject())
	}
	return objs
}

// HangUp ends all watches.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	s.wake()
}

// Compact forgets what happened: watches end, and have to list again.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.earliest, s.events = s.version, nil
	s.round++
	s.wake()
}

func (s *Server) wake() {
	close(s.news)
	s.news = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what came counts
	a := Asked{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Body: body,
		ContentType: r.Header.Get("Content-Type")}
	s.mu.Lock()
	s.asked = append(s.asked, a)
	answer := s.answers[r.Method+" "+r.URL.Path]
	s.mu.Unlock()
	if s.Hangs.Load() {
		s.Waiting.Add(1)
		<-r.Context().Done()
		s.Waiting.Add(-1)
		return
	}
	if answer != nil {
		code, obj := answer(a)
		reply(w, code, obj)
		return
	}
	if r.Method != http.MethodGet {
		reply(w, http.StatusMethodNotAllowed, codec.Failure(http.StatusMethodNotAllowed,
			metav1.StatusReasonMethodNotAllowed, "no test said what to answer"))
		return
	}
	s.read(w, r)
}

func reply(w http.ResponseWriter, code int, obj runtime.Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(obj) // the client sees a short answer
}

// read serves gets, lists and watches.
func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 3 || parts[0] == "apis" && len(parts) < 4 {
		reply(w, http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess}) // /livez and the like
		return
	}
	parts = parts[2:]
	if strings.HasPrefix(r.URL.Path, "/apis/") {
		parts = parts[1:]
	}
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	collection, name := parts[0], ""
	if len(parts) > 1 {
		name = parts[1]
	}
	if selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err == nil && name == "" {
		one, ok := selector.RequiresExactMatch("metadata.name")
		if ok {
			s.collection(w, r, collection, func(m metav1.Object) bool {
				return m.GetNamespace() == namespace && m.GetName() == one
			})
			return
		}
	}
	if name == "" {
		s.collection(w, r, collection, func(m metav1.Object) bool {
			return namespace == "" || m.GetNamespace() == namespace
		})
		return
	}
	s.mu.Lock()
	obj := s.objects[collection][namespace+"/"+name]
	s.mu.Unlock()
	if obj == nil {
		reply(w, http.StatusNotFound, codec.Failure(http.StatusNotFound, metav1.StatusReasonNotFound,
			fmt.Sprintf("%s %q not found in %s", collection, name, s.name)))
		return
	}
	reply(w, http.StatusOK, obj)
}

func (s *Server) collection(
	w http.ResponseWriter, r *http.Request, collection string, match func(metav1.Object) bool,
) {
	wanted := func(obj runtime.Object) bool {
		m, err := meta.Accessor(obj)
		return err == nil && match(m)
	}
	if r.URL.Query().Get("watch") == "" {
		s.mu.Lock()
		list := &metav1.List{TypeMeta: metav1.TypeMeta{Kind: listKind(collection), APIVersion: version(r.URL.Path)},
			ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, Items: []runtime.RawExtension{}}
		for _, obj := range s.objects[collection] {
			if wanted(obj) {
				list.Items = append(list.Items, runtime.RawExtension{Object: obj})
			}
		}
		reply(w, http.StatusOK, list)
		s.mu.Unlock()
		return
	}
	s.watch(w, r, collection, wanted)
}

// initial are the events that begin a streaming list.
func (s *Server) initial(path, collection string, wanted func(runtime.Object) bool) []event {
	var events []event
	for _, obj := range s.objects[collection] {
		if wanted(obj) {
			events = append(events, event{s.version, collection, "ADDED", obj})
		}
	}
	end := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version(path),
		Kind: strings.TrimSuffix(listKind(collection), "List")},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.version),
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	return append(events, event{s.version, collection, "BOOKMARK", end})
}

func (s *Server) watch(
	w http.ResponseWriter, r *http.Request, collection string, wanted func(runtime.Object) bool,
) {
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	var next []event
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		next, from, err = s.initial(r.URL.Path, collection, wanted), s.version, nil
	}
	tooOld, round := from < s.earliest, s.round
	s.mu.Unlock()
	if err != nil || tooOld {
		reply(w, http.StatusGone, codec.Failure(http.StatusGone, metav1.StatusReasonExpired, "too old"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	flusher, _ := w.(http.Flusher)
	for {
		for _, e := range next {
			_ = json.NewEncoder(w).Encode(
				&metav1.WatchEvent{Type: e.kind, Object: runtime.RawExtension{Object: e.obj}})
			from = e.version
		}
		flusher.Flush()
		s.mu.Lock()
		news, over := s.news, s.round != round
		next = nil
		for _, e := range s.events {
			if e.version > from && e.collection == collection && wanted(e.obj) {
				next = append(next, e)
			}
		}
		s.mu.Unlock()
		if over {
			return // what comes next may follow what was forgotten
		}
		if len(next) > 0 {
			continue
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

func version(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "apis" {
		return parts[1] + "/" + parts[2]
	}
	return parts[1]
}

func listKind(collection string) string {
	kinds := map[string]string{"pods": "Pod", "services": "Service", "endpointslices": "EndpointSlice",
		"namespaces": "Namespace", "runtimeclasses": "RuntimeClass", "csidrivers": "CSIDriver", "secrets": "Secret",
		"configmaps": "ConfigMap", "volumeattachments": "VolumeAttachment", "nodes": "Node",
		"persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume",
		"servicecidrs": "ServiceCIDR", "podcertificaterequests": "PodCertificateRequest",
		"clustertrustbundles": "ClusterTrustBundle"}
	return kinds[collection] + "List"
}
