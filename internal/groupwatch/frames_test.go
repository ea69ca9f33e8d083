package groupwatch

import (
	"bytes"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// encoded are events as an API server sends them.
func encoded(t testing.TB, media string, events ...watch.Event) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		t.Fatal("no serializer for " + media)
	}
	var out bytes.Buffer
	framer := info.StreamSerializer.Framer.NewFrameWriter(&out)
	for _, e := range events {
		encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
		object, err := runtime.Encode(encoder, e.Object)
		if err != nil {
			t.Fatal(err)
		}
		event := &metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: object}}
		if err := info.StreamSerializer.Serializer.Encode(event, framer); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestFrames(t *testing.T) {
	pod := func(rev string, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default.t1", Name: "web", ResourceVersion: rev, Annotations: annotations,
				Labels: map[string]string{"a": "b"}, UID: "1",
			},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	events := []watch.Event{
		{Type: watch.Added, Object: pod("7", map[string]string{"x": "true"})},
		{Type: watch.Deleted, Object: pod("9", nil)},
		{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "12",
			Annotations: map[string]string{"b": "c"}}}},
		{Type: watch.Error, Object: &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired}},
	}
	want := []frame{
		{kind: watch.Added, key: "default.t1/web", rev: 7},
		{kind: watch.Deleted, key: "default.t1/web", rev: 9},
		{kind: watch.Bookmark, key: "/", rev: 12},
		{kind: watch.Error, key: "/"},
	}
	for media, contentType := range map[string]string{
		runtime.ContentTypeJSON:     "application/json",
		runtime.ContentTypeProtobuf: runtime.ContentTypeProtobuf + ";stream=watch",
	} {
		all := encoded(t, media, events...)
		next, ok := read(contentType, bytes.NewReader(all))
		if !ok {
			t.Fatal(contentType)
		}
		var again []byte
		for i, w := range want {
			f, err := next()
			if err != nil {
				t.Fatal(media, err)
			}
			again = append(again, f.raw...)
			if f.raw = nil; f.kind != w.kind || f.key != w.key || f.rev != w.rev {
				t.Errorf("%s: event %d is %+v, want %+v", media, i, *f, w)
			}
		}
		if !bytes.Equal(again, all) {
			t.Errorf("%s: the bytes are other ones", media)
		}
		if _, err := next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end %v", media, err)
		}
	}
	for _, unknown := range []string{"", "text/html", "application/cbor-seq"} {
		if _, ok := read(unknown, nil); ok {
			t.Errorf("%q is read", unknown)
		}
	}
}

// FuzzFrames: no bytes make it panic, and what it hands on are the bytes that came.
func FuzzFrames(f *testing.F) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}}
	f.Add(encoded(f, runtime.ContentTypeProtobuf, watch.Event{Type: watch.Added, Object: pod}), true)
	f.Add(encoded(f, runtime.ContentTypeJSON, watch.Event{Type: watch.Added, Object: pod}), false)
	f.Fuzz(func(t *testing.T, data []byte, protobuf bool) {
		contentType := "application/json"
		if protobuf {
			contentType = runtime.ContentTypeProtobuf
		}
		next, _ := read(contentType, bytes.NewReader(data))
		rest := data
		for {
			e, err := next()
			if err != nil {
				return
			}
			if !bytes.HasPrefix(rest, e.raw) || len(e.raw) == 0 {
				t.Fatal("other bytes")
			}
			rest = rest[len(e.raw):]
		}
	})
}
