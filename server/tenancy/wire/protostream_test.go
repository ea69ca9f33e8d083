package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var podResource = Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}

// podList is a list of n pods as the store has it, and as its tenant sees it.
func podList(n int, tenant string) (composite, native *corev1.PodList) {
	composite = &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"}}
	for i := range n {
		composite.Items = append(composite.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("web-%d", i), Namespace: "default." + tenant,
				UID:         "0d1ee3b5-5c2c-4a5f-8c0a-3a4c6d2f8e11",
				Labels:      map[string]string{"app": "web"},
				Annotations: map[string]string{"note": strings.Repeat("x", i%300)},
			},
			Spec: corev1.PodSpec{
				NodeName: "node-1",
				Containers: []corev1.Container{{
					Name: "web", Image: "docker.io/library/nginx:1", Args: []string{strings.Repeat("a", 700)},
					Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
				}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.42.0.7"},
		})
	}
	native = composite.DeepCopy()
	native.SetSelfLink("/api/v1/tenants/" + tenant + "/pods")
	for i := range native.Items {
		native.Items[i].Namespace = "default"
		native.Items[i].SetSelfLink("/api/v1/tenants/" + tenant + "/namespaces/default/pods/" + native.Items[i].Name)
	}
	return composite, native
}

func TestProtoListOfAnyLength(t *testing.T) {
	p := protoProjector("t1")
	for _, n := range []int{0, 1, 50, 400, 1200} {
		composite, native := podList(n, "t1")
		p.Listed = listedOf(composite.Items)
		body := seal(t, "v1", "PodList", composite)
		for _, chunk := range []int{1 << 30, 4096, 777} {
			var out bytes.Buffer
			copyChunks(t, newProtoStream(p, podResource, false, &out), body, chunk)
			if got := unseal(t, out.Bytes(), &corev1.PodList{}); !apiequality.Semantic.DeepEqual(got, native) {
				t.Errorf("%d pods, %d bytes at once: another list came out", n, chunk)
			}
			if chunk == 4096 && n > 0 && out.Len() > len(body)*5/4 {
				t.Errorf("%d pods: %d bytes became %d", n, len(body), out.Len())
			}
		}
		if got := unseal(t, must(p.Proto(Out, podResource, body))(t),
			&corev1.PodList{}); !apiequality.Semantic.DeepEqual(got, native) {
			t.Errorf("%d pods as a whole: another list came out", n)
		}
	}
}

// listedOf says how large a list is.
func listedOf(pods []corev1.Pod) func() (Listed, bool) {
	l := Listed{Items: len(pods)}
	for i := range pods {
		l.Names += len(pods[i].Name) + len(pods[i].Namespace)
	}
	return func() (Listed, bool) { return l, true }
}

// A list that is longer than it was said to be is complete. What has no room for its
// selfLink has none.
func TestProtoListThatIsLongerThanSaid(t *testing.T) {
	composite, native := podList(1200, "t1")
	p := protoProjector("t1")
	p.Listed = listedOf(composite.Items[:100])
	var out bytes.Buffer
	copyChunks(t, newProtoStream(p, podResource, false, &out), seal(t, "v1", "PodList", composite), 4096)
	got := unseal(t, out.Bytes(), &corev1.PodList{})
	without := 0
	for i := range got.Items {
		if got.Items[i].GetSelfLink() == "" {
			without++
			native.Items[i].SetSelfLink("")
		}
	}
	if !apiequality.Semantic.DeepEqual(got, native) || without == 0 || without > 1100 {
		t.Errorf("another list came out, with %d items of %d without a selfLink", without, len(got.Items))
	}
	// One of which nothing is known is held as a whole.
	p.Listed = func() (Listed, bool) { return Listed{}, false }
	composite, native = podList(1200, "t1")
	out.Reset()
	copyChunks(t, newProtoStream(p, podResource, false, &out), seal(t, "v1", "PodList", composite), 4096)
	if got := unseal(t, out.Bytes(), &corev1.PodList{}); !apiequality.Semantic.DeepEqual(got, native) {
		t.Error("of unknown length: another list came out")
	}
}

func copyChunks(t testing.TB, w io.WriteCloser, b []byte, chunk int) {
	t.Helper()
	for ; len(b) > 0; b = b[min(chunk, len(b)):] {
		if _, err := w.Write(bytes.Clone(b[:min(chunk, len(b))])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// What is missing of a list's length is made up exactly, and every reader
// skips it.
func TestProtoFillerOfEverySize(t *testing.T) {
	for saved := range 300 {
		var out bytes.Buffer
		s := &protoList{p: protoProjector("t1"), pieces: pieces{w: &out}, saved: saved + fillerLeast}
		if err := errors.Join(s.fill(), s.flush()); err != nil {
			t.Fatal(err)
		}
		if out.Len() != saved+fillerLeast {
			t.Fatalf("filler of %d bytes for %d", out.Len(), saved+fillerLeast)
		}
		if err := (&corev1.PodList{}).Unmarshal(out.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
}

// Savings that no field is short enough for go into the item's own length.
func TestProtoSmallSavings(t *testing.T) {
	for longer := range 6 {
		list, native := podList(400, "t")
		for i := range list.Items {
			list.Items[i].Namespace, native.Items[i].Namespace = "", ""
		}
		// An over-long length saves bytes when it is written anew.
		raw, err := list.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		pod, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last"}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		raw = appendWide(protowire.AppendTag(raw, 2, protowire.BytesType), uint64(len(pod)), 1+longer)
		raw = append(raw, pod...)
		unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: raw}
		b, err := unknown.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		body := append([]byte(protoMagic), b...)
		var out bytes.Buffer
		p := protoProjector("t")
		p.Listed = func() (Listed, bool) { return Listed{}, true } // no room but for the savings
		copyChunks(t, newProtoStream(p, podResource, false, &out), body, 4096)
		got := unseal(t, out.Bytes(), &corev1.PodList{})
		room := podResource.growth(Listed{}, "t")
		if len(got.Items) != 401 || got.Items[400].Name != "last" || out.Len() != len(body)+room {
			t.Errorf("%d saved: %d items, %d bytes of %d and %d", longer, len(got.Items), out.Len(), len(body), room)
		}
	}
}

// What stands for a hidden name may be longer than the name.
func TestProtoListWithHiddenNames(t *testing.T) {
	list := &corev1.EventList{}
	for range 3000 {
		list.Items = append(list.Items, corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "d.t1"},
			Message:    "system:serviceaccount:a.b:c is odd", Reason: strings.Repeat("r", 100),
		})
	}
	body := seal(t, "v1", "EventList", list)
	events := Resource{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}
	var out bytes.Buffer
	copyChunks(t, newProtoStream(protoProjector("t1"), events, false, &out), body, 4096)
	got := unseal(t, out.Bytes(), &corev1.EventList{})
	if len(got.Items) != 3000 || strings.Contains(got.Items[0].Message, "a.b") ||
		!strings.HasPrefix(got.Items[0].Message, "system:serviceaccount:<") {
		t.Errorf("%d items, message %q", len(got.Items), got.Items[0].Message)
	}
}

// countingWriter keeps nothing.
type countingWriter struct{ n int }

func (w *countingWriter) Write(b []byte) (int, error) { w.n += len(b); return len(b), nil }

func TestProtoListMemory(t *testing.T) {
	composite, _ := podList(20000, "t1")
	body := seal(t, "v1", "PodList", composite)
	var out countingWriter
	p := protoProjector("t1")
	p.Listed = listedOf(composite.Items)
	s := newProtoStream(p, podResource, false, &out).(*protoList)
	for i := 0; i < len(body); i += 32 << 10 {
		if _, err := s.Write(body[i:min(len(body), i+32<<10)]); err != nil {
			t.Fatal(err)
		}
		if held := cap(s.buf) + cap(s.out); held > 4*protoWholeUpTo {
			t.Fatalf("%d bytes are held at byte %d of %d", held, i, len(body))
		}
	}
	listed, _ := p.Listed()
	if err := s.Close(); err != nil || out.n != len(body)+podResource.growth(listed, "t1") {
		t.Fatalf("%d of %d bytes, %v", out.n, len(body), err)
	}
}

func TestProtoListNeverLeaks(t *testing.T) {
	composite, _ := podList(1000, "t1")
	composite.Items[900].Namespace = "default.t2"
	composite.Items[900].Name = "secret-name"
	body := seal(t, "v1", "PodList", composite)
	var out bytes.Buffer
	p := protoProjector("t1")
	p.Listed = listedOf(composite.Items)
	w := newProtoStream(p, podResource, false, &out)
	var err error
	for i := 0; i < len(body) && err == nil; i += 4096 {
		_, err = w.Write(body[i:min(len(body), i+4096)])
	}
	if !errors.Is(err, ErrForeign) || !errors.Is(w.Close(), ErrForeign) {
		t.Errorf("error %v", err)
	}
	if bytes.Contains(out.Bytes(), []byte("secret-name")) {
		t.Error("an object of another tenant was shown")
	}
}

func frames(t testing.TB, events ...metav1.WatchEvent) []byte {
	t.Helper()
	var b []byte
	for _, e := range events {
		frame, err := e.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(frame))), frame...)
	}
	return b
}

func TestProtoWatchSplitAnywhere(t *testing.T) {
	event := func(kind string, body []byte) metav1.WatchEvent {
		return metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: body}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default.t1"}}
	status := &metav1.Status{
		Status: "Failure", Message: `pods "web" not found in default.t1`,
		Details: &metav1.StatusDetails{Name: "web", Causes: []metav1.StatusCause{{Message: "no default.t1"}}},
	}
	body := frames(t,
		event("ADDED", seal(t, "v1", "Pod", pod)),
		event("BOOKMARK", seal(t, "v1", "Pod", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}})),
		event("ERROR", seal(t, "v1", "Status", status)),
	)
	for split := range len(body) {
		var out bytes.Buffer
		w := newProtoStream(protoProjector("t1"), podResource, true, &out)
		for _, part := range [][]byte{body[:split], body[split:]} {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var got []metav1.WatchEvent
		for rest := out.Bytes(); len(rest) > 0; {
			n := binary.BigEndian.Uint32(rest)
			var e metav1.WatchEvent
			if err := e.Unmarshal(rest[4 : 4+n]); err != nil {
				t.Fatal(err)
			}
			got, rest = append(got, e), rest[4+n:]
		}
		if len(got) != 3 || got[0].Type != "ADDED" || got[1].Type != "BOOKMARK" || got[2].Type != "ERROR" {
			t.Fatalf("split at %d: %v", split, got)
		}
		shown := unseal(t, got[0].Object.Raw, &corev1.Pod{})
		if shown.Namespace != "default" || shown.GetSelfLink() != "/api/v1/tenants/t1/namespaces/default/pods/web" {
			t.Fatalf("split at %d: pod %v", split, shown.ObjectMeta)
		}
		if bookmark := unseal(t, got[1].Object.Raw, &corev1.Pod{}); bookmark.ResourceVersion != "9" ||
			bookmark.GetSelfLink() != "" {
			t.Fatalf("split at %d: bookmark %v", split, bookmark.ObjectMeta)
		}
		if s := unseal(t, got[2].Object.Raw, &metav1.Status{}); strings.Contains(s.String(), "t1") ||
			s.Details.Name != "web" {
			t.Fatalf("split at %d: status %v", split, s)
		}
	}
	for _, cut := range []int{3, 10, len(body) - 1} {
		w := newProtoStream(protoProjector("t1"), podResource, true, io.Discard)
		if _, err := w.Write(body[:cut]); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

func BenchmarkProtoPodList(b *testing.B) {
	composite, _ := podList(5000, "t1")
	body := seal(b, "v1", "PodList", composite)
	p := protoProjector("t1")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		copyChunks(b, newProtoStream(p, podResource, false, io.Discard), body, 64<<10)
	}
}
