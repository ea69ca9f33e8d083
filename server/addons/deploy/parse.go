package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/space"
)

// errEmpty is why an empty file changes nothing: it is more often a file that
// could not be written than the wish to delete everything.
var errEmpty = errors.New("the file is empty; to delete everything that it brought, leave a comment in it")

// object is one object of a manifest.
type object struct {
	*unstructured.Unstructured
	// tenant is the space that metadata.tenant names, "" for the system's.
	tenant string
	// document is the number of the document that it stands in, from 1.
	document int
}

// document is one document of a file.
type document struct {
	number, line int // from 1
	json         []byte
}

func (d document) wrap(err error) error {
	return fmt.Errorf("document %d (line %d): %w", d.number, d.line, err)
}

// parse reads the objects of a manifest, in the order in which they are
// applied: what others need to be there comes first.
func parse(name string, text []byte) ([]object, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errEmpty
	}
	split := splitYAML
	if strings.HasSuffix(name, ".json") {
		split = splitJSON
	}
	documents, err := split(text)
	if err != nil {
		return nil, err
	}
	var out []object
	for _, d := range documents {
		objects, err := d.objects()
		if err != nil {
			return nil, d.wrap(err)
		}
		out = append(out, objects...)
	}
	if err := checkUnique(out); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b object) int { return rank(a) - rank(b) })
	return out, nil
}

// rank is lower for what objects of other kinds live in.
func rank(o object) int {
	switch gk := o.GroupVersionKind().GroupKind().String(); gk {
	case "Tenant":
		return 0
	case "Namespace":
		return 1
	case "CustomResourceDefinition.apiextensions.k8s.io":
		return 2
	default:
		return 3
	}
}

// splitYAML splits at the lines that begin with three dashes. Documents
// without content do not count.
func splitYAML(text []byte) ([]document, error) {
	var out []document
	begin, from := 1, 0
	add := func(to int) error {
		part := text[from:to]
		d := document{number: len(out) + 1, line: begin}
		var err error
		if d.json, err = yaml.YAMLToJSONStrict(part); err != nil {
			return d.wrap(err)
		}
		if string(d.json) != "null" {
			out = append(out, d)
		}
		return nil
	}
	line, at := 0, 0
	for l := range bytes.Lines(text) {
		line++
		if rest, ok := bytes.CutPrefix(l, []byte("---")); ok &&
			(len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			if err := add(at); err != nil {
				return nil, err
			}
			// The dashes stay: content may follow them.
			begin, from = line, at
		}
		at += len(l)
	}
	return out, add(at)
}

// splitJSON reads one value after the other.
func splitJSON(text []byte) ([]document, error) {
	var out []document
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		d := document{number: len(out) + 1, line: 1 + bytes.Count(text[:dec.InputOffset()], []byte("\n"))}
		var raw json.RawMessage
		switch err := dec.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, d.wrap(err)
		}
		d.json = raw
		out = append(out, d)
	}
}

// objects are the one of the document, or those of the list that it is.
func (d document) objects() ([]object, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(d.json); err != nil {
		return nil, err
	}
	items := []*unstructured.Unstructured{u}
	if u.IsList() {
		list, err := u.ToList()
		if err != nil {
			return nil, err
		}
		items = items[:0]
		for i := range list.Items {
			item := &list.Items[i]
			// Items of typed lists do not say what they are.
			if kind := strings.TrimSuffix(u.GetKind(), "List"); item.GetKind() == "" && kind != "" {
				item.SetAPIVersion(u.GetAPIVersion())
				item.SetKind(kind)
			}
			items = append(items, item)
		}
	}
	out := make([]object, 0, len(items))
	for i, item := range items {
		o, err := newObject(item)
		if err != nil && u.IsList() {
			err = fmt.Errorf("item %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		o.document = d.number
		out = append(out, o)
	}
	return out, nil
}

// newObject checks what must be there and takes the tenant out.
func newObject(u *unstructured.Unstructured) (object, error) {
	o := object{Unstructured: u}
	switch {
	case u.GetAPIVersion() == "":
		return o, errors.New("apiVersion is missing")
	case u.GetKind() == "":
		return o, errors.New("kind is missing")
	case u.GetName() == "" && u.GetGenerateName() != "":
		return o, fmt.Errorf("%s: metadata.generateName would make another object each time; use metadata.name",
			u.GetKind())
	case u.GetName() == "":
		return o, fmt.Errorf("%s: metadata.name is missing", u.GetKind())
	}
	tenant, _, err := unstructured.NestedString(u.Object, "metadata", "tenant")
	if err != nil {
		return o, err
	}
	if tenant != "" && !space.IsSystem(tenant) {
		if err := space.ValidateTenant(tenant); err != nil {
			return o, fmt.Errorf("metadata.tenant: %w", err)
		}
		o.tenant = tenant
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "tenant")
	// These are for the server to say.
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(u.Object, "metadata", "uid")
	return o, nil
}

// checkUnique refuses a file that has an object twice: the second would take
// away what the first says.
func checkUnique(objects []object) error {
	seen := map[ref]int{}
	for _, o := range objects {
		r := o.ref()
		r.Version = ""
		if first, ok := seen[r]; ok {
			return fmt.Errorf("document %d: %s is in document %d already", o.document, r, first)
		}
		seen[r] = o.document
	}
	return nil
}
