package wire

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzProtoSkip: going over fields gives those that are looked for, as reading
// every field does.
func FuzzProtoSkip(f *testing.F) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "d.t1", Generation: 300,
		Labels: map[string]string{"a": "b"}}}
	b, err := pod.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint64(2))
	f.Add(protowire.AppendVarint(protowire.AppendTag(nil, 700, protowire.VarintType), 1<<40), uint64(0))
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), make([]byte, 20000)), uint64(4))
	f.Fuzz(func(t *testing.T, b []byte, numbers uint64) {
		numbers &= 1<<63 - 1
		read := func(skip bool) (fields []byte, failed bool) {
			for s := newScanner(b, 0); ; {
				if skip {
					s.skipTo(numbers)
				}
				f, ok, err := s.next()
				if err != nil || !ok {
					return fields, err != nil
				}
				if f.number >= 63 || numbers&(1<<f.number) != 0 {
					fields = append(append(fields, f.all...), f.value...)
				}
			}
		}
		all, failed := read(false)
		found, failedToo := read(true)
		if failed != failedToo || !bytes.Equal(all, found) {
			t.Fatalf("%q: %q (%v), want %q (%v)", b, found, failedToo, all, failed)
		}
	})
}

// FuzzStream: an answer is translated the same, or refused, in whatever pieces
// it comes.
func FuzzStream(f *testing.F) {
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a\"}","namespace":"d.t1",` +
		`"labels":{"a4s.io/tenant":"t1"}}}`
	composite, _ := podList(3, "t1")
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[ `+pod+` , `+pod+`],"x":[1]}`), uint8(0),
		uint16(60), uint16(7))
	f.Add([]byte(`{"type":"ADDED","object":`+pod+"}\n"+`{"type":"ADDED","object":`+pod+`} {"type":"BOOKMARK"`),
		uint8(1), uint16(60), uint16(7))
	f.Add([]byte(`{"items":[1,"a",null,12]}`), uint8(0), uint16(11), uint16(1))
	f.Add(seal(f, "v1", "PodList", composite), uint8(2), uint16(60), uint16(7))
	f.Add(frames(f, metav1.WatchEvent{
		Type:   "ADDED",
		Object: runtime.RawExtension{Raw: seal(f, "v1", "Pod", &composite.Items[0])},
	}), uint8(3), uint16(9), uint16(7))
	p := protoProjector("t1")
	f.Fuzz(func(t *testing.T, b []byte, form uint8, first, second uint16) {
		media := []string{"application/json", protoMedia}[form/2%2]
		translate := func(cuts ...int) (string, bool) {
			var out bytes.Buffer
			s, err := p.Stream(media, podKind(), form%2 == 1, &out)
			if err != nil {
				t.Fatal(err)
			}
			from := 0
			for _, cut := range append(cuts, len(b)) {
				piece := bytes.Clone(b[from:cut])
				if _, err := s.Write(piece); err != nil {
					return "", false
				}
				clear(piece)
				from = cut
			}
			err = s.Close()
			return out.String(), err == nil
		}
		whole, ok := translate()
		cuts := []int{int(first) % (len(b) + 1), int(second) % (len(b) + 1)}
		slices.Sort(cuts)
		all := make([]int, len(b))
		for i := range all {
			all[i] = i
		}
		for _, cuts := range [][]int{cuts, all} {
			if got, okToo := translate(cuts...); ok != okToo || ok && got != whole {
				t.Fatalf("%q cut at %v: %v %q, want %v %q", b, cuts, okToo, got, ok, whole)
			}
		}
	})
}
