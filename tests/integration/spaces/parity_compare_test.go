package spaces_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

const parityProtobuf = "application/vnd.kubernetes.protobuf"

// parityScheme has what the API speaks in protobuf.
func parityScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsscheme.AddToScheme,
		metav1.AddMetaToScheme, metricsv1beta1.AddToScheme, tenantapi.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the types do not change while the test runs
		}
	}
	return s
}

// parityDecoder makes trees of what answers carry.
type parityDecoder struct{ proto *protobuf.Serializer }

func newParityDecoder() *parityDecoder {
	s := parityScheme()
	return &parityDecoder{proto: protobuf.NewSerializer(s, s)}
}

// tree is an answer as maps, lists and scalars, for comparison: what differs by
// nature is taken out.
func (d *parityDecoder) tree(a *parityAnswer) map[string]any {
	header := map[string]any{}
	for name, values := range a.header {
		switch name {
		case "Date", "Content-Length", "Sec-Websocket-Accept", "Connection", "Upgrade",
			// Which queue a request waited in, if in any, is the cluster's affair.
			"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid":
			continue
		case "Audit-Id", "Etag", "Last-Modified", "Expires":
			header[name] = "<set>"
			continue
		}
		header[name] = scrubbed(strings.Join(values, "\n"))
	}
	out := map[string]any{"code": strconv.Itoa(a.code), "header": header, "ended": a.ended}
	media, params, _ := mime.ParseMediaType(a.header.Get("Content-Type")) //nolint:errcheck // then it is text
	body := a.body
	if a.header.Get("Content-Encoding") != "" {
		body = nil // what is compressed, and whether, is compared by the header
	}
	stream := params["stream"] == "watch"
	var tree any
	switch {
	case a.frames != nil:
		var list []any
		for _, f := range a.frames {
			if raw, err := base64.StdEncoding.DecodeString(string(f)); err == nil {
				f = raw
			}
			if bytes.HasPrefix(f, []byte("{")) {
				list = append(list, d.document(media, f))
				continue
			}
			list = append(list, d.protoEvent(f))
		}
		tree = list
	case len(body) == 0:
	case stream || media == "application/json" && !a.ended:
		tree = d.events(media, body)
	default:
		tree = d.document(media, body)
	}
	if event, ok := tree.(map[string]any); ok && len(event) == 2 && event["type"] != nil && event["object"] != nil {
		tree = []any{event} // a watch of one event
	}
	out["body"] = natural(tree, "")
	if body, ok := out["body"].(map[string]any); ok && body["kind"] == "APIResourceList" {
		// Definitions come in the order of a map.
		list, _ := body["resources"].([]any)
		slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	}
	return out
}

// nameOf is the name of an element of a list.
func nameOf(item any) string {
	object, _ := item.(map[string]any)
	if meta, ok := object["metadata"].(map[string]any); ok {
		object = meta
	}
	name, _ := object["name"].(string)
	return name
}

// document is one object.
func (d *parityDecoder) document(media string, b []byte) any {
	if bytes.HasPrefix(b, []byte("k8s\x00")) {
		object, _, err := d.proto.Decode(b, nil, nil)
		if err != nil {
			var unknown runtime.Unknown
			if err := unknown.Unmarshal(b[4:]); err != nil {
				return "unreadable protobuf"
			}
			return map[string]any{"apiVersion": unknown.APIVersion, "kind": unknown.Kind,
				"raw": strconv.Quote(string(unknown.Raw))}
		}
		if b, err = json.Marshal(object); err != nil {
			return "unreadable protobuf"
		}
	} else if media == "application/yaml" {
		if asJSON, err := yaml.YAMLToJSON(b); err == nil {
			b = asJSON
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return string(b)
	}
	if decoder.More() {
		return d.events(media, b)
	}
	return tree
}

// events are those of a watch.
func (d *parityDecoder) events(media string, body []byte) any {
	list := []any{}
	switch media {
	case parityProtobuf:
		for len(body) >= 4 {
			n := int(body[0])<<24 | int(body[1])<<16 | int(body[2])<<8 | int(body[3])
			if n > len(body)-4 {
				break
			}
			list = append(list, d.protoEvent(body[4:4+n]))
			body = body[4+n:]
		}
	default:
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		for {
			var tree any
			if err := decoder.Decode(&tree); err != nil {
				if err != io.EOF && err != io.ErrUnexpectedEOF {
					return string(body)
				}
				break
			}
			list = append(list, tree)
		}
	}
	return list
}

func (d *parityDecoder) protoEvent(b []byte) any {
	var event metav1.WatchEvent
	if err := event.Unmarshal(b); err != nil {
		// It is wrapped like other objects.
		var unknown runtime.Unknown
		if !bytes.HasPrefix(b, []byte("k8s\x00")) || unknown.Unmarshal(b[4:]) != nil ||
			event.Unmarshal(unknown.Raw) != nil {
			return "unreadable event"
		}
	}
	return map[string]any{"type": event.Type, "object": d.document(parityProtobuf, event.Object.Raw)}
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(
		`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?(Z|[+-]\d\d:?\d\d)( [A-Z]+)?)?( m=[+-][\d.]+)?`)
	volumes   = regexp.MustCompile(`\bkube-api-access-[a-z0-9]{5}\b`)
	certs     = regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`)
	generated = regexp.MustCompile(`\b(gen(?:\.x)?-|g{50,})[bcdfghjklmnpqrstvwxz2456789]{5,10}\b`)
	addresses = regexp.MustCompile(`\b10\.43\.\d+\.\d+\b`)
	nodePorts = regexp.MustCompile(`:3[0-2]\d{3}/`)
	revisions = regexp.MustCompile(`((current: |in object meta: |resourceVersion: |resource version: ` +
		`|\()|resourceVersion\\*":\\*")\d+\b`)
	ages       = regexp.MustCompile(`^((\d+[smhdy])+|<unknown>|<invalid>)( ago)?$`)
	tokens     = regexp.MustCompile(`^eyJ[\w-]+\.(eyJ[\w-]+)\.[\w-]+$`)
	pointers   = regexp.MustCompile(`0x[0-9a-f]{6,}`)
	initialEnd = metav1.InitialEventsAnnotationKey
)

// scrubbed is a text without what differs by nature.
func scrubbed(s string) string {
	s = uuids.ReplaceAllString(s, "<uid>")
	s = times.ReplaceAllString(s, "<time>")
	s = generated.ReplaceAllString(s, "$1<generated>")
	s = volumes.ReplaceAllString(s, "kube-api-access-<generated>")
	s = certs.ReplaceAllString(s, "X509SHA256=<hash>")
	s = addresses.ReplaceAllString(s, "<address>")
	s = nodePorts.ReplaceAllString(s, ":<port>/")
	s = pointers.ReplaceAllString(s, "<pointer>")
	return revisions.ReplaceAllString(s, "$1<revision>")
}

// natural is a tree without what differs by nature: identities, times, what is
// given out or made up. key is under what it stands.
func natural(node any, key string) any {
	switch n := node.(type) {
	case map[string]any:
		out := make(map[string]any, len(n))
		for k, v := range n {
			out[scrubbed(k)] = natural(v, k)
		}
		return out
	case []any:
		var out []any
		for _, v := range n {
			if isBookmark(v) {
				continue // it comes when the server likes
			}
			out = append(out, natural(v, key))
		}
		if key == "managedFields" {
			// They are in the order of times, and those of one second in that of managers.
			slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(managerOf(a), managerOf(b)) })
		}
		return out
	case json.Number:
		if key == "nodePort" || key == "healthCheckNodePort" {
			return "<port>"
		}
		return n.String()
	case string:
		switch key {
		case "resourceVersion":
			if n != "" && n != "0" {
				return "<revision>"
			}
		case "continue":
			if n != "" {
				return "<continue>"
			}
		case "cells":
			if ages.MatchString(n) {
				return "<age>"
			}
		}
		if claims := tokens.FindStringSubmatch(n); claims != nil {
			if raw, err := base64.RawURLEncoding.DecodeString(claims[1]); err == nil {
				var tree map[string]any
				if json.Unmarshal(raw, &tree) == nil {
					for _, k := range []string{"exp", "iat", "nbf"} {
						tree[k] = "<time>"
					}
					return map[string]any{"claims": natural(tree, "")}
				}
			}
		}
		return scrubbed(n)
	}
	return node
}

// managerOf is who an entry of managedFields is about.
func managerOf(entry any) string {
	fields, _ := entry.(map[string]any)
	return fmt.Sprint(fields["manager"], fields["operation"], fields["subresource"], fields["apiVersion"])
}

// isBookmark tells the events that only say how far a watch is.
func isBookmark(node any) bool {
	event, _ := node.(map[string]any)
	if event["type"] != "BOOKMARK" {
		return false
	}
	object, _ := event["object"].(map[string]any)
	if rows, ok := object["rows"].([]any); ok && len(rows) == 1 { // a table
		row, _ := rows[0].(map[string]any)
		object, _ = row["object"].(map[string]any)
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations[initialEnd] == nil
}

// difference is a place where two trees differ.
type difference struct {
	path string
	a, b any
}

func (d difference) String() string {
	show := func(v any) string {
		if v == nil {
			return "nothing"
		}
		out, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		if len(out) > 600 {
			out = append(out[:600], "..."...)
		}
		return string(out)
	}
	return fmt.Sprintf("%s\n\t\tsystem: %s\n\t\ttenant: %s", d.path, show(d.a), show(d.b))
}

// differ appends where two trees differ, a few places at most.
func differ(path string, a, b any, into []difference) []difference {
	if len(into) > 20 {
		return into
	}
	if isEmpty(a) && isEmpty(b) {
		return into
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Collect(maps.Keys(x))
		for k := range y {
			if _, ok := x[k]; !ok {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			in, inX := x[k]
			other, inY := y[k]
			if inX != inY {
				if in == nil && other == nil {
					continue
				}
				into = append(into, difference{path + "." + k, in, other})
				continue
			}
			into = differ(path+"."+k, in, other, into)
		}
		return into
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range max(len(x), len(y)) {
			if i >= min(len(x), len(y)) {
				return append(into, difference{path + ".#", len(x), len(y)})
			}
			into = differ(path+"."+strconv.Itoa(i), x[i], y[i], into)
		}
		return into
	default:
		if a == b {
			return into
		}
		if _, ok := b.(map[string]any); !ok {
			if _, ok := b.([]any); !ok {
				return append(into, difference{path, a, b})
			}
		}
	}
	return append(into, difference{path, a, b})
}

// outsideOfTokens is a tree without the claims of tokens.
func outsideOfTokens(node any) any {
	switch n := node.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range n {
			if k != "claims" {
				out[k] = outsideOfTokens(v)
			}
		}
		return out
	case []any:
		var out []any
		for _, v := range n {
			out = append(out, outsideOfTokens(v))
		}
		return out
	}
	return node
}

// isEmpty says what stands for nothing: which of them is written is a matter of
// the encoding.
func isEmpty(node any) bool {
	list, ok := node.([]any)
	return node == nil || ok && len(list) == 0
}

// walk visits every map in a tree, from the outside in.
func walk(node any, visit func(map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(n)
		for _, v := range n {
			walk(v, visit)
		}
	case []any:
		for _, v := range n {
			walk(v, visit)
		}
	}
}
