package spaces_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

func (g *parityMaker) create(r *parityRequest) {
	r.method = http.MethodPost
	g.existing(r)
	g.target(r)
	if !r.changes && g.chance(70) {
		r.name = fmt.Sprintf("par-n%d", g.rand.IntN(1000))
		if r.resource.name == "customresourcedefinitions" {
			r.name += "." + parityGroup
		}
	}
	r.path = r.resource.path(r.namespace, "")
	base := parityBody(r.resource, r.namespace, r.name, map[string]string{"app": g.one("web", "db")})
	if sub := g.sub(r, "create", 40); sub != "" {
		r.path = r.resource.path(r.namespace, r.name) + sub
		base = g.subBody(r, sub)
	}
	g.body(r, base)
	g.writeQuery(r)
	g.accept(r)
}

// subBody is what is posted to a sub-resource.
func (g *parityMaker) subBody(r *parityRequest, sub string) string {
	meta := `"metadata":{"name":"` + r.name + `","namespace":"` + r.namespace + `"}`
	switch sub {
	case "/eviction":
		dry := `,"deleteOptions":{"dryRun":["All"]}`
		if r.changes {
			dry = g.one("", dry, `,"deleteOptions":{"gracePeriodSeconds":0}`)
		}
		return `{"apiVersion":"policy/v1","kind":"Eviction",` + meta + dry + `}`
	case "/binding":
		return `{"apiVersion":"v1","kind":"Binding",` + meta + `,"target":{"kind":"Node","name":"nothing"}}`
	case "/token":
		return `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["` +
			g.one("x", "https://kubernetes.default.svc") + `"],"expirationSeconds":` +
			g.one("600", "3600", "1", "-1", "99999999999") +
			g.one("", "", `,"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"par-1"}`) + `}}`
	}
	return `{"apiVersion":"v1","kind":"Nothing",` + meta + `}`
}

// body gives the request a body, mostly valid, in one of the forms.
func (g *parityMaker) body(r *parityRequest, base string) {
	if g.chance(45) {
		base = g.spoilt(r, base)
	}
	r.body, r.header = g.encoded(base)
}

// encoded is a JSON text in one of the forms that the API takes, and the header
// that says which.
func (g *parityMaker) encoded(text string) (string, [][2]string) {
	media, body := "application/json", text
	switch g.rand.IntN(10) {
	case 0, 1:
		media = "application/yaml"
		if out, err := yaml.JSONToYAML([]byte(text)); err == nil && g.chance(80) {
			body = string(out)
		}
		switch g.rand.IntN(12) {
		case 0:
			body = "---\n" + body
		case 1:
			body += "\n---\n" + body
		case 2:
			body += "\nunknown: 1\nunknown: 2\n"
		case 3:
			body = "# comment\n" + body + "\n...\n"
		case 4:
			body += "\n\t\n"
		case 5:
			body = strings.Replace(body, "metadata:", "metadata: &m\n  annotations: {a: b}", 1)
		}
	case 2:
		if out, err := toParityProtobuf(text); err == nil {
			media, body = parityProtobuf, out
			if g.chance(10) {
				body = body[:g.rand.IntN(len(body))]
			}
		}
	}
	if g.chance(88) {
		return body, [][2]string{{"Content-Type", media}}
	}
	if g.chance(15) {
		return body, nil
	}
	return body, [][2]string{{"Content-Type", g.one("text/plain", media+"; charset=utf-8", strings.ToUpper(media),
		"application/json", "application/yaml", parityProtobuf, "application/cbor",
		"application/x-www-form-urlencoded", "*/*", media+";;", media+", text/plain", "", "x",
		"application/json;as=Table;v=v1;g=meta.k8s.io", "application/strategic-merge-patch+json")}}
}

// toParityProtobuf encodes an object of a kind that is built in.
func toParityProtobuf(text string) (string, error) {
	s := parityScheme()
	object, err := runtime.Decode(serializer.NewCodecFactory(s).UniversalDeserializer(), []byte(text))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := protobuf.NewSerializer(s, s).Encode(object, &out); err != nil {
		return "", err
	}
	return out.String(), nil
}

// spoilt is a body with something wrong, or unusual, in it.
func (g *parityMaker) spoilt(r *parityRequest, base string) string {
	change := func(edit func(object, meta map[string]any)) string {
		var object map[string]any
		if json.Unmarshal([]byte(base), &object) != nil {
			return base
		}
		meta, _ := object["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
			object["metadata"] = meta
		}
		edit(object, meta)
		out, err := json.Marshal(object)
		if err != nil {
			return base
		}
		return string(out)
	}
	set := func(key string, value any) string {
		return change(func(_, meta map[string]any) { meta[key] = value })
	}
	top := func(key string, value any) string {
		return change(func(object, _ map[string]any) { object[key] = value })
	}
	switch g.rand.IntN(37) {
	case 0:
		return strings.Replace(base, `{`, `{"kind":"`+r.resource.kind+`",`, 1) // twice
	case 1:
		return strings.Replace(base, `"metadata":{`, `"metadata":{"name":"other",`, 1)
	case 2:
		return strings.Replace(base, `"metadata":{`, `"metadata":{"annotations":{"a":"b","a":"c"},`, 1)
	case 3:
		return top("unknown", 1)
	case 4:
		return set("unknown", map[string]any{"a": 1})
	case 5:
		return strings.Replace(base, `"spec":{`, `"spec":{"unknown":1,`, 1)
	case 6:
		return strings.Replace(base, `"spec":{`, `"spec":{"unknown":1,"unknown":2,`, 1)
	case 7:
		return top("spec", g.wrong())
	case 8:
		return top("metadata", g.wrong())
	case 9:
		return set(g.one("name", "labels", "annotations", "namespace", "finalizers", "ownerReferences",
			"resourceVersion", "creationTimestamp", "managedFields", "uid", "generation"), g.wrong())
	case 10:
		return base[:g.rand.IntN(len(base))]
	case 11:
		return base + g.one("x", base, "}", " ", "\n", "null", "\x00")
	case 12:
		return top("kind", g.one("Nothing", "Pod", "", "Secret", strings.ToLower(r.resource.kind), "List",
			"Status", "DeleteOptions"))
	case 13:
		return top("apiVersion", g.one("v1", "apps/v1", "", "v9", "none/v1", "a/b/c", parityGroup+"/v1"))
	case 14:
		return change(func(object, _ map[string]any) {
			delete(object, g.one("kind", "apiVersion", "metadata", "spec"))
		})
	case 15:
		return set("namespace", g.one("par-b", "default", "nothing", "", "a.b", "PAR-A", "..", "par-a "))
	case 16:
		return set("name",
			g.one("other", "", "Name", "a.b", "a/b", "..", "%2e", strings.Repeat("n", 253), strings.Repeat("n", 254),
				"a_b", "ä", "par-1.tenant", "-a", "a b", strings.Repeat("n", 63), strings.Repeat("n", 64)))
	case 17, 18:
		return change(func(_, meta map[string]any) {
			delete(meta, "name")
			meta["generateName"] = g.one("gen-", "gen-", "gen-", "Gen-", "", "gen.x-", strings.Repeat("g", 260)+"-")
		})
	case 19:
		return g.one("", " ", "null", "[]", "1", `"x"`, "{}", "[{}]", "{", "true", "\xff\xfe", "{\"a\":\"\xff\"}")
	case 20:
		return set("labels", map[string]any{g.one("a", "a/b", "a/b/c", "", "-", strings.Repeat("l", 64),
			"app.kubernetes.io/name"): g.one("b", "", "b c", strings.Repeat("v", 64), "ä")})
	case 21:
		return set("annotations",
			map[string]any{g.one("a", "a/b", "a b", ""): g.one("b", "ä", strings.Repeat("v", 300_000), "{}", "par-a")})
	case 22:
		return set("finalizers", []any{g.one("example.com/x", "x", "", "foregroundDeletion", "orphan", "kubernetes")})
	case 23:
		return set("ownerReferences", []any{map[string]any{
			"apiVersion":         g.one("v1", "apps/v1", "", "rbac.authorization.k8s.io/v1"),
			"kind":               g.one("ConfigMap", "Deployment", "ClusterRole", "PersistentVolume", ""),
			"name":               g.one("par-1", "par-1-par-a", "view", ""),
			"uid":                g.one("00000000-0000-0000-0000-000000000001", "x", ""),
			"controller":         g.chance(50),
			"blockOwnerDeletion": g.chance(50),
		}})
	case 24:
		return set("resourceVersion", g.one("1", "0", "x", "", "999999999"))
	case 25:
		return set("deletionTimestamp", g.one("2026-01-01T00:00:00Z", "x", ""))
	case 26:
		return set("managedFields", []any{map[string]any{
			"manager":    "x",
			"operation":  g.one("Update", "Apply", "x"),
			"apiVersion": r.resource.apiVersion(),
			"fieldsType": "FieldsV1",
			"fieldsV1":   map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{}}},
		}})
	case 27:
		return set("selfLink", g.one("/x", "", "/api/v1/namespaces/par-a/pods/x"))
	case 28:
		return set("uid", g.one("00000000-0000-0000-0000-000000000001", "x"))
	case 29:
		return strings.Replace(base, `"metadata"`, g.one(`"Metadata"`, `"METADATA"`, `"meta\u0064ata"`), 1)
	case 30:
		return strings.Replace(base, `"spec"`, g.one(`"Spec"`, `"SPEC"`, `"sp\u0065c"`), 1)
	case 31:
		return top(g.one("status", "data", "items", "stringData"), map[string]any{"a": g.wrong()})
	case 32:
		return top("data", map[string]any{g.one("a", "a/b", "..", "", strings.Repeat("k", 254)): g.wrong()})
	case 33:
		return top("apiVersion", g.one("", "/", "/v1", "v1/"))
	case 34: // before and after what counts
		return strings.Replace(base, `{`,
			`{"`+g.one("Kind", "KIND", "\u212Aind", "ki\u006ed")+`":"`+g.one("Nothing", r.resource.kind)+`",`, 1)
	case 35:
		return base[:len(base)-1] + `,"` + g.one("APIVersion", "apiversion", "ap\u0069Version") + `":"` +
			g.one("v1", "", "none/v1", r.resource.apiVersion()) + `"}`
	default:
		return strings.ReplaceAll(base, `,`, g.one(" ,\n\t", " , ", ",\r\n"))
	}
}

func (g *parityMaker) wrong() any {
	return []any{nil, 1, "x", true, []any{}, map[string]any{}, []any{1}, map[string]any{"a": 1}, 1.5, -1, "",
		[]any{nil}, []any{map[string]any{}}}[g.rand.IntN(13)]
}

func (g *parityMaker) update(r *parityRequest) {
	r.method = http.MethodPut
	g.existing(r)
	g.target(r)
	sub := g.sub(r, "update", 25)
	r.path = r.resource.path(r.namespace, r.name) + sub
	if g.chance(60) && sub == "" || sub == "/status" {
		// What is there, with a change.
		kind, value := g.rand.IntN(8), g.one("x", "y", "z")
		r.header = [][2]string{{"Content-Type", "application/json"}}
		r.edit = func(live map[string]any) string { return edited(live, kind, value) }
	} else {
		base := parityBody(r.resource, r.namespace, r.name, map[string]string{"app": "web"})
		if sub == "/scale" {
			base = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"` + r.name + `","namespace":"` +
				r.namespace + `"},"spec":{"replicas":` + g.one("1", "2", "-1", `"x"`) + `}}`
		}
		g.body(r, base)
	}
	g.writeQuery(r)
	g.accept(r)
}

// edited is a live object with a change.
func edited(live map[string]any, kind int, value string) string {
	if live == nil {
		return `{}`
	}
	meta, _ := live["metadata"].(map[string]any)
	switch kind {
	case 0:
		meta["labels"] = map[string]any{"app": "web", "edited": value}
	case 1:
		meta["annotations"] = map[string]any{"edited": value}
	case 2:
		delete(meta, "resourceVersion")
		meta["annotations"] = map[string]any{"edited": value}
	case 3:
		delete(meta, "managedFields")
	case 4:
		meta["uid"] = "00000000-0000-0000-0000-000000000001"
	case 5:
		live["data"] = map[string]any{"edited": value}
	case 6:
		meta["resourceVersion"] = "1"
	}
	out, err := json.Marshal(live)
	if err != nil {
		return `{}`
	}
	return string(out)
}

func (g *parityMaker) patch(r *parityRequest) {
	r.method = http.MethodPatch
	g.existing(r)
	g.target(r)
	r.path = r.resource.path(r.namespace, r.name) + g.sub(r, "patch", 20)
	media := g.one("application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/json-patch+json", "application/apply-patch+yaml")
	switch media {
	case "application/json-patch+json":
		r.body = g.jsonPatch()
	case "application/apply-patch+yaml":
		r.body = g.applied(r)
		if g.chance(90) {
			r.query = append(r.query, "fieldManager="+g.one("me", "you"))
		}
		if g.chance(60) {
			r.query = append(r.query, g.key("force")+"="+g.truth())
		}
	default:
		r.body = g.merge()
	}
	if g.chance(6) {
		media = g.one("application/json", "", "application/apply-patch+cbor", "text/plain",
			"application/merge-patch+json;charset=utf-8", "application/patch",
			"application/apply-patch", "application/yaml")
	}
	if media != "" {
		r.header = [][2]string{{"Content-Type", media}}
	}
	g.writeQuery(r)
	g.accept(r)
}

func (g *parityMaker) merge() string {
	return g.one(`{"metadata":{"labels":{"patched":"x"}}}`, `{"metadata":{"labels":{"app":null}}}`,
		`{"metadata":{"labels":null}}`, `{"metadata":{"annotations":{"patched":"x"}}}`, `{"spec":{"unknown":1}}`,
		`{"unknown":1}`, `{"metadata":{"labels":{"a":"b","a":"c"}}}`,
		`{"unknown":1,"unknown":2}`, `{"metadata":{"name":"other"}}`, `{"metadata":{"namespace":"par-b"}}`,
		`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"uid":"x"}}`,
		`{"metadata":{"finalizers":["example.com/x"]}}`, `{"metadata":{"$patch":"replace","labels":{"a":"b"}}}`,
		`{"$patch":"delete"}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"finalizers":[]}}`,
		`{"spec":{"replicas":1}}`, `{"spec":{"replicas":"x"}}`, `{"spec":{"size":7}}`, `{"spec":{"size":10}}`,
		`{"data":{"k":"patched"}}`, `{"data":{"k":null}}`, `{"data":null}`,
		`{"spec":{"containers":[{"name":"c","image":"j"}]}}`,
		`{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`,
		`{"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"name":"c","image":"k"}]}}`,
		`{"spec":{"containers":[{"image":"j"}]}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"j"}]}}}}`,
		`{"spec":{"ports":[{"port":80,"name":"renamed"}]}}`, `{"spec":{"type":"NodePort"}}`, `{"rules":[]}`,
		`{"subjects":[{"kind":"ServiceAccount","name":"x","namespace":"par-b"}]}`, `{"kind":"Nothing"}`,
		`{"apiVersion":"v9"}`, `{"metadata":null}`, `{"metadata":1}`, `[]`, `null`, ``, `{`, `1`,
		`x: y`, `{"a":"\xff"}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"par-1",`+
			`"uid":"00000000-0000-0000-0000-000000000001"}]}}`, `{"status":{"phase":"Running"}}`,
		`{"status":{"size":2}}`, `{"metadata":{"managedFields":[]}}`, `{"metadata":{"managedFields":null}}`,
		`{"metadata":{"managedFields":[{}]}}`, `{"metadata":{"generateName":"x"}}`,
		`{"metadata":{"creationTimestamp":null}}`, `{}`)
}

func (g *parityMaker) jsonPatch() string {
	op := func() string {
		return g.one(`{"op":"add","path":"/metadata/labels/patched","value":"x"}`,
			`{"op":"remove","path":"/metadata/labels/app"}`, `{"op":"remove","path":"/metadata/labels/nothing"}`,
			`{"op":"replace","path":"/metadata/labels/app","value":"y"}`,
			`{"op":"test","path":"/metadata/labels/app","value":"web"}`,
			`{"op":"test","path":"/metadata/namespace","value":"par-a"}`,
			`{"op":"test","path":"/metadata/name","value":"par-1"}`,
			`{"op":"test","path":"/metadata/namespace","value":"x"}`,
			`{"op":"copy","from":"/metadata/name","path":"/metadata/labels/copied"}`,
			`{"op":"copy","from":"/metadata/namespace","path":"/metadata/labels/copied"}`,
			`{"op":"move","from":"/metadata/labels/app","path":"/metadata/labels/moved"}`,
			`{"op":"add","path":"/unknown","value":1}`, `{"op":"add","path":"/spec/unknown","value":{"a":1}}`,
			`{"op":"add","path":"/metadata/labels","value":{"a":"b","a":"c"}}`, `{"op":"x","path":"/a"}`,
			`{"op":"add"}`, `{"path":"/a"}`, `{"op":"add","path":"a","value":1}`,
			`{"op":"add","path":"/metadata/finalizers/-","value":"example.com/x"}`,
			`{"op":"replace","path":"/metadata/name","value":"other"}`,
			`{"op":"replace","path":"/metadata/namespace","value":"par-b"}`,
			`{"op":"replace","path":"/metadata/namespace","value":"par-a"}`,
			`{"op":"remove","path":"/metadata/namespace"}`, `{"op":"replace","path":"","value":{}}`,
			`{"op":"remove","path":""}`, `{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}`,
			`{"op":"add","path":"/metadata/annotations/a~1b","value":"c"}`,
			`{"op":"add","path":"/metadata/labels/x~2","value":"c"}`,
			`{"op":"replace","path":"/spec/containers/0/image","value":"j"}`,
			`{"op":"replace","path":"/spec/containers/9/image","value":"j"}`,
			`{"op":"replace","path":"/spec/size","value":"x"}`,
			`{"op":"replace","path":"/subjects/0/namespace","value":"par-b"}`,
			`{"op":"test","path":"/subjects/0/namespace","value":"par-a"}`,
			`{"op":"add","op":"remove","path":"/metadata/labels/app"}`,
			`{"op":"add","path":"/metadata/labels/z","value":"1","unknown":1}`, `{}`, `null`, `1`)
	}
	switch g.rand.IntN(12) {
	case 0:
		return g.one(``, `{}`, `null`, `[`, `"x"`, `[]`)
	case 1, 2, 3:
		return `[` + op() + `,` + op() + `]`
	}
	return `[` + op() + `]`
}

// applied is the body of an apply.
func (g *parityMaker) applied(r *parityRequest) string {
	base := parityBody(r.resource, r.namespace, r.name, map[string]string{"applied": g.one("x", "y")})
	if g.chance(40) {
		base = g.spoilt(r, base)
	}
	if g.chance(50) {
		if out, err := yaml.JSONToYAML([]byte(base)); err == nil {
			base = string(out)
			if g.chance(20) {
				base += g.one("\nunknown: 1\n", "\nunknown: 1\nunknown: 2\n", "\n---\n", "\n\tx\n", "\nmetadata: {}\n")
			}
		}
	}
	return base
}

func (g *parityMaker) delete(r *parityRequest) {
	r.method = http.MethodDelete
	g.existing(r)
	g.target(r)
	r.path = r.resource.path(r.namespace, r.name)
	g.deletion(r)
}

func (g *parityMaker) deleteCollection(r *parityRequest) {
	r.method = http.MethodDelete
	g.target(r)
	r.name = ""
	if r.changes && !r.resource.namespaced {
		r.changes, r.query = false, append(r.query, "dryRun=All")
	}
	if !r.changes && r.resource.namespaced && !slices.Contains(parityNamespaces(), r.namespace) {
		r.namespace = "par-a"
	}
	r.path = r.resource.path(r.namespace, "")
	g.selectors(r, 40)
	g.deletion(r)
}

// deletion adds the options of a deletion. Those in a body are in place of those
// in the query.
func (g *parityMaker) deletion(r *parityRequest) {
	if g.chance(50) {
		r.query = append(r.query, g.one("propagationPolicy=Foreground", "propagationPolicy=Background",
			"propagationPolicy=Orphan", "propagationPolicy=x", "PropagationPolicy=Orphan", "gracePeriodSeconds=0",
			"gracePeriodSeconds="+g.number(), "orphanDependents="+g.truth(),
			"propagationPolicy=Orphan&orphanDependents=true",
			"ignoreStoreReadErrorWithClusterBreakingPotential="+g.truth(), "unknown=1"))
	}
	if g.chance(45) {
		dry := `,"dryRun":["All"]`
		if r.changes {
			dry = g.one("", "", dry, `,"dryRun":["x"]`, `,"dryRun":[]`)
		}
		r.body = `{"kind":"DeleteOptions","apiVersion":"v1"` + dry +
			g.one("", "", `,"gracePeriodSeconds":0`, `,"gracePeriodSeconds":-5`, `,"gracePeriodSeconds":"x"`,
				`,"preconditions":{"uid":"00000000-0000-0000-0000-000000000001"}`,
				`,"preconditions":{"resourceVersion":"1"}`, `,"propagationPolicy":"Foreground"`,
				`,"propagationPolicy":"x"`,
				`,"unknown":1`, `,"orphanDependents":true,"propagationPolicy":"Orphan"`,
				`,"gracePeriodSeconds":1,"gracePeriodSeconds":2`) + `}`
		if g.chance(10) {
			r.body = g.one(`{`, `[]`, `{"kind":"Pod","apiVersion":"v1"}`, `x: [`,
				`{"kind":"DeleteOptions","apiVersion":"v9","dryRun":["All"]}`)
		}
		r.header = [][2]string{{"Content-Type",
			g.one("application/json", "application/json", "application/yaml", "text/plain", "application/cbor")}}
	}
	if g.chance(15) {
		r.query = append(r.query, "fieldValidation=Strict")
	}
	g.accept(r)
}
