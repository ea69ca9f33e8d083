package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

// nested is levels of lists or Tables, or a mixture; their kinds come last, so
// that they are known when everything was read.
func nested(levels int, form func(level int) string) string {
	body := `{"metadata":{"name":"x"}}`
	for level := range levels {
		switch form(level) {
		case "List":
			body = `{"items":[` + body + `],"kind":"List","apiVersion":"v1"}`
		default:
			body = `{"rows":[{"object":` + body + `}],"kind":"Table","apiVersion":"meta.k8s.io/v1"}`
		}
	}
	return body
}

func nestedForms() map[string]func(int) string {
	return map[string]func(int) string{
		"lists":  func(int) string { return "List" },
		"Tables": func(int) string { return "Table" },
		"mixed": func(level int) string {
			if level%2 == 0 {
				return "List"
			}
			return "Table"
		},
	}
}

// TestWallV7NestedDocuments: no list or Table is taken from a tenant, nor one
// within another shown, and neither takes longer the deeper it is.
func TestWallV7NestedDocuments(t *testing.T) {
	for name, form := range nestedForms() {
		for _, levels := range []int{1, 2, 3, 40, 90} {
			body := []byte(nested(levels, form))
			for _, r := range []Resource{podKind(), {}} {
				if _, err := protoProjector("t1").JSON(In, r, body); !errors.Is(err, ErrMalformed) {
					t.Errorf("%d levels of %s are taken: %v", levels, name, err)
				}
				for _, tenant := range []string{"t1", space.All, space.System} {
					_, err := protoProjector(tenant).JSON(Out, r, body)
					if levels > 1 && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrForeign) {
						t.Errorf("%d levels of %s are shown to %s: %v", levels, name, tenant, err)
					}
				}
			}
			s, err := protoProjector("t1").Stream("application/json", podKind(), false, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range body { // by bytes, so that each item is tried again
				if _, err = s.Write([]byte{b}); err != nil {
					break
				}
			}
			if err == nil {
				err = s.Close()
			}
			if levels > 1 && err == nil {
				t.Errorf("%d levels of %s are streamed", levels, name)
			}
		}
	}
	for _, body := range []string{
		`{"items":[],"kind":"PodList","apiVersion":"v1"}`, `{"kind":"List"}`,
		`{"kind":"Table","apiVersion":"meta.k8s.io/v1"}`,
	} {
		if _, err := protoProjector("t1").JSON(In, podKind(), []byte(body)); !errors.Is(err, ErrMalformed) ||
			!strings.Contains(err.Error(), "is no object of the kind Pod") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestListsThatAreObjects: a custom resource may be called a list, and may have
// items of its own.
func TestListsThatAreObjects(t *testing.T) {
	r := Resource{Group: "example.com", Version: "v1", Resource: "allowlists", Kind: "AllowList", Namespaced: true}
	in := `{"apiVersion":"example.com/v1","items":[{"metadata":{"name":"x","namespace":"y"}},[]],` +
		`"kind":"AllowList","metadata":{"name":"a","namespace":"d"}}`
	inside := strings.Replace(in, `"namespace":"d"`, `"namespace":"d.t1"`, 1)
	p := protoProjector("t1")
	if out, err := p.JSON(In, r, []byte(in)); err != nil || string(out) != inside {
		t.Errorf("%s, %v", out, err)
	}
	list := `{"apiVersion":"example.com/v1","items":[` + inside + `],"kind":"AllowListList","metadata":{}}`
	for _, body := range []string{inside, list} {
		out, err := p.JSON(Out, r, []byte(body))
		if err != nil || !bytes.Contains(out, []byte(`{"name":"x","namespace":"y"}}`)) ||
			!bytes.Contains(out, []byte(`"namespace":"d","tenant":"t1"`)) {
			t.Errorf("%s: %s, %v", body, out, err)
		}
		if _, err := p.JSON(In, r, []byte(list)); !errors.Is(err, ErrMalformed) {
			t.Errorf("a list is taken: %v", err)
		}
	}
}

// TestWallV7Depth: what tenants send may be nested, but not without end.
func TestWallV7Depth(t *testing.T) {
	p := protoProjector("t1")
	at := func(levels int) string {
		return strings.Repeat(`{"a":`, levels/2) + strings.Repeat("[", levels-levels/2) + `"[[{{"` +
			strings.Repeat("]", levels-levels/2) + strings.Repeat("}", levels/2)
	}
	for _, c := range []struct {
		levels int
		deep   bool
	}{{1, false}, {maxDepth, false}, {maxDepth + 1, true}, {100_000, true}} {
		body := []byte(at(c.levels))
		if err := Limit(body); errors.Is(err, ErrMalformed) != c.deep {
			t.Errorf("%d levels: %v", c.levels, err)
		}
		for _, media := range []string{"application/merge-patch+json", "application/strategic-merge-patch+json",
			"application/apply-patch+yaml"} {
			if _, err := p.Patch(media, customKind(true), body); errors.Is(err, ErrMalformed) != c.deep {
				t.Errorf("%d levels, %s: %v", c.levels, media, err)
			}
		}
		ops := []byte(`[{"op":"add","path":"/spec","value":` + at(max(0, c.levels-2)) + `}]`)
		if _, err := p.Patch("application/json-patch+json", customKind(true),
			ops); errors.Is(err, ErrMalformed) != c.deep {
			t.Errorf("%d levels in an operation: %v", c.levels, err)
		}
		if out, err := p.JSON(Out, customKind(true), body); err != nil || !json.Valid(out) && c.levels < 10_000 {
			t.Errorf("%d levels outwards: %v", c.levels, err)
		}
	}
}

// TestWallV7Width: upstream's work grows with the square of what is in one object
// or list.
func TestWallV7Width(t *testing.T) {
	p := protoProjector("t1")
	for n, want := range map[int]error{1: nil, maxMembers: nil, maxMembers + 1: ErrTooLarge} {
		for name, body := range map[string]string{
			"a list":            `{"a":[` + strings.Repeat("1,", n-1) + `1]}`,
			"a list of lists":   `{"a":["[,{",` + strings.Repeat("[1,2],", n-1)[:max(0, 6*(n-1)-6)] + `]}`,
			"an object":         `{"a":{` + strings.Repeat(`"x":{"a":1,"b":2},`, n-1) + `"y":",,,"}}`,
			"an object at last": `{"a":[{},[1,2,3],{"x":1` + strings.Repeat(`,"x":"\",\""`, n-1) + `}]}`,
		} {
			if err := Limit([]byte(body)); !errors.Is(err, want) {
				t.Errorf("%s of %d: %v", name, n, err)
			}
			if _, err := p.Patch("application/merge-patch+json", customKind(true),
				[]byte(body)); !errors.Is(err, want) {
				t.Errorf("a patch with %s of %d: %v", name, n, err)
			}
		}
	}
}

// TestDeeper compares with counting byte by byte.
func TestDeeper(t *testing.T) {
	for _, s := range []string{
		"", "[]", `{"a":"}]\"["}`, `[[[` + strings.Repeat(" ", 70) + `]]]`, strings.Repeat("[]", 200),
		strings.Repeat("[", 63) + strings.Repeat("]", 63) + "[]",
		`["` + strings.Repeat(`[\\`, 40) + `"]`, strings.Repeat(`[{"a":"`+strings.Repeat("x", 61)+`\"[`+`"},`, 30),
	} {
		for _, before := range []int{0, 1, 62, 63, 64} {
			b := []byte(strings.Repeat(" ", before) + s)
			most, depth, inString := 0, 0, false
			for i := 0; i < len(b); i++ {
				switch c := b[i]; {
				case inString && c == '\\':
					i++
				case c == '"':
					inString = !inString
				case inString:
				case c == '[' || c == '{':
					depth++
					most = max(most, depth)
				case c == ']' || c == '}':
					depth--
				}
			}
			for _, limit := range []int{0, 1, 2, max(0, most-1), most, most + 1} {
				if got := deeper(b, limit); got != (most > limit) {
					t.Errorf("%s: %d levels, more than %d: %v", b, most, limit, got)
				}
			}
		}
	}
}

// TestHeadsOfManyLists: a long answer is not read anew for each list in it.
func TestHeadsOfManyLists(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"kind":"Widget","apiVersion":"example.com/v1"`)
	for i := range 100_000 {
		b.WriteString(`,"k` + strconv.Itoa(i) + `":[]`)
	}
	b.WriteString(`,"metadata":{"name":"a","namespace":"d.t1"}}`)
	s, err := protoProjector("t1").Stream("application/json", customKind(true), false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, b.String()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
