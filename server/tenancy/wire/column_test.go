package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// The column is where it is asked for, in whole answers and in those that come
// in pieces of any size, and the composite view has nothing else changed.
func TestTenantColumn(t *testing.T) {
	const table = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},` +
		`"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"","priority":0},` +
		`{"name":"Age","type":"string","format":"","description":"","priority":0}],` +
		`"rows":[{"cells":["web","5m"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` +
		`"metadata":{"name":"web","namespace":"default.t1"}}},` +
		`{"cells":["dns","1d"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` +
		`"metadata":{"name":"dns","namespace":"kube-system"}}},` +
		`{"cells":[],"object":null}]}`
	const later = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":null,` +
		`"rows":[{"cells":["web","6m"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` +
		`"metadata":{"name":"web","namespace":"default.t2"}}}]}`
	pods := Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	for _, c := range []struct {
		name      string
		column    Column
		composite bool
		at        int
		namespace string
	}{{"all", ColumnFirst, false, 0, "default"}, {"composite", ColumnLast, true, 2, "default.t1"}} {
		t.Run(c.name, func(t *testing.T) {
			p := protoProjector(space.All)
			p.Tenants, p.Composite = c.column, c.composite
			check := func(what string, body []byte, tenants ...string) {
				t.Helper()
				var got metav1.Table
				if err := json.Unmarshal(body, &got); err != nil {
					t.Fatalf("%s: %v: %s", what, err, body)
				}
				if n := len(got.ColumnDefinitions); n > 0 && (n != 3 || got.ColumnDefinitions[c.at].Name != "Tenant" ||
					got.ColumnDefinitions[c.at].Priority != 0) {
					t.Errorf("%s: columns %v", what, got.ColumnDefinitions)
				}
				var said []string
				for _, row := range got.Rows {
					at := min(c.at, len(row.Cells)-1)
					said = append(said, row.Cells[at].(string))
				}
				if !slices.Equal(said, tenants) {
					t.Errorf("%s: tenants %q in %s", what, said, body)
				}
			}
			whole, err := p.JSON(Out, pods, []byte(table))
			if err != nil {
				t.Fatal(err)
			}
			check("whole", whole, "t1", "system", "")
			if !bytes.Contains(whole, []byte(`"namespace":"`+c.namespace+`"`)) ||
				c.composite && bytes.Contains(whole, []byte("selfLink")) {
				t.Errorf("objects: %s", whole)
			}
			for size := 1; size < len(table); size += 7 {
				var out bytes.Buffer
				s, err := p.Stream("application/json", pods, false, &out)
				if err != nil {
					t.Fatal(err)
				}
				for piece := range slices.Chunk([]byte(table), size) {
					if _, err := s.Write(piece); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Close(); err != nil || !bytes.Equal(out.Bytes(), whole) {
					t.Fatalf("in pieces of %d: %v: %s", size, err, out.Bytes())
				}
			}
			var out bytes.Buffer
			s, err := p.Stream("application/json", pods, true, &out)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range []string{table, later} {
				if _, err := s.Write([]byte(`{"type":"ADDED","object":` + object + "}\n")); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			events := json.NewDecoder(&out)
			for _, tenants := range [][]string{{"t1", "system", ""}, {"t2"}} {
				var event metav1.WatchEvent
				if err := events.Decode(&event); err != nil {
					t.Fatal(err)
				}
				if len(tenants) == 1 && c.at == 2 && !bytes.Contains(event.Object.Raw, []byte(`["web","6m","t2"]`)) {
					t.Errorf("a later event: %s", event.Object.Raw)
				}
				check("an event", event.Object.Raw, tenants...)
			}
			// What is no Table is no business of the column.
			const list = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web",` +
				`"namespace":"default.t1"}}]}`
			if got, err := p.JSON(Out, pods, []byte(list)); err != nil || c.composite && string(got) != list ||
				bytes.Contains(got, []byte("Tenant")) {
				t.Errorf("a list: %s, %v", got, err)
			}
		})
	}
}
