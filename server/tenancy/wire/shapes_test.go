package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// shown is what an answer has of an object: its metadata, and the space that JSON says
// beside it.
type shownObject struct {
	meta   metav1.ObjectMeta
	tenant string
}

// TestEveryShapeShowsTheSameObject: alone, in a list, in a table and in an event, whole
// or its metadata only, in every encoding, whole or in pieces, an object is the same.
func TestEveryShapeShowsTheSameObject(t *testing.T) {
	for gvk, typ := range protoTypes(t) {
		t.Run(gvk.String(), func(t *testing.T) {
			p, r := protoProjector("t1"), protoResource(gvk)
			apiVersion := gvk.GroupVersion().String()
			inwards := must(p.Proto(In, r, seal(t, apiVersion, gvk.Kind, fillObject(typ, r, 1))))(t)
			object := unseal(t, inwards, reflect.New(typ).Interface().(protoMessage))
			want := fromJSON(t, must(p.JSON(Out, r, typed(t, apiVersion, gvk.Kind, object)))(t))
			//lint:ignore SA1019 tenants see one
			if want.tenant != "t1" || !strings.Contains(want.meta.SelfLink, "/tenants/t1/") {
				t.Fatalf("alone it is %+v", want)
			}
			for name, got := range shapes(t, p, r, gvk, object) {
				if strings.Contains(name, "JSON") || strings.Contains(name, "YAML") {
					if got.tenant != want.tenant {
						t.Errorf("%s: of tenant %q", name, got.tenant)
					}
				}
				if !apiequality.Semantic.DeepEqual(got.meta, want.meta) {
					t.Errorf("%s: %+v\nwant %+v", name, got.meta, want.meta)
				}
			}
		})
	}
}

// shapes are the object in all answers that have it.
func shapes(t *testing.T, p *Projector, r Resource, gvk schema.GroupVersionKind,
	object protoMessage) map[string]shownObject {
	t.Helper()
	apiVersion := gvk.GroupVersion().String()
	const metaVersion = "meta.k8s.io/v1"
	partial := metav1.PartialObjectMetadata{ObjectMeta: *metaOf(object)}
	// Long lists go another way than short ones.
	const many = 400
	few, long := &metav1.PartialObjectMetadataList{}, &metav1.PartialObjectMetadataList{}
	few.Items = append(few.Items, partial)
	for range many {
		long.Items = append(long.Items, partial)
	}
	p.Listed = func() (Listed, bool) {
		return Listed{Items: many, Names: many * (len(partial.Name) + len(partial.Namespace))}, true
	}
	out := map[string]shownObject{
		"object in protobuf": fromProto(t, must(p.Proto(Out, r, seal(t, apiVersion, gvk.Kind, object)))(t), object),
		"partial in protobuf": fromProto(t, must(p.Proto(Out, r, seal(t, metaVersion, "PartialObjectMetadata",
			&partial)))(t),
			&metav1.PartialObjectMetadata{}),
		"partial in JSON": fromJSON(t, must(p.JSON(Out, r, typed(t, metaVersion, "PartialObjectMetadata",
			&partial)))(t)),
		"object in YAML": fromJSON(t, fromYAML(t, must(p.YAML(r, inYAML(t, typed(t, apiVersion, gvk.Kind,
			object))))(t))),
	}
	lists := map[string]*metav1.PartialObjectMetadataList{"short": few, "long": long}
	for name, list := range lists {
		inJSON := typed(t, metaVersion, "PartialObjectMetadataList", list)
		inProto := seal(t, metaVersion, "PartialObjectMetadataList", list)
		for answer, bodies := range map[string][2][]byte{
			"whole": {must(p.JSON(Out, r, inJSON))(t), must(p.Proto(Out, r, inProto))(t)},
			"pieces": {answered(t, p, r, "application/json", false, inJSON), answered(t, p, r, protoMedia,
				false, inProto)},
		} {
			items := itemsOfJSON(t, bodies[0], "items")
			got := unseal(t, bodies[1], &metav1.PartialObjectMetadataList{})
			if len(items) != len(list.Items) || len(got.Items) != len(list.Items) {
				t.Fatalf("%s list in %s: %d and %d items", name, answer, len(items), len(got.Items))
			}
			for _, i := range []int{0, len(items) - 1} {
				at := fmt.Sprintf("item %d of a %s list in %s in ", i, name, answer)
				out[at+"JSON"] = fromJSON(t, items[i])
				out[at+"protobuf"] = shownObject{meta: got.Items[i].ObjectMeta}
			}
		}
	}
	if whole := listOf(t, gvk, object); whole != nil {
		got := fromTypedList(t, must(p.Proto(Out, r, seal(t, apiVersion, gvk.Kind+"List", whole)))(t), whole)
		out["item of a list of whole objects in protobuf"] = got
		out["item of a list of whole objects in JSON"] = fromJSON(t, itemsOfJSON(t,
			must(p.JSON(Out, r, typed(t, apiVersion, gvk.Kind+"List", whole)))(t), "items")[0])
	}
	row := typed(t, metaVersion, "PartialObjectMetadata", &partial)
	table := fmt.Sprintf(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[],`+
		`"rows":[{"cells":[],"object":%s}]}`, row)
	rows := itemsOfJSON(t, must(p.JSON(Out, r, []byte(table)))(t), "rows")
	var of struct{ Object json.RawMessage }
	decode(t, rows[0], &of)
	out["row of a table in JSON"] = fromJSON(t, of.Object)

	event := fmt.Sprintf(`{"type":"ADDED","object":%s}`, typed(t, apiVersion, gvk.Kind, object))
	decode(t, answered(t, p, r, "application/json", true, []byte(event+"\n")), &of)
	out["event in JSON"] = fromJSON(t, of.Object)
	sent := metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: seal(t, apiVersion, gvk.Kind, object)}}
	frame := must(sent.Marshal())(t)
	frame = answered(t, p, r, protoMedia, true, append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))),
		frame...))
	var got metav1.WatchEvent
	if err := got.Unmarshal(frame[4:]); err != nil {
		t.Fatal(err)
	}
	out["event in protobuf"] = fromProto(t, got.Object.Raw, object)
	return out
}

// typed is an object in JSON with its type.
func typed(t *testing.T, apiVersion, kind string, object any) []byte {
	t.Helper()
	b := must(json.Marshal(object))(t)
	rest, ok := bytes.CutPrefix(b, []byte("{"))
	if !ok || bytes.HasPrefix(rest, []byte(`"kind"`)) {
		t.Fatalf("%.100s", b)
	}
	return append([]byte(fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, kind, apiVersion)), rest...)
}

func decode(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%v: %.300s", err, b)
	}
}

func fromJSON(t *testing.T, b []byte) shownObject {
	t.Helper()
	var o metav1.PartialObjectMetadata
	var more struct{ Metadata struct{ Tenant string } }
	decode(t, b, &o)
	decode(t, b, &more)
	return shownObject{o.ObjectMeta, more.Metadata.Tenant}
}

func inYAML(t *testing.T, b []byte) []byte { t.Helper(); return must(yaml.JSONToYAML(b))(t) }

func fromYAML(t *testing.T, b []byte) []byte { t.Helper(); return must(yaml.YAMLToJSON(b))(t) }

// fromProto reads an object of the type of like.
func fromProto(t *testing.T, b []byte, like protoMessage) shownObject {
	t.Helper()
	into := reflect.New(reflect.TypeOf(like).Elem()).Interface().(protoMessage)
	return shownObject{meta: *metaOf(unseal(t, b, into))}
}

// itemsOfJSON are those of a list, or the rows of a table.
func itemsOfJSON(t *testing.T, b []byte, key string) (items []json.RawMessage) {
	t.Helper()
	var list map[string]json.RawMessage
	decode(t, b, &list)
	decode(t, list[key], &items)
	return items
}

// listOf is a list of the object, nil for a kind that has none.
func listOf(t *testing.T, gvk schema.GroupVersionKind, object protoMessage) protoMessage {
	t.Helper()
	typ, ok := scheme.Scheme.AllKnownTypes()[gvk.GroupVersion().WithKind(gvk.Kind+"List")]
	if !ok {
		return nil
	}
	list := reflect.New(typ)
	items := list.Elem().FieldByName("Items")
	items.Set(reflect.Append(items, reflect.ValueOf(object).Elem()))
	return list.Interface().(protoMessage)
}

func fromTypedList(t *testing.T, b []byte, like protoMessage) shownObject {
	t.Helper()
	list := unseal(t, b, reflect.New(reflect.TypeOf(like).Elem()).Interface().(protoMessage))
	item := reflect.ValueOf(list).Elem().FieldByName("Items").Index(0)
	return shownObject{meta: *metaOf(item.Addr().Interface())}
}

// answered is an answer that is translated while it is written.
func answered(t *testing.T, p *Projector, r Resource, media string, watch bool, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	s, err := p.Stream(media, r, watch, &out)
	if err != nil {
		t.Fatal(err)
	}
	copyChunks(t, s, body, 1500)
	return out.Bytes()
}

// TestListsSayWhereTheyAre: the selfLink of a list has the namespace of the request.
func TestListsSayWhereTheyAre(t *testing.T) {
	//lint:ignore SA1019 tenants see one
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "7", SelfLink: "/other"}}
	for _, c := range []struct {
		r            Resource
		tenant, want string
	}{
		{Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}, "t1", "/api/v1/tenants/t1/pods"},
		{Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true, Of: "default"}, "t1",
			"/api/v1/tenants/t1/namespaces/default/pods"},
		{Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true,
			Of: "a"}, "t1",
			"/apis/apps/v1/tenants/t1/namespaces/a/deployments"},
		{Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}, "all", "/api/v1/tenants/all/pods"},
	} {
		p := protoProjector(c.tenant)
		body := must(p.JSON(Out, c.r, typed(t, "meta.k8s.io/v1", "PartialObjectMetadataList", list)))(t)
		var inJSON metav1.PartialObjectMetadataList
		decode(t, body, &inJSON)
		inProto := unseal(t, must(p.Proto(Out, c.r, seal(t, "meta.k8s.io/v1", "PartialObjectMetadataList", list)))(t),
			&metav1.PartialObjectMetadataList{})
		for _, got := range []metav1.ListMeta{inJSON.ListMeta, inProto.ListMeta} {
			//lint:ignore SA1019 tenants see one
			if got.SelfLink != c.want || got.ResourceVersion != "7" {
				t.Errorf("%+v: %+v", c, got)
			}
		}
	}
}
