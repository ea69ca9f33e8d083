package wire

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

var updateDocs = flag.Bool("update", false, "rewrite docs/reference/tenancy-tables.md")

// base is what a field holds once: lists and pointers are transparent.
func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// eachField calls visit for every field below t, with its path as in the
// table. A type within itself is gone into once.
func eachField(t reflect.Type, path string, above []reflect.Type, visit func(path string, t reflect.Type)) {
	t = base(t)
	if t.Kind() == reflect.Map {
		eachField(t.Elem(), path+".*", above, visit)
		return
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for _, a := range above {
		if a == t {
			return
		}
	}
	above = append(above[:len(above):len(above)], t)
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			eachField(f.Type, path, above, visit)
		case name != "" && name != "-":
			at := strings.TrimPrefix(path+"."+name, ".")
			visit(at, f.Type)
			eachField(f.Type, at, above, visit)
		}
	}
}

var nameOfReference = regexp.MustCompile(
	`(?i:namespace|message|subject|user|group|tenant|selector|extra|owner|error)|` +
		`^note$|^secrets$|(Ref|Refs|Reference|References|Name|Names)$`)

// looksLikeReference tells the fields that must be in the table or reviewed.
func looksLikeReference(path string, t reflect.Type) bool {
	t = base(t)
	switch t.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64:
		return false
	case reflect.Struct:
		return strings.HasSuffix(t.Name(), "Reference") || t.Name() == "RawExtension" ||
			t == reflect.TypeFor[metav1.LabelSelector]() ||
			nameOfReference.MatchString(path[strings.LastIndexByte(path, '.')+1:])
	}
	return nameOfReference.MatchString(path[strings.LastIndexByte(path, '.')+1:])
}

// knownTypes are those of the whole API.
func knownTypes() map[schema.GroupVersionKind]reflect.Type {
	types := maps.Clone(scheme.Scheme.AllKnownTypes())
	maps.Copy(types, definitionTypes())
	return types
}

// ofTheTable calls visit for each type that is registered for a kind of the
// table of kinds, or for the body of a subresource, in every version.
func ofTheTable(visit func(gvk schema.GroupVersionKind, k kinds.Kind, t reflect.Type)) {
	table := kinds.New()
	for gvk, t := range knownTypes() {
		k, ok := table.Kind(gvk.Group, gvk.Kind)
		switch gvk.GroupKind() {
		case schema.GroupKind{Group: "policy", Kind: "Eviction"},
			schema.GroupKind{Group: "autoscaling", Kind: "Scale"},
			schema.GroupKind{Group: "authentication.k8s.io", Kind: "TokenRequest"}:
			ok = true
		}
		if ok {
			visit(gvk, k, t)
		}
	}
}

// Whatever looks like a reference was decided about, and nothing is in the
// list of decisions that is no more.
func TestEveryReferenceIsDecided(t *testing.T) {
	table, reviewed := NewTable(), references.Reviewed()
	used := map[string]bool{}
	seen := map[string]bool{}
	ofTheTable(func(gvk schema.GroupVersionKind, k kinds.Kind, typ reflect.Type) {
		if k.Class == kinds.System {
			return
		}
		eachField(typ, "", nil, func(path string, ft reflect.Type) {
			if strings.HasPrefix(path, "metadata.") || !looksLikeReference(path, ft) {
				return
			}
			n := table.Node(gvk.Group, gvk.Kind)
			for _, name := range strings.Split(path, ".") {
				if n == nil || n.Op != references.None {
					break
				}
				n = n.Fields[name]
			}
			if n != nil {
				return // in the table, or on the way to what is
			}
			if key, ok := review(reviewed, path, ft); ok {
				used[key] = true
				return
			}
			if at := gvk.GroupKind().String() + " " + path; !seen[at] {
				seen[at] = true
				t.Errorf("%s (%s, %s) is neither in the table nor reviewed", at, gvk.Version, ft)
			}
		})
	})
	for key := range reviewed {
		if !used[key] {
			t.Errorf("there is no field %q to review", key)
		}
	}
}

// review finds the decision about a field.
func review(reviewed map[string]string, path string, t reflect.Type) (string, bool) {
	for tail := path; ; {
		if _, ok := reviewed[tail]; ok {
			return tail, true
		}
		_, rest, ok := strings.Cut(tail, ".")
		if !ok {
			break
		}
		tail = rest
	}
	key := "type " + base(t).Name()
	_, ok := reviewed[key]
	return key, ok
}

// fits reports whether an operation can be done on a field of a type.
func fits(op references.Op, t reflect.Type) bool {
	b := base(t)
	switch op {
	case references.Namespace, references.ClusterName, references.Text, references.User, references.Group:
		return b.Kind() == reflect.String
	case references.Ref, references.Subject:
		has := map[string]bool{}
		if b.Kind() == reflect.Struct {
			for i := range b.NumField() {
				name, _, _ := strings.Cut(b.Field(i).Tag.Get("json"), ",")
				has[name] = true
			}
		}
		return has["name"] && has["kind"]
	case references.NamespaceSelector:
		return b == reflect.TypeFor[metav1.LabelSelector]()
	case references.NamespaceLabels:
		return t == reflect.TypeFor[map[string]string]()
	case references.Extra:
		return t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.Slice &&
			t.Elem().Elem().Kind() == reflect.String
	default:
		return false
	}
}

// check finds rows that contradict each other: a field is translated once,
// and what has an operation has no rows below it.
func check(rows []references.Row) error {
	seen := map[string]references.Op{}
	for _, r := range rows {
		key := fmt.Sprintf("%s/%s %s", r.Group, r.Kind, r.Path)
		if op, ok := seen[key]; ok {
			return fmt.Errorf("%s is in the table twice, as %s and %s", key, op, r.Op)
		}
		if r.Op == references.None || r.Path == "" || strings.Contains("."+r.Path+".", "..") {
			return fmt.Errorf("%s is no row", key)
		}
		seen[key] = r.Op
	}
	for _, r := range rows {
		for path := r.Path; ; {
			i := strings.LastIndexByte(path, '.')
			if i < 0 {
				break
			}
			path = path[:i]
			if op, ok := seen[fmt.Sprintf("%s/%s %s", r.Group, r.Kind, path)]; ok {
				return fmt.Errorf("%s/%s %s is below %s, which is a %s", r.Group, r.Kind, r.Path, path, op)
			}
		}
	}
	return nil
}

// Every row is about a field that exists, of a type that its operation fits in
// every version.
func TestEveryRowFits(t *testing.T) {
	if err := check(references.Rows()); err != nil {
		t.Error(err)
	}
	type field struct{ group, kind, path string }
	types := map[field][]reflect.Type{}
	ofTheTable(func(gvk schema.GroupVersionKind, _ kinds.Kind, typ reflect.Type) {
		eachField(typ, "", nil, func(path string, ft reflect.Type) {
			f := field{gvk.Group, gvk.Kind, path}
			types[f] = append(types[f], ft)
		})
	})
	for _, r := range references.Rows() {
		f := field{r.Group, r.Kind, r.Path}
		if path, ok := strings.CutPrefix(r.Path, "data."); ok && r.Kind == "ControllerRevision" {
			f = field{"apps", "StatefulSet", path} // a patch of it
		}
		if path, _, ok := strings.Cut(r.Path, "["); ok {
			f.path = path
		}
		of := types[f]
		if len(of) == 0 {
			t.Errorf("there is no field %s of %s/%s", r.Path, r.Group, r.Kind)
		}
		for _, ft := range of {
			if f.path != r.Path && ft.Kind() == reflect.Map {
				ft = ft.Elem() // the row is about one key of it
			}
			if !fits(r.Op, ft) {
				t.Errorf("%s of %s/%s is a %s, not a %s", r.Path, r.Group, r.Kind, ft, r.Op)
			}
		}
	}
}

func TestCheckFindsContradictions(t *testing.T) {
	row := func(path string, op references.Op) references.Row {
		return references.Row{Group: "g", Kind: "K", Path: path, Op: op}
	}
	for name, c := range map[string]struct {
		rows []references.Row
		ok   bool
	}{
		"side by side": {[]references.Row{row("a.b", references.Text), row("a.c", references.Ref),
			row("ab", references.Text)}, true},
		"another kind": {[]references.Row{row("a", references.Text), {Group: "g", Kind: "L", Path: "a",
			Op: references.Ref}}, true},
		"twice":              {[]references.Row{row("a", references.Text), row("a", references.Text)}, false},
		"two operations":     {[]references.Row{row("a", references.Text), row("a", references.Ref)}, false},
		"below a translated": {[]references.Row{row("a", references.Ref), row("a.name", references.Text)}, false},
		"above a translated": {[]references.Row{row("a.b.c", references.Text), row("a", references.Ref)}, false},
		"no operation":       {[]references.Row{row("a", references.None)}, false},
		"a hole in the path": {[]references.Row{row("a..b", references.Text)}, false},
		"no rows":            {nil, true},
	} {
		if err := check(c.rows); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTableNode(t *testing.T) {
	table := NewTable()
	if n := table.Node("apps", "Pod"); n != nil {
		t.Errorf("apps/Pod has %v", n)
	}
	n := table.Node("apps", "Deployment")
	for _, name := range strings.Split(
		"spec.template.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.namespaces", ".") {
		if n == nil || n.Op != references.None {
			t.Fatalf("before %s there is %v", name, n)
		}
		n = n.Fields[name]
	}
	if n == nil || n.Op != references.Namespace {
		t.Errorf("got %v", n)
	}
}

func TestTablesAreDocumented(t *testing.T) {
	const path = "../../../docs/reference/tenancy-tables.md"
	want := Markdown()
	if *updateDocs {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale; run make docs", path)
	}
}
