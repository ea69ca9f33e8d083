package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `"x"`, `{"metadata":{"name":"a","namespace":"b.t1"}}`,
		`{"items":[{"metadata":{}}],"kind":"XList"}`,
		`{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":["a.t1"],"object":{"metadata":{"name":"a",` +
			`"namespace":"d.t1"}}}]}`,
		`{"roleRef":{"kind":"ClusterRole","name":"x"},"subjects":[{"kind":"User","name":"\u0061"}]}`,
		`{"kind":"NetworkPolicy","apiVersion":"networking.k8s.io/v1",` +
			`"spec":{"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"a4s.io/tenant":"t1"}}}]}]}}`,
		`{"metadata":{"labels":{"a4s.io/tenant":"t1"},"ownerReferences":[{"kind":"Namespace","name":"\""}]}}`,
	} {
		for n := range byte(6) {
			f.Add([]byte(s), n)
		}
	}
	projectors := map[string]*Projector{}
	for _, tenant := range []string{"t1", space.System, space.All} {
		projectors[tenant] = protoProjector(tenant)
	}
	kinds := []Resource{podKind(), namespaceKind(), bindingKind(), policyKind(), reviewKind(), {}}
	f.Fuzz(func(t *testing.T, b []byte, n byte) {
		r := kinds[int(n)%len(kinds)]
		for tenant, p := range projectors {
			for _, d := range []Direction{In, Out} {
				if tenant == space.All && d == In {
					continue
				}
				out, err := p.JSON(d, r, b)
				if err == nil && json.Valid(b) && !json.Valid(out) {
					t.Fatalf("%s made of %s", out, b)
				}
				if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrForeign) &&
					!errors.Is(err, ErrTenant) {
					t.Fatal(err)
				}
				if tenant == space.System || err != nil || d == Out || !json.Valid(b) {
					continue
				}
				// What came in can be shown, or is refused; and comes in again
				// as it did.
				shown, err := p.JSON(Out, r, out)
				if err != nil {
					continue
				}
				if again, err := p.JSON(In, r, shown); err == nil && !json.Valid(again) {
					t.Fatalf("%s made of %s", again, shown)
				}
			}
		}
		for _, media := range []string{"application/json-patch+json", "application/merge-patch+json"} {
			out, err := projectors["t1"].Patch(media, r, b)
			if err == nil && json.Valid(b) && !json.Valid(out) {
				t.Fatalf("%s made of %s", out, b)
			}
		}
		cut := 0
		if len(b) > 0 {
			cut = int(n) % len(b)
		}
		whole, err := projectors["t1"].JSON(Out, r, b)
		var out bytes.Buffer
		// the media type is right
		s, _ := projectors["t1"].Stream("application/json", r, false, &out) //nolint:errcheck // see above
		_, serr := s.Write(b[:cut])
		if serr == nil {
			_, serr = s.Write(b[cut:])
		}
		if serr == nil {
			serr = s.Close()
		}
		if json.Valid(b) && err == nil && serr == nil && !sameJSON(whole, out.Bytes()) {
			t.Fatalf("%s\nwhole  %s\nstream %s", b, whole, &out)
		}
	})
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
