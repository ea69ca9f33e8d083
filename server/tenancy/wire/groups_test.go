package wire

//lint:file-ignore SA1019 Endpoints are deprecated, and the seed has the groups in them

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/space"
)

const groupsAnnotation = "a4s.io/service-groups"

func groupsProjector() *Projector {
	p := protoProjector(space.All)
	p.Composite, p.Groups = true, groupsAnnotation
	return p
}

// endpointsOf has a subset for each address.
func endpointsOf(namespace, name, groups string, ips ...string) *corev1.Endpoints {
	e := &corev1.Endpoints{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if groups != "-" {
		e.Annotations = map[string]string{"a": "b", groupsAnnotation: groups, "z": "0,1"}
	}
	for _, ip := range ips {
		e.Subsets = append(e.Subsets, corev1.EndpointSubset{
			Addresses: []corev1.EndpointAddress{{IP: ip}}, Ports: []corev1.EndpointPort{{Port: 6443}}})
	}
	return e
}

// groupCases are Endpoints and the groups that are shown of them.
var groupCases = []struct {
	name string
	in   *corev1.Endpoints
	want []string
}{
	{"two groups", endpointsOf("default", "kubernetes", "0,one", "192.0.2.1", "192.0.2.2"), []string{"0", "one"}},
	{"one group", endpointsOf("default", "kubernetes", "1", "192.0.2.1"), []string{"1"}},
	{"no annotation", endpointsOf("default", "kubernetes", "-", "192.0.2.1"), []string{""}},
	{"an annotation of before", endpointsOf("default", "kubernetes", "0,1", "192.0.2.1"), []string{""}},
	{"too few", endpointsOf("default", "kubernetes", "0", "192.0.2.1", "192.0.2.2"), []string{"", ""}},
	{"nobody", endpointsOf("default", "kubernetes", "0"), nil},
	{"another name", endpointsOf("default", "web", "0", "192.0.2.1"), []string{""}},
	{"another namespace", endpointsOf("kube-system", "kubernetes", "0", "192.0.2.1"), []string{""}},
	{"a tenant's", endpointsOf("default.t1", "kubernetes", "0", "192.0.2.1"), []string{""}},
}

func jsonOf(t *testing.T, obj any) []byte {
	t.Helper()
	out, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func inProto(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// jsonGroups are those in Endpoints.
func jsonGroups(t *testing.T, body []byte) (out []string) {
	t.Helper()
	var e struct {
		Subsets []struct {
			Addresses      []struct{ IP string }
			Ports          []struct{ Port int }
			ServiceGroupID string `json:"serviceGroupId"`
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, s := range e.Subsets {
		if len(s.Addresses) != 1 || s.Ports[0].Port != 6443 {
			t.Errorf("something is missing: %s", body)
		}
		out = append(out, s.ServiceGroupID)
	}
	return out
}

func TestGroupsInJSON(t *testing.T) {
	p := groupsProjector()
	items := []corev1.Endpoints{}
	for _, c := range groupCases {
		items = append(items, *c.in)
		for _, indent := range []string{"", "  "} {
			body := jsonOf(t, c.in)
			if indent != "" {
				var pretty bytes.Buffer
				if err := json.Indent(&pretty, body, "", indent); err != nil {
					t.Fatal(err)
				}
				body = pretty.Bytes()
			}
			out, err := p.JSON(Out, Resource{}, body)
			if err != nil {
				t.Fatal(err)
			}
			if got := jsonGroups(t, out); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: %q in %s", c.name, got, out)
			}
			if strings.Join(c.want, "") == "" && !bytes.Equal(out, body) {
				t.Errorf("%s: %s became %s", c.name, body, out)
			}
		}
		asYAML, err := p.YAML(Resource{}, jsonOf(t, c.in))
		if err != nil || bytes.Count(asYAML, []byte("serviceGroupId: ")) != shownOf(c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, asYAML)
		}
		event := `{"type":"ADDED","object":` + string(jsonOf(t, c.in)) + "}\n"
		got := inPieces(t, p, "application/json", true, []byte(event))
		var e struct{ Object json.RawMessage }
		if err := json.Unmarshal(got, &e); err != nil {
			t.Fatal(err)
		}
		if got := jsonGroups(t, e.Object); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q in a watch", c.name, got)
		}
	}
	list := jsonOf(t, &corev1.EndpointsList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EndpointsList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: items})
	whole, err := p.JSON(Out, Resource{}, list)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{whole, inPieces(t, p, "application/json", false, list)} {
		var l struct {
			Metadata struct{ ResourceVersion string }
			Items    []json.RawMessage
		}
		if err := json.Unmarshal(body, &l); err != nil || l.Metadata.ResourceVersion != "7" ||
			len(l.Items) != len(groupCases) {
			t.Fatalf("%v: %s", err, body)
		}
		for i, item := range l.Items {
			if got := jsonGroups(t, item); fmt.Sprint(got) != fmt.Sprint(groupCases[i].want) {
				t.Errorf("%s: %q in a list", groupCases[i].name, got)
			}
		}
	}
	for _, other := range []string{
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no default.t1"}`,
		`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[],` +
			`"rows":[{"cells":["kubernetes"],"object":{"metadata":{"name":"kubernetes","namespace":"default"}}}]}`,
	} {
		if out, err := p.JSON(Out, Resource{}, []byte(other)); err != nil || string(out) != other {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// shownOf counts the groups that are shown.
func shownOf(groups []string) (n int) {
	for _, g := range groups {
		if g != "" {
			n++
		}
	}
	return n
}

// inPieces is an answer that is written in small pieces.
func inPieces(t *testing.T, p *Projector, media string, watch bool, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	s, err := p.Stream(media, Resource{}, watch, &out)
	if err != nil {
		t.Fatal(err)
	}
	for len(body) > 0 {
		n := min(len(body), 13)
		if _, err := s.Write(body[:n]); err != nil {
			t.Fatal(err)
		}
		body = body[n:]
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fieldsOf are those of a message by one number.
func fieldsOf(t *testing.T, b []byte, number protowire.Number) (out [][]byte) {
	t.Helper()
	for s := newScanner(b, 0); ; {
		f, ok, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		if f.number == number {
			out = append(out, f.value)
		}
	}
}

// protoGroups are field 4 of the subsets of Endpoints.
func protoGroups(t *testing.T, endpoints []byte) (out []string) {
	t.Helper()
	for _, subset := range fieldsOf(t, endpoints, 2) {
		group := ""
		for _, f := range fieldsOf(t, subset, 4) {
			group += string(f)
		}
		out = append(out, group)
	}
	return out
}

// rawOf is what an envelope has in it.
func rawOf(t *testing.T, body []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		t.Fatalf("no envelope: %q", body)
	}
	return fieldsOf(t, body[4:], 2)[0]
}

func TestGroupsInProtobuf(t *testing.T) {
	const media = "application/vnd.kubernetes.protobuf"
	p := groupsProjector()
	list := &corev1.EndpointsList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EndpointsList"}}
	for _, c := range groupCases {
		list.Items = append(list.Items, *c.in)
		body := inProto(t, c.in)
		out, err := p.Proto(Out, Resource{}, body)
		if err != nil {
			t.Fatal(err)
		}
		if got := protoGroups(t, rawOf(t, out)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
		// Who does not know the field reads the rest.
		read, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(out, nil, nil)
		if e, ok := read.(*corev1.Endpoints); err != nil || !ok ||
			!apiequality.Semantic.DeepEqual(e.Subsets, c.in.Subsets) ||
			!apiequality.Semantic.DeepEqual(e.ObjectMeta, c.in.ObjectMeta) {
			t.Errorf("%s: %v %+v", c.name, err, read)
		}
		event, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: body}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		frame := inPieces(t, p, media+";stream=watch", true,
			append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...))
		if n := binary.BigEndian.Uint32(frame); int(n) != len(frame)-4 {
			t.Errorf("%s: a frame of %d bytes says %d", c.name, len(frame)-4, n)
		}
		var watched metav1.WatchEvent
		if err := watched.Unmarshal(frame[4:]); err != nil {
			t.Fatal(err)
		}
		if got := protoGroups(t, rawOf(t, watched.Object.Raw)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q in a watch", c.name, got)
		}
	}
	// A long list, too: it is not streamed.
	for len(inProto(t, list)) < 2*protoWholeUpTo {
		list.Items = append(list.Items, *endpointsOf("default", "x", "-", strings.Repeat("1", 4096)))
	}
	got := rawOf(t, inPieces(t, p, media, false, inProto(t, list)))
	items := fieldsOf(t, got, 2)
	if len(items) != len(list.Items) {
		t.Fatalf("%d of %d items", len(items), len(list.Items))
	}
	for i, c := range groupCases {
		if got := protoGroups(t, items[i]); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q in a list", c.name, got)
		}
	}
	status := inProto(t, &metav1.Status{Message: "x"})
	if out, err := p.Proto(Out, Resource{}, status); err != nil || !bytes.Equal(out, status) {
		t.Errorf("%v: %q", err, out)
	}
	for cut := range len(inProto(t, groupCases[0].in)) {
		_, _ = p.Proto(Out, Resource{}, inProto(t, groupCases[0].in)[:cut]) // an error at most
	}
}
