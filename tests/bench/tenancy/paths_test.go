package tenancy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/planes"
)

const (
	// workers ask at once, on each side in turn.
	workers = 4
	// slice is how long one side is asked before it is the other's turn.
	slice = 250 * time.Millisecond
	// listed is the number of pods in a list.
	listed = 5000
	// watchers see every event of the benchmark of watches.
	watchers = 50

	mediaJSON  = "application/json"
	mediaProto = "application/vnd.kubernetes.protobuf"
)

// things are objects of a resource in the namespaces list and work.
type things struct {
	listed, worked string // paths
	patched        string // media type of patches
	body           func(media, namespace string, n int64) []byte
	fill           string // media type of those that are listed
}

func pods() things {
	return things{
		listed: "/api/v1/namespaces/list/pods", worked: "/api/v1/namespaces/work/pods",
		patched: "application/strategic-merge-patch+json", body: podBody, fill: mediaProto,
	}
}

// BenchmarkPaths asks the same of upstream's API server, of another one that is
// the same, of a4s as a user of the system, and of a4s as a user of a tenant,
// in turns. Every side has a server of its own that holds as much as the
// others. Reported are requests (of watches: events) per second, and the ratios
// to upstream, of them and of the processor time that the servers spent on
// each: the median of the rounds and the bounds of its 95 % confidence. What
// the second upstream has is the error of the measurement.
func BenchmarkPaths(b *testing.B) {
	sides := []*side{
		{name: "upstream", server: startChild(b, upstream)},
		{name: "control", server: startChild(b, upstream)},
		{name: "system", server: startChild(b, withTenants)},
		{name: "tenant", server: startChild(b, withTenants)},
	}
	var filling sync.WaitGroup
	for _, s := range sides {
		if s.name == "tenant" {
			s.config = s.server.tenant(b, "bench")
		} else {
			s.config = s.server.clusterAdmin(b)
		}
		s.http, s.things = httpClient(b, s.config), pods()
		for _, ns := range []string{"list", "work"} {
			namespace(b, s.config, ns)
		}
		filling.Go(func() { s.fill(b) })
	}
	filling.Wait()
	if b.Failed() {
		return
	}
	for _, media := range []string{mediaJSON, mediaProto} {
		form := "json"
		if media == mediaProto {
			form = "protobuf"
		}
		for _, op := range operations(media) {
			b.Run(op.name+"/"+form, func(b *testing.B) { compare(b, sides, op.name+"-"+form, op.do) })
		}
	}
}

// operation does something on a side for about the time of a slice and returns
// how often.
type operation struct {
	name string
	do   func(ctx context.Context, s *side) (int, error)
}

// operations are what is compared, with answers of a media type.
func operations(media string) []operation {
	read := func(path string, header ...string) func(context.Context, *side) (int, error) {
		return func(ctx context.Context, s *side) (int, error) {
			return concurrently(ctx, func(ctx context.Context) error {
				return s.request(ctx, http.MethodGet, s.things.listed+path, media, nil, header...)
			})
		}
	}
	return []operation{
		{"get", read("/pod-000000")},
		{"list", read("")},
		{"list-gzip", read("", "Accept-Encoding", "gzip")},
		{"create", func(ctx context.Context, s *side) (int, error) {
			return concurrently(ctx, func(ctx context.Context) error {
				return s.request(ctx, http.MethodPost, s.things.worked, media,
					s.things.body(media, "work", s.serial.Add(1)), "Content-Type", media)
			})
		}},
		{"patch", func(ctx context.Context, s *side) (int, error) {
			return concurrently(ctx, func(ctx context.Context) error {
				n := s.serial.Add(1)
				return s.patch(ctx, int(n)%listed, media, n)
			})
		}},
		{"watch-list", func(ctx context.Context, s *side) (int, error) { return s.watchList(ctx, media) }},
		{"watch", func(ctx context.Context, s *side) (int, error) { return s.watchLive(ctx, media) }},
	}
}

// concurrently repeats do in all workers for a slice.
func concurrently(ctx context.Context, do func(context.Context) error) (int, error) {
	var done atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, workers)
	end := time.Now().Add(slice)
	for i := range workers {
		all.Go(func() {
			for time.Now().Before(end) {
				if errs[i] = do(ctx); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return int(done.Load()), errors.Join(errs...)
}

// request sends a request and reads the answer to its end.
func (s *side) request(ctx context.Context, method, path, accept string, body []byte, header ...string) error {
	req, err := http.NewRequestWithContext(ctx, method, s.config.Host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(resp.Body) //nolint:errcheck // there is an error already
		return fmt.Errorf("%s %s: %s %.300s", method, path, resp.Status, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (s *side) patch(ctx context.Context, pod int, media string, value int64) error {
	return s.request(ctx, http.MethodPatch, fmt.Sprintf("%s/pod-%06d", s.things.listed, pod), media,
		fmt.Appendf(nil, `{"metadata":{"annotations":{"bench":"%d"}}}`, value), "Content-Type", s.things.patched)
}

// fill makes the pods that are listed.
func (s *side) fill(b *testing.B) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < listed && b.Context().Err() == nil; i = next.Add(1) - 1 {
				if err := s.request(b.Context(), http.MethodPost, s.things.listed, s.things.fill,
					s.things.body(s.things.fill, "list", i), "Content-Type", s.things.fill); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// placeholder is a name that is as long as those put in its place.
const placeholder = "pod-999999"

var podBodies = struct {
	sync.Mutex
	of map[string][]byte
}{of: map[string][]byte{}}

// podBody is a pod in the form in which it is sent.
func podBody(media, namespace string, n int64) []byte {
	podBodies.Lock()
	defer podBodies.Unlock()
	body := podBodies.of[media+namespace]
	if body == nil {
		body = encodePod(media, namespace)
		podBodies.of[media+namespace] = body
	}
	return bytes.ReplaceAll(body, []byte(placeholder), fmt.Appendf(nil, "pod-%06d", n))
}

func encodePod(media, namespace string) []byte {
	no := false
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: placeholder, Namespace: namespace,
			Labels: map[string]string{"app": "web", "pod-template-hash": "5d4f8c"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "web", Image: "registry/web:1", Command: []string{"/web", "--verbose"},
				Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {
					Name:      "POD",
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				}},
			}},
		},
	}
	for _, info := range scheme.Codecs.SupportedMediaTypes() {
		if info.MediaType == media {
			if body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer,
				corev1.SchemeGroupVersion), pod); err == nil {
				return body
			}
		}
	}
	return nil // the server will say what is missing
}

func namespace(b *testing.B, cfg *rest.Config, name string) {
	b.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Create(b.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	planes.AwaitAccount(b, cfg, name)
}

// watchList streams the list as events, again and again for a slice.
func (s *side) watchList(ctx context.Context, media string) (int, error) {
	var events atomic.Int64
	_, err := concurrently(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := s.watch(ctx, media,
			"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		if err != nil {
			return err
		}
		defer w.Close() //nolint:errcheck // it is cut off
		for {
			event, err := w.next()
			if err != nil {
				return err
			}
			if bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)) {
				return nil
			}
			events.Add(1)
		}
	})
	return int(events.Load()), err
}

// watchLive changes pods while the watchers look on, until all of them have
// seen every change.
func (s *side) watchLive(ctx context.Context, media string) (int, error) {
	const changes = 20
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin, err := s.resourceVersion(ctx)
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	errs := make([]error, watchers)
	for i := range watchers {
		w, err := s.watch(ctx, media, "&resourceVersion="+begin)
		if err != nil {
			return 0, err
		}
		all.Go(func() {
			defer w.Close() //nolint:errcheck // it is cut off
			for seen := 0; seen < changes && errs[i] == nil; seen++ {
				_, errs[i] = w.next()
			}
		})
	}
	for range changes {
		n := s.serial.Add(1)
		if err := s.patch(ctx, int(n)%listed, media, n); err != nil {
			return 0, err
		}
	}
	all.Wait()
	return changes * watchers, errors.Join(errs...)
}

// resourceVersion is where a watch begins.
func (s *side) resourceVersion(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+s.things.listed+"?limit=1", nil)
	if err != nil {
		return "", err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read
	var list metav1.PartialObjectMetadataList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

// stream is an open watch.
type stream struct {
	io.Closer
	framed bool
	in     *bufio.Reader
	buffer []byte
}

func (s *side) watch(ctx context.Context, media, query string) (*stream, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+s.things.listed+"?watch=1"+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", media)
	if media == mediaProto {
		req.Header.Set("Accept", media+";stream=watch")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close() //nolint:errcheck // there is an error already
		return nil, fmt.Errorf("watching: %s", resp.Status)
	}
	return newStream(resp), nil
}

func newStream(resp *http.Response) *stream {
	return &stream{Closer: resp.Body, framed: strings.Contains(resp.Header.Get("Content-Type"), "protobuf"),
		in: bufio.NewReaderSize(resp.Body, 16*1024)}
}

// next is one event; it is valid until the next one.
func (s *stream) next() ([]byte, error) {
	if !s.framed {
		return s.in.ReadSlice('\n')
	}
	var length [4]byte
	if _, err := io.ReadFull(s.in, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if cap(s.buffer) < n {
		s.buffer = make([]byte, n)
	}
	_, err := io.ReadFull(s.in, s.buffer[:n])
	return s.buffer[:n], err
}

// fromEnv is a number that the environment may change.
func fromEnv(b *testing.B, name string, otherwise int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil {
		b.Fatalf("%s=%q is not a number", name, text)
	}
	return n
}
