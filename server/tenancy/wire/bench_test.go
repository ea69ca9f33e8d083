package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BenchmarkPods translates pods as the API server writes them: of a list each
// item and what is between them, of a watch each event.
func BenchmarkPods(b *testing.B) {
	const n = 1000
	var list corev1.PodList
	if err := json.Unmarshal(jsonPods(b, n), &list); err != nil {
		b.Fatal(err)
	}
	items := [][]byte{[]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`)}
	var events, frame [][]byte
	for i := range list.Items {
		pod := &list.Items[i]
		asJSON, err := json.Marshal(pod)
		if err != nil {
			b.Fatal(err)
		}
		if i > 0 {
			items = append(items, []byte(","))
		}
		items = append(items, asJSON)
		events = append(events,
			[]byte(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",`+string(asJSON[1:])+"}\n"))
		framed := frames(b,
			metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: seal(b, "v1", "Pod", pod)}})
		frame = append(frame, framed[:4], framed[4:])
	}
	items = append(items, []byte("]}\n"))
	var parts [][]byte // of about the length of an item
	message := seal(b, "v1", "PodList", &list)
	for part := range slices.Chunk(message, len(message)/n) {
		parts = append(parts, part)
	}
	for _, c := range []struct {
		name, media string
		watch       bool
		writes      [][]byte
	}{
		{"list/JSON", "application/json", false, items},
		{"list/protobuf", protoMedia, false, parts},
		{"watch/JSON", "application/json", true, events},
		{"watch/protobuf", protoMedia, true, frame},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := protoProjector("t1")
			b.SetBytes(int64(len(bytes.Join(c.writes, nil))))
			b.ReportAllocs()
			for b.Loop() {
				s, err := p.Stream(c.media, podKind(), c.watch, io.Discard)
				if err != nil {
					b.Fatal(err)
				}
				for _, w := range c.writes {
					if _, err := s.Write(w); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/pod")
		})
	}
}
