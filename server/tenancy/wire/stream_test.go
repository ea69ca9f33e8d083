package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestStreamSplitAnywhere(t *testing.T) {
	const list = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"\"],}{[7"},` +
		`"items":[ {"metadata":{"name":"a\\\"]}","namespace":"d.t1"}} , {"metadata":{"name":"b","namespace":"d.t1"},` +
		`"spec":{"containers":[{"args":["]","}",","]}]}}],"x":[1,[2]]}` + "\n"
	const custom = `{"apiVersion":"example.com/v1","items":[{"metadata":{"name":"w"}},{"metadata":{"name":"v"}}],` +
		`"kind":"WidgetList","metadata":{"continue":"x"}}` + "\n"
	const table = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"A"}],` +
		`"rows":[{"cells":["a"],"object":{"metadata":{"name":"a","namespace":"d.t1"}}},{"cells":["b"],` +
		`"object":null}]}` + "\n"
	const events = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a\"}",` +
		`"namespace":"d.t1"}}}` + "\n" +
		`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}` + "\n" +
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","message":"d.t1 is gone"}}` + "\n"
	tests := []struct {
		name  string
		r     Resource
		watch bool
		in    string
		want  []string
	}{
		{"list", podKind(), false, list,
			[]string{`"namespace":"d","tenant":"t1"`, `"selfLink":"/api/v1/tenants/t1/pods"},"items":[{`}},
		{"custom resources", customKind(false), false, custom,
			[]string{`"kind":"WidgetList","metadata":{"continue":"x","selfLink":`, `{"name":"v","tenant":"t1"`}},
		{"table", podKind(), false, table, []string{`"rows":[{"cells":["a"]`, `"tenant":"t1"`}},
		{"object", podKind(), false, `{"metadata":{"name":"a","namespace":"d.t1"},"list":[[{}]]}`,
			[]string{`"tenant":"t1"`}},
		{"empty list", podKind(), false, `{"kind":"PodList","items":[ ]}`, []string{`"items":[`}},
		{"no items", podKind(), false, `{"kind":"PodList","items":null}`, []string{`"items":null}`}},
		{"watch", podKind(), true, events,
			[]string{`"tenant":"t1"`, `{"resourceVersion":"9"}}}` + "\n", `"message":"d is gone"}}` + "\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := func(cuts ...int) string {
				var out bytes.Buffer
				s, err := protoProjector("t1").Stream("application/json;charset=utf-8", tt.r, tt.watch, &out)
				if err != nil {
					t.Fatal(err)
				}
				from := 0
				for _, cut := range append(cuts, len(tt.in)) {
					// The stream must not keep what it is given.
					piece := []byte(tt.in[from:cut])
					if n, err := s.Write(piece); err != nil || n != len(piece) {
						t.Fatal(n, err)
					}
					clear(piece)
					from = cut
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return out.String()
			}
			whole := run()
			for _, want := range tt.want {
				if !strings.Contains(whole, want) {
					t.Fatalf("%s\nhas no %s", whole, want)
				}
			}
			if !tt.watch {
				if b := must(protoProjector("t1").JSON(Out, tt.r, []byte(tt.in)))(t); !sameJSON(b, []byte(whole)) {
					t.Fatalf("stream %s\nwhole %s", whole, b)
				}
			}
			var all []int
			for i := range len(tt.in) {
				if got := run(i); got != whole {
					t.Fatalf("cut at %d: %s", i, got)
				}
				all = append(all, i)
			}
			if got := run(all...); got != whole {
				t.Fatalf("byte by byte: %s", got)
			}
		})
	}
}

// counter counts what passes.
type counter struct{ total int }

func (c *counter) Write(b []byte) (int, error) {
	c.total += len(b)
	return len(b), nil
}

func TestStreamHoldsOneItem(t *testing.T) {
	item := jsonPods(t, 1)
	item = item[bytes.Index(item, []byte(`"items":[`))+len(`"items":[`) : len(item)-2]
	out := &counter{}
	s, err := protoProjector("t1").Stream("application/json", podKind(), false, out)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b string) {
		t.Helper()
		if _, err := io.WriteString(s, b); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`)
	written := 0
	for i := range 20000 {
		if i > 0 {
			write(",")
		}
		write(string(item[:100]))
		write(string(item[100:]))
		written += len(item)
		held := s.(*jsonList)
		if size := cap(held.buf) + cap(held.out); size > 256<<10 {
			t.Fatalf("%d bytes are held", size)
		}
		if written-out.total > 64<<10 {
			t.Fatalf("%d bytes lag behind", written-out.total)
		}
	}
	write(`]}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out.total < written {
		t.Errorf("%d bytes of %d came out", out.total, written)
	}
}

func TestStreamErrors(t *testing.T) {
	const good, foreign = `{"metadata":{"name":"a","namespace":"d.t1"}}`,
		`{"metadata":{"name":"secret","namespace":"d.t2"}}`
	tests := []struct {
		name  string
		watch bool
		in    string
		err   error
		has   string
	}{
		{"foreign item", false, `{"kind":"PodList","items":[` + good + "," + foreign + "]}", ErrForeign, ""},
		{"foreign event", true, `{"type":"ADDED","object":` + good + `}{"type":"ADDED","object":` + foreign + "}",
			ErrForeign, `"name":"a"`},
		{"list cut off", false, `{"kind":"PodList","items":[` + good + ",", ErrMalformed, ""},
		{"event cut off", true, `{"type":"ADDED","object":` + good, ErrMalformed, ""},
		{"missing item", false, `{"kind":"PodList","items":[,` + good + "]}", ErrMalformed, ""},
		{"missing last item", false, `{"kind":"PodList","items":[` + good + ",]}", ErrMalformed, ""},
		{"no list after all", false, `{"items":[],"kind":"Widget","metadata":{"name":"secret"}}`, ErrMalformed, ""},
		{"no event", true, `]`, ErrMalformed, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			s, err := protoProjector("t1").Stream("application/json", podKind(), tt.watch, &out)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = io.WriteString(s, tt.in); err == nil {
				err = s.Close()
			}
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(out.String(), "secret") || !strings.Contains(out.String(), tt.has) {
				t.Errorf("wrote %s", &out)
			}
			before := out.Len()
			if _, err := io.WriteString(s, `{"type":"ADDED","object":`+good+`}`); err == nil && tt.err == ErrForeign {
				t.Error("it goes on after an error")
			}
			if err := s.Close(); err == nil || out.Len() != before {
				t.Errorf("closed with %v", err)
			}
		})
	}
}

// TestWatchIsFlushed: an event is out when upstream flushes, and many of them
// are out without; a watch that waits for events holds no buffers.
func TestWatchIsFlushed(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "d.t1"}}
	for media, event := range map[string][]byte{
		// without the newline
		"application/json;stream=watch": []byte(
			`{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"d.t1"}}}`),
		protoMedia + ";stream=watch": frames(t,
			metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: seal(t, "v1", "Pod", pod)}}),
	} {
		t.Run(media, func(t *testing.T) {
			var out bytes.Buffer
			s, err := protoProjector("t1").Stream(media, podKind(), true, &out)
			if err != nil {
				t.Fatal(err)
			}
			write := func(b []byte) {
				t.Helper()
				if _, err := s.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			size := 0
			for range 3 {
				write(event)
				if err := s.Flush(); err != nil || out.Len() <= size {
					t.Fatalf("after a flush %d bytes are out, were %d: %v", out.Len(), size, err)
				}
				size = out.Len()
			}
			each := size / 3
			for range 4 * pieceSize / each {
				write(event)
			}
			if lag := 4*pieceSize - (out.Len() - size); lag < 0 || lag > pieceSize+each {
				t.Errorf("%d bytes lag behind", lag)
			}
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			switch s := s.(type) {
			case *jsonWatch:
				if s.own != nil || s.out != nil || s.buf != nil || s.t.dst != nil || s.t.src != nil {
					t.Error("the watch holds a buffer")
				}
			case *protoWatch:
				if s.own != nil || s.out != nil || cap(s.buf) > 4 {
					t.Error("the watch holds a buffer")
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestStreamMedia(t *testing.T) {
	for _, media := range []string{"application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml",
		"application/vnd.kubernetes.protobuf"} {
		if _, err := protoProjector("t1").Stream(media, podKind(), false, io.Discard); err != nil {
			t.Errorf("%s: %v", media, err)
		}
	}
	for _, media := range []string{"application/cbor", "text/plain", ";"} {
		if _, err := protoProjector("t1").Stream(media, podKind(), false, io.Discard); err == nil {
			t.Errorf("%s is taken", media)
		}
	}
	var out bytes.Buffer
	s, err := protoProjector("t1").Stream("application/yaml", podKind(), false, &out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.WriteString(s, "metadata:\n  name: a\n  namespace: d.t1\n"); err == nil {
		err = s.Close()
	}
	const want = "metadata:\n  name: a\n  namespace: d\n" +
		"  selfLink: /api/v1/tenants/t1/namespaces/d/pods/a\n  tenant: t1\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, &out)
	}
}
