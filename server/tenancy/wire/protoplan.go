package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/references"
)

// protoPlan says what to do with the fields of one message, by their numbers.
// Fields that are not in it are passed byte by byte.
type protoPlan struct {
	fields []*protoField
	// some are the numbers in fields, see skipTo.
	some uint64
	// extras are the numbers of fields with the Op Extra, which have to be
	// there inwards even if the sender left them out.
	extras []protowire.Number
}

// protoField says what to do with one field.
type protoField struct {
	op       references.Op
	message  *protoPlan
	ref      *protoRef
	repeated bool
	// keys makes the field a map; "*" stands for every key.
	keys map[string]*protoField
	// meta marks the ObjectMeta of an object, whose rules need no table.
	meta bool
	// named is used in place of message where the name, field 1, is that of a
	// namespace or of a cluster-scoped tenant object.
	named *protoPlan
	// item marks the elements of a list of objects, listMeta the metadata of one.
	item     *protoPlan
	listMeta bool
	// json is the tree of an object that lies in the message as JSON.
	json *Node
}

// protoRef are the numbers of the fields that the Ops Ref and Subject look at;
// 0 stands for a field that the message does not have.
type protoRef struct {
	kind, apiVersion, apiGroup, name, namespace protowire.Number
}

// protoKind is the plan for a kind.
type protoKind struct {
	object *protoPlan
	list   bool
	status bool
	shape  *protoShape // nil for kinds that client-go does not know
}

func (p *protoPlan) field(n protowire.Number) *protoField {
	if p == nil || int(n) >= len(p.fields) {
		return nil
	}
	return p.fields[n]
}

// numbers are those of the fields that the plan has.
func (p *protoPlan) numbers() uint64 {
	if p == nil {
		return 0
	}
	return p.some
}

func (p *protoPlan) set(n protowire.Number, f *protoField) {
	if n < 63 {
		p.some |= 1 << n
	}
	for int(n) >= len(p.fields) {
		p.fields = append(p.fields, nil)
	}
	p.fields[n] = f
	if f.op == references.Extra {
		p.extras = append(p.extras, n)
	}
}

var (
	objectMetaType = reflect.TypeFor[metav1.ObjectMeta]()
	listMetaType   = reflect.TypeFor[metav1.ListMeta]()
	rawType        = reflect.TypeFor[runtime.RawExtension]()
)

// protoPlans keeps what was compiled, for the kinds that client-go knows.
type protoPlans struct{ known sync.Map }

type protoPlanKey struct{ apiVersion, kind, group, base string }

// protoKindOf is the plan for what an envelope says it holds. The table row of
// partial metadata is that of the resource the request is about.
func (p *Projector) protoKindOf(apiVersion, kind string, r Resource) (*protoKind, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Version == "" || kind == "" {
		return nil, fmt.Errorf("%w: the protobuf envelope has no apiVersion or kind", ErrMalformed)
	}
	group, base := gv.Group, kind
	var t reflect.Type
	switch {
	case group == metav1.GroupName && kind == "PartialObjectMetadata":
		t, group, base = reflect.TypeFor[metav1.PartialObjectMetadata](), r.Group, r.Kind
	case group == metav1.GroupName && kind == "PartialObjectMetadataList":
		t, group, base = reflect.TypeFor[metav1.PartialObjectMetadataList](), r.Group, r.Kind
	case kind == "Status" && group == "":
		plan, err := compileStatus()
		return &protoKind{object: plan, status: true}, err
	default:
		t = typeOf(gv.WithKind(kind))
		base = strings.TrimSuffix(kind, "List")
	}
	registered := t != nil
	if !registered {
		// A kind of the API that client-go does not know has no rows in the
		// table, but its metadata and that of a list's items is where it
		// always is.
		if kind == "List" || p.Table.Node(group, base) != nil && len(p.Table.Node(group, base).Fields) > 0 {
			return nil, fmt.Errorf("%w: no protobuf is known for %s %s", ErrMalformed, apiVersion, kind)
		}
		if base != kind {
			t = reflect.TypeFor[metav1.PartialObjectMetadataList]()
		} else {
			t = reflect.TypeFor[metav1.PartialObjectMetadata]()
		}
	}
	key := protoPlanKey{apiVersion, kind, group, base}
	if known, ok := p.Table.protos.known.Load(key); ok {
		return known.(*protoKind), nil //nolint:errcheck // nothing else is in it
	}
	plan, err := compileKind(t, p.Table.Node(group, base))
	if err == nil && registered {
		plan.shape = shapeOf(t, map[reflect.Type]*protoShape{})
		p.Table.protos.known.Store(key, plan)
	}
	return plan, err
}

// compileStatus is the plan of a Status.
func compileStatus() (*protoPlan, error) {
	text := &Node{Op: references.Text}
	causes := &Node{Fields: map[string]*Node{"message": text}}
	var plans [2]*protoPlan
	for i, details := range []map[string]*Node{{"causes": causes}, {"causes": causes, "name": text}} {
		plan, err := compileMessage(reflect.TypeFor[metav1.Status](), &Node{Fields: map[string]*Node{
			"message": text, "details": {Fields: details},
		}})
		if err != nil {
			return nil, err
		}
		plans[i] = plan
	}
	plans[0].fields[statusDetails].named = plans[1].fields[statusDetails].message
	return plans[0], nil
}

func compileKind(t reflect.Type, node *Node) (*protoKind, error) {
	if element, number, ok := itemsOf(t); ok {
		object, err := compileObject(element, node)
		if err != nil {
			return nil, err
		}
		list := &protoPlan{}
		list.set(number, &protoField{repeated: true, item: object})
		if meta, ok := t.FieldByName("ListMeta"); ok {
			if number, ok := protoNumber(meta); ok {
				list.set(number, &protoField{listMeta: true})
			}
		}
		return &protoKind{object: list, list: true}, nil
	}
	object, err := compileObject(t, node)
	return &protoKind{object: object}, err
}

// itemsOf finds the elements of a list of objects.
func itemsOf(t reflect.Type) (element reflect.Type, number protowire.Number, ok bool) {
	if t.Kind() != reflect.Struct {
		return nil, 0, false
	}
	meta, ok := t.FieldByName("ListMeta")
	items, has := t.FieldByName("Items")
	if !ok || !has || meta.Type != listMetaType || items.Type.Kind() != reflect.Slice {
		return nil, 0, false
	}
	number, _ = protoNumber(items)
	return items.Type.Elem(), number, number > 0
}

func compileObject(t reflect.Type, node *Node) (*protoPlan, error) {
	if t.Kind() != reflect.Struct || t.Name() == "RawExtension" {
		return nil, fmt.Errorf("%w: no protobuf is known for %s", ErrMalformed, t)
	}
	plan, err := compileMessage(t, node)
	if err != nil {
		return nil, err
	}
	if plan == nil {
		plan = &protoPlan{}
	}
	if meta, ok := t.FieldByName("ObjectMeta"); ok && meta.Type == objectMetaType {
		number, ok := protoNumber(meta)
		if !ok {
			return nil, fmt.Errorf("%w: the metadata of %s has no protobuf tag", ErrMalformed, t)
		}
		var below *protoPlan
		if f := plan.field(number); f != nil {
			below = f.message
		}
		plan.set(number, &protoField{meta: true, message: below})
	}
	return plan, nil
}

// compileMessage is nil when there is nothing to do in a message of the type.
func compileMessage(t reflect.Type, node *Node) (*protoPlan, error) {
	if node == nil || len(node.Fields) == 0 {
		return nil, nil
	}
	plan := &protoPlan{}
	for i := range t.NumField() {
		sf := t.Field(i)
		number, tagged := protoNumber(sf)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		inline := name == "" && (sf.Anonymous || strings.Contains(options, "inline"))
		switch {
		case !tagged:
			// TypeMeta is in the envelope, not in the message.
			continue
		case inline:
			// JSON lays the fields of the embedded struct flat, protobuf has
			// a message for it.
			below, err := compileMessage(deref(sf.Type), node)
			if err != nil {
				return nil, err
			}
			if below != nil {
				plan.set(number, &protoField{message: below})
			}
		default:
			child := node.Fields[name]
			if child == nil {
				continue
			}
			f, err := compileField(sf.Type, child)
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", t, sf.Name, err)
			}
			if f != nil {
				plan.set(number, f)
			}
		}
	}
	if len(plan.fields) == 0 {
		return nil, nil
	}
	return plan, nil
}

func compileField(t reflect.Type, node *Node) (*protoField, error) {
	t = deref(t)
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil, fmt.Errorf("%w: bytes cannot be translated", ErrMalformed)
		}
		f, err := compileField(t.Elem(), node)
		if f == nil || err != nil {
			return nil, err
		}
		f.repeated = true
		if marshals(t) {
			// A named list is a message of its own, whose items are field 1.
			wrapper := &protoPlan{}
			wrapper.set(1, f)
			return &protoField{message: wrapper}, nil
		}
		return f, nil
	case reflect.Map:
		return compileMap(t, node)
	case reflect.String:
		switch node.Op {
		case references.Namespace, references.ClusterName, references.Text, references.User, references.Group:
			return &protoField{op: node.Op}, nil
		case references.None:
			return nil, nil
		}
	case reflect.Struct:
		switch node.Op {
		case references.None:
			if t == rawType {
				raw := &protoPlan{}
				raw.set(rawExtensionRaw, &protoField{json: node})
				return &protoField{message: raw}, nil
			}
			if marshalsItself(t) && len(node.Fields) > 0 {
				return nil, fmt.Errorf("%w: there is nothing to translate in %s", ErrMalformed, t)
			}
			plan, err := compileMessage(t, node)
			if plan == nil || err != nil {
				return nil, err
			}
			return &protoField{message: plan}, nil
		case references.Ref, references.Subject:
			return &protoField{op: node.Op, ref: refOf(t)}, nil
		case references.NamespaceSelector:
			if t == reflect.TypeFor[metav1.LabelSelector]() {
				return &protoField{op: node.Op}, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: operation %d does not fit the type %s", ErrMalformed, node.Op, t)
}

func compileMap(t reflect.Type, node *Node) (*protoField, error) {
	if node.Op == references.Extra || node.Op == references.NamespaceLabels {
		return &protoField{op: node.Op, repeated: true}, nil
	}
	f := &protoField{repeated: true, keys: map[string]*protoField{}}
	for key, child := range node.Fields {
		value, err := compileField(t.Elem(), child)
		if err != nil {
			return nil, err
		}
		if value != nil {
			f.keys[key] = value
		}
	}
	if len(f.keys) == 0 {
		return nil, nil
	}
	return f, nil
}

func refOf(t reflect.Type) *protoRef {
	ref := &protoRef{}
	for i := range t.NumField() {
		number, _ := protoNumber(t.Field(i))
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch name {
		case "kind":
			ref.kind = number
		case "apiVersion":
			ref.apiVersion = number
		case "apiGroup":
			ref.apiGroup = number
		case "name":
			ref.name = number
		case "namespace":
			ref.namespace = number
		}
	}
	return ref
}

func protoNumber(f reflect.StructField) (protowire.Number, bool) {
	_, rest, ok := strings.Cut(f.Tag.Get("protobuf"), ",")
	if !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 {
		return 0, false
	}
	return protowire.Number(n), true
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// marshals tells types that are messages though they are no structs.
func marshals(t reflect.Type) bool {
	type marshaler interface{ Marshal() ([]byte, error) }
	m := reflect.TypeFor[marshaler]()
	return t.Implements(m) || reflect.PointerTo(t).Implements(m)
}

// marshalsItself tells structs whose message is not made of their fields.
func marshalsItself(t reflect.Type) bool {
	for i := range t.NumField() {
		if _, ok := protoNumber(t.Field(i)); ok {
			return false
		}
	}
	return true
}

// typeOf is the Go type of a kind of the API, nil for one that is not known.
func typeOf(gvk schema.GroupVersionKind) reflect.Type {
	if t, ok := definitionTypes()[gvk]; ok {
		return t
	}
	return scheme.Scheme.AllKnownTypes()[gvk]
}

// definitionTypes are the types of CRDs, which are
// not in the scheme of client-go.
func definitionTypes() map[schema.GroupVersionKind]reflect.Type {
	return map[schema.GroupVersionKind]reflect.Type{
		apiextensionsv1.SchemeGroupVersion.WithKind(
			"CustomResourceDefinition"): reflect.TypeFor[apiextensionsv1.CustomResourceDefinition](),
		apiextensionsv1.SchemeGroupVersion.WithKind(
			"CustomResourceDefinitionList"): reflect.TypeFor[apiextensionsv1.CustomResourceDefinitionList](),
	}
}
