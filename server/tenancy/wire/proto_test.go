package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// protoMessage is what every generated type of the API has.
type protoMessage interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// A custom resource of the tenants, without namespaces.
const issuerGroup, issuerKind = "issuers.example.com", "ClusterIssuer"

func protoProjector(tenant string) *Projector {
	table := kinds.New()
	return &Projector{Table: NewTable(), View: &View{
		Tenant:            tenant,
		SharedClusterRole: kinds.SharedClusterRole,
		ClusterScoped: func(group, kind string) bool {
			if group == issuerGroup && kind == issuerKind {
				return true
			}
			k, ok := table.Kind(group, kind)
			return ok && !k.Namespaced && k.Class == kinds.Tenant && !strings.HasPrefix(group, "auth")
		},
		GroupOf: func(kind string) (string, bool) {
			if kind == issuerKind {
				return issuerGroup, true
			}
			return table.GroupOf(kind)
		},
	}}
}

// protoResource is the resource of a kind as the edge fills it in.
func protoResource(gvk schema.GroupVersionKind) Resource {
	k, ok := kinds.New().Kind(gvk.Group, gvk.Kind)
	r := Resource{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespaced: true, Resource: "things"}
	if ok {
		r.Resource, r.Namespaced = k.Resource, k.Namespaced
	}
	return r
}

func seal(t testing.TB, apiVersion, kind string, m protoMessage) []byte {
	t.Helper()
	raw, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	b, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(protoMagic), b...)
}

func unseal[M protoMessage](t testing.TB, b []byte, into M) M {
	t.Helper()
	var unknown runtime.Unknown
	if !bytes.HasPrefix(b, []byte(protoMagic)) {
		t.Fatalf("no prefix: %q", b)
	}
	if err := unknown.Unmarshal(b[len(protoMagic):]); err != nil {
		t.Fatal(err)
	}
	if err := into.Unmarshal(unknown.Raw); err != nil {
		t.Fatal(err)
	}
	return into
}

// protoFiller makes up objects, in native form.
func protoFiller(seed int64) *randfill.Filler {
	words := []string{
		"web", "default", "admin", "pv1", "Namespace", "PersistentVolume", "ClusterRole",
		"ServiceAccount", "User", "Group",
		"v1", "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "kubernetes.io/metadata.name",
		"system:serviceaccount:default:builder", "system:serviceaccounts:default",
	}
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(.2).NumElements(1, 2).MaxDepth(40).Funcs(
		func(*metav1.TypeMeta, randfill.Continue) {}, // not in protobuf
		func(s *string, c randfill.Continue) { *s = words[c.Intn(len(words))] },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Int31()), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(int64(c.Int31()), 0).Time)
		},
		func(q *resource.Quantity, c randfill.Continue) { *q = resource.MustParse(fmt.Sprint(c.Intn(1000))) },
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.FromInt32(c.Int31()) },
		func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte(`{"a":1}`) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { *f = *metav1.NewFieldsV1(`{"f:a":{}}`) },
	)
}

// protoTypes are all objects that have a protobuf form.
func protoTypes(t *testing.T) map[schema.GroupVersionKind]reflect.Type {
	found := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		meta, ok := typ.FieldByName("ObjectMeta")
		if _, proto := reflect.New(typ).Interface().(protoMessage); ok && proto && meta.Type == objectMetaType {
			found[gvk] = typ
		}
	}
	if len(found) < 100 {
		t.Fatalf("found %d kinds only", len(found))
	}
	return found
}

// fillObject makes up one object of a tenant.
func fillObject(typ reflect.Type, r Resource, seed int64) protoMessage {
	object := reflect.New(typ)
	protoFiller(seed).Fill(object.Interface())
	meta := metaOf(object.Interface())
	meta.Name, meta.Namespace = "web", ""
	meta.SetSelfLink("")
	if r.Namespaced {
		meta.Namespace = "default"
	}
	return object.Interface().(protoMessage)
}

func TestProtoLikeReferenceAndBack(t *testing.T) {
	p := protoProjector("t1")
	for gvk, typ := range protoTypes(t) {
		t.Run(gvk.String(), func(t *testing.T) {
			r := protoResource(gvk)
			apiVersion := gvk.GroupVersion().String()
			for seed := range int64(3) {
				native := fillObject(typ, r, seed)
				inwards, err := p.Proto(In, r, seal(t, apiVersion, gvk.Kind, native))
				if err != nil {
					t.Fatal(err)
				}
				composite := unseal(t, inwards, reflect.New(typ).Interface().(protoMessage))
				same(t, "composed", composite, reference{In, p, r}.object(t, native, typ))

				sameAsJSON(t, p, In, r, gvk, native, composite)

				outwards, err := p.Proto(Out, r, inwards)
				if err != nil {
					t.Fatal(err)
				}
				back := unseal(t, outwards, reflect.New(typ).Interface().(protoMessage))
				sameAsJSON(t, p, Out, r, gvk, composite, back)
				meta := metaOf(back)
				if !strings.Contains(meta.GetSelfLink(), "/tenants/t1/") ||
					!strings.HasSuffix(meta.GetSelfLink(), "/"+r.Resource+"/web") {
					t.Errorf("selfLink %q", meta.GetSelfLink())
				}
				meta.SetSelfLink("")
				same(t, "projected", back, reference{Out, p, r}.object(t, composite, typ))
				same(t, "round trip", back, native)

				if _, err := protoProjector("t2").Proto(Out, r, inwards); (r.Namespaced ||
					p.View.ClusterScoped(gvk.Group, gvk.Kind)) && !errors.Is(err, ErrForeign) {
					t.Errorf("shown to another tenant: %v", err)
				}
				if r.Namespaced || p.View.ClusterScoped(gvk.Group, gvk.Kind) {
					shown := must(protoProjector(space.All).Proto(Out, r, inwards))(t)
					all := unseal(t, shown, reflect.New(typ).Interface().(protoMessage))
					metaOf(all).SetSelfLink("")
					same(t, "all", all, native)
				}
			}
		})
	}
}

func metaOf(object any) *metav1.ObjectMeta {
	return reflect.ValueOf(object).Elem().FieldByName("ObjectMeta").Addr().Interface().(*metav1.ObjectMeta)
}

// sameAsJSON holds the two engines to the same result.
func sameAsJSON(
	t *testing.T, p *Projector, d Direction, r Resource, gvk schema.GroupVersionKind, from, got protoMessage,
) {
	t.Helper()
	tree := map[string]any{}
	b, err := json.Marshal(from)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(b))
		decoder.UseNumber()
		err = decoder.Decode(&tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	tree["apiVersion"], tree["kind"] = gvk.GroupVersion().String(), gvk.Kind
	if b, err = json.Marshal(tree); err == nil {
		b, err = p.JSON(d, r, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := reflect.New(reflect.TypeOf(from).Elem()).Interface().(protoMessage)
	if err := json.Unmarshal(b, want); err != nil {
		t.Fatal(err)
	}
	again := reflect.New(reflect.TypeOf(from).Elem()).Interface().(protoMessage)
	if b, err = want.Marshal(); err == nil { // without what protobuf has not
		err = again.Unmarshal(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	same(t, "JSON", got, again)
}

func must(b []byte, err error) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if apiequality.Semantic.DeepEqual(got, want) {
		return
	}
	g, _ := json.MarshalIndent(got, "", " ")
	w, _ := json.MarshalIndent(want, "", " ")
	t.Fatalf("%s:\n got %s\nwant %s", what, firstDifference(g, w), firstDifference(w, g))
}

func firstDifference(a, b []byte) []byte {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return a[max(0, i-300):min(len(a), i+200)]
}

// reference translates decoded objects in the most obvious way.
type reference struct {
	d Direction
	p *Projector
	r Resource
}

func (f reference) object(t *testing.T, of protoMessage, typ reflect.Type) protoMessage {
	t.Helper()
	b, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	meta := tree["metadata"].(map[string]any)
	f.set(t, meta, "name", func(s string) (string, error) { return f.p.View.Name(f.d, f.r.Group, f.r.Kind, s) })
	f.set(t, meta, "namespace", func(s string) (string, error) { return f.p.View.Namespace(f.d, s) })
	delete(meta, "selfLink")
	if labels, ok := meta["labels"].(map[string]any); ok {
		delete(labels, space.Label)
		if f.r.Kind == "Namespace" {
			f.walk(t, labels, &Node{Op: references.NamespaceLabels})
		}
	}
	if owners, ok := meta["ownerReferences"]; ok {
		f.walk(t, owners, &Node{Op: references.Ref})
	}
	node := f.p.Table.Node(f.r.Group, f.r.Kind)
	if node != nil {
		below := &Node{Fields: map[string]*Node{}}
		for name, child := range node.Fields {
			if name != "metadata" {
				below.Fields[name] = child
			}
		}
		f.walk(t, tree, below)
	}
	if b, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	object := reflect.New(typ).Interface().(protoMessage)
	if err := json.Unmarshal(b, object); err != nil {
		t.Fatal(err)
	}
	// Protobuf knows nothing of what JSON keeps besides.
	if b, err = object.Marshal(); err != nil {
		t.Fatal(err)
	}
	object = reflect.New(typ).Interface().(protoMessage)
	if err := object.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	return object
}

func (f reference) set(t *testing.T, in map[string]any, key string, translate func(string) (string, error)) {
	t.Helper()
	s, ok := in[key].(string)
	if !ok {
		return
	}
	s, err := translate(s)
	if err != nil {
		t.Fatal(err)
	}
	in[key] = s
}

func (f reference) walk(t *testing.T, value any, n *Node) any {
	t.Helper()
	v := f.p.View
	if list, ok := value.([]any); ok {
		for i := range list {
			list[i] = f.walk(t, list[i], n)
		}
		return list
	}
	if s, ok := value.(string); ok {
		var err error
		switch n.Op {
		case references.Namespace:
			s, err = v.Namespace(f.d, s)
		case references.ClusterName:
			s, err = v.ClusterName(f.d, s)
		case references.User:
			s, err = v.User(f.d, s)
		case references.Group:
			s, err = v.Group(f.d, s)
		case references.Text:
			if f.d == Out {
				s = v.Text(s)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	namespace := func(s string) (string, error) { return v.Namespace(f.d, s) }
	text := func(key string) string { s, _ := fields[key].(string); return s }
	switch n.Op {
	case references.Ref:
		group := text("apiGroup")
		if group == "" {
			gv, _ := schema.ParseGroupVersion(text("apiVersion"))
			group = gv.Group
		}
		if group == "" && f.r.Group == rbacGroup && text("kind") == "ClusterRole" {
			group = rbacGroup
		}
		f.set(t, fields, "name", func(s string) (string, error) { return v.Name(f.d, group, text("kind"), s) })
		f.set(t, fields, "namespace", namespace)
	case references.Subject:
		f.set(t, fields, "namespace", namespace)
		switch text("kind") {
		case "User":
			f.set(t, fields, "name", func(s string) (string, error) { return v.User(f.d, s) })
		case "Group":
			f.set(t, fields, "name", func(s string) (string, error) { return v.Group(f.d, s) })
		}
	case references.NamespaceLabels:
		f.set(t, fields, namespaceNameLabel, namespace)
	case references.NamespaceSelector:
		labels, ok := fields["matchLabels"].(map[string]any)
		if !ok {
			labels = map[string]any{}
			fields["matchLabels"] = labels
		}
		f.set(t, labels, namespaceNameLabel, namespace)
		delete(labels, space.Label)
		if f.d == In {
			labels[space.Label] = v.Tenant
		}
		requirements, _ := fields["matchExpressions"].([]any)
		for _, r := range requirements {
			if r := r.(map[string]any); r["key"] == namespaceNameLabel {
				r["values"] = f.walk(t, r["values"], &Node{Op: references.Namespace})
			}
		}
	case references.Extra:
		delete(fields, space.Extra)
		if f.d == In {
			fields[space.Extra] = []any{v.Tenant}
		}
	}
	names := []string{}
	for name := range n.Fields {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		child := n.Fields[name]
		if name == "*" {
			for key := range fields {
				fields[key] = f.walk(t, fields[key], child)
			}
			continue
		}
		if fields[name] == nil && child.Op == references.Extra && f.d == In {
			fields[name] = map[string]any{}
		}
		if fields[name] != nil {
			fields[name] = f.walk(t, fields[name], child)
		}
	}
	return fields
}
