package wire

import (
	"errors"
	"testing"
)

func TestPatch(t *testing.T) {
	const (
		jsonPatch = "application/json-patch+json"
		merge     = "application/merge-patch+json"
		strategic = "application/strategic-merge-patch+json"
		apply     = "application/apply-patch+yaml"
	)
	tests := []struct {
		name, media string
		r           Resource
		in, want    string
		err         error
	}{
		{
			name: "merge", media: merge, r: bindingKind(),
			in: `{"metadata":{"name":"b","tenant":"t1","labels":{"a4s.io/tenant":null,"x":null}},` +
				`"subjects":[{"kind":"ServiceAccount","name":"a","namespace":"d"}]}`,
			want: `{"metadata":{"name":"b.t1.tenant","labels":{"x":null}},"subjects":[{"kind":"ServiceAccount",` +
				`"name":"a","namespace":"d.t1"}]}`,
		},
		{
			name: "a kind that is not the object's", media: strategic, r: bindingKind(),
			in: `{"kind":"Status","apiVersion":"v1","subjects":[{"kind":"ServiceAccount","name":"a",` +
				`"namespace":"d"}]}`,
			want: `{"kind":"Status","apiVersion":"v1","subjects":[{"kind":"ServiceAccount","name":"a",` +
				`"namespace":"d.t1"}]}`,
		},
		{name: "merge of another tenant", media: merge, r: bindingKind(),
			in: `{"metadata":{"tenant":"t2"}}`, err: ErrTenant},
		{
			name: "strategic directives", media: strategic, r: podKind(),
			in: `{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"1"}],"ownerReferences":[{` +
				`"$patch":"delete","uid":"1"}]},"spec":{"$setElementOrder/containers":[{"name":"a"}],` +
				`"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{` +
				`"$deleteFromPrimitiveList/namespaces":["a"],"namespaces":["b"],"$retainKeys":["namespaces"]}]}}}}`,
			want: `{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"1"}],` +
				`"ownerReferences":[{"$patch":"delete","uid":"1"}]},` +
				`"spec":{"$setElementOrder/containers":[{"name":"a"}],"affinity":{"podAffinity":{` +
				`"requiredDuringSchedulingIgnoredDuringExecution":[{"$deleteFromPrimitiveList/namespaces":["a.t1"],` +
				`"namespaces":["b.t1"],"$retainKeys":["namespaces"]}]}}}}`,
		},
		{
			name: "deleting a namespace selector", media: strategic, r: policyKind(),
			in: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{"$patch":"delete"}},` +
				`{"namespaceSelector":{"matchLabels":{"$patch":"delete"}}}]}]}}`,
			want: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{"$patch":"replace",` +
				`"matchLabels":{"a4s.io/tenant":"t1"}}},{"namespaceSelector":{"matchLabels":{"$patch":"replace",` +
				`"a4s.io/tenant":"t1"}}}]}]}}`,
		},
		{
			name: "apply", media: apply, r: podKind(),
			in:   "kind: Pod\nmetadata:\n  namespace: d\n  name: a\n",
			want: `{"kind":"Pod","metadata":{"name":"a","namespace":"d.t1"}}`,
		},
		{name: "apply malformed", media: apply, r: podKind(), in: "\t: [", err: ErrMalformed},
		{name: "merge malformed", media: merge, r: podKind(), in: `{"a"`, err: ErrMalformed},
		{
			name: "operations", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"add","path":"/subjects/-","value":{"kind":"ServiceAccount","name":"a","namespace":"d"}},
				{"op":"replace","path":"/subjects/0/namespace","value":"d"},
				{"op":"add","path":"/subjects","value":[{"kind":"User","name":"system:serviceaccount:d:a"}]},
				{"op":"test","path":"/metadata/name","value":"b"},
				{"op":"add","path":"/metadata/annotations/x~1y","value":"d.t1"},
				{"op":"remove","path":"/subjects/1"}]`,
			want: `[{"op":"add","path":"/subjects/-","value":{"kind":"ServiceAccount","name":"a",` +
				`"namespace":"d.t1"}},` +
				`{"op":"replace","path":"/subjects/0/namespace","value":"d.t1"},` +
				`{"op":"add","path":"/subjects","value":[{"kind":"User","name":"system:serviceaccount:d.t1:a"}]},` +
				`{"op":"test","path":"/metadata/name","value":"b.t1.tenant"},` +
				`{"op":"add","path":"/metadata/annotations/x~1y","value":"d.t1"},` +
				`{"op":"remove","path":"/subjects/1"}]`,
		},
		{
			name: "the whole object and metadata", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"replace","path":"","value":{"kind":"Status","metadata":{"name":"b","tenant":"t1"},` +
				`"roleRef":{"kind":"ClusterRole","name":"r"}}},{"op":"replace","path":"/metadata",` +
				`"value":{"name":"b","labels":{"a4s.io/tenant":"t2"}}}]`,
			want: `[{"op":"replace","path":"","value":{"kind":"Status","metadata":{"name":"b.t1.tenant"},` +
				`"roleRef":{"kind":"ClusterRole","name":"r.t1.tenant"}}},` +
				`{"op":"replace","path":"/metadata","value":{"name":"b.t1.tenant"}}]`,
		},
		{
			name: "what is nobody's to set", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"add","path":"/metadata/tenant","value":"t1"},{"op":"test","path":"/metadata/selfLink",` +
				`"value":"x"},{"op":"add","path":"/metadata/labels/a4s.io~1tenant","value":"t2"},` +
				`{"op":"remove","path":"/metadata/labels/a4s.io~1tenant"},{"op":"remove","path":"/metadata/tenant"}]`,
			want: `[]`,
		},
		{name: "operation on another tenant", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"test","path":"/metadata/tenant","value":"t2"}]`, err: ErrTenant},
		{
			name: "selectors", media: jsonPatch, r: policyKind(),
			in: `[{"op":"add","path":"/spec/ingress/0/from/0/namespaceSelector","value":{}},` +
				`{"op":"replace","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels","value":{"a":"b"}},` +
				`{"op":"add","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels/a","value":"b"},` +
				`{"op":"add","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels/a4s.io~1tenant",` +
				`"value":"t2"},` +
				`{"op":"remove","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels/a4s.io~1tenant"},` +
				`{"op":"remove","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels"}]`,
			want: `[{"op":"add","path":"/spec/ingress/0/from/0/namespaceSelector",` +
				`"value":{"matchLabels":{"a4s.io/tenant":"t1"}}},` +
				`{"op":"replace","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels","value":{"a":"b",` +
				`"a4s.io/tenant":"t1"}},` +
				`{"op":"add","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels/a","value":"b"},` +
				`{"op":"add","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels/a4s.io~1tenant",` +
				`"value":"t1"},` +
				`{"op":"replace","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels",` +
				`"value":{"a4s.io/tenant":"t1"}}]`,
		},
		{name: "null, which is no operation", media: jsonPatch, r: podKind(), in: ` null `, want: `[]`},
		{name: "no list", media: jsonPatch, r: podKind(), in: `nulls`, err: ErrMalformed},
		{
			name:  "plain copy",
			media: jsonPatch,
			r:     podKind(),
			in:    `[{"from":"/metadata/labels/a","op":"copy","path":"/metadata/labels/b"}]`,
			want:  `[{"from":"/metadata/labels/a","op":"copy","path":"/metadata/labels/b"}]`,
		},
		{
			name:  "move of a subject",
			media: jsonPatch,
			r:     bindingKind(),
			in:    `[{"from":"/subjects/0","op":"move","path":"/subjects/1"}]`,
			want:  `[{"from":"/subjects/0","op":"move","path":"/subjects/1"}]`,
		},
		{name: "copy into a reference", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"copy","from":"/metadata/annotations/x","path":"/subjects/0/namespace"}]`, err: ErrMalformed},
		{name: "copy above a reference", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"move","from":"/metadata/annotations","path":""}]`, err: ErrMalformed},
		{name: "copy into the metadata", media: jsonPatch, r: podKind(),
			in: `[{"op":"copy","from":"/spec/nodeName","path":"/metadata/namespace"}]`, err: ErrMalformed},
		{name: "kind of a reference", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"replace","path":"/subjects/0/kind","value":"Group"}]`, err: ErrMalformed},
		{name: "path without a slash", media: jsonPatch, r: bindingKind(),
			in: `[{"op":"add","path":"x/roleRef/name","value":"a"}]`, err: ErrMalformed},
		{name: "no operations", media: jsonPatch, r: bindingKind(), in: `{}`, err: ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := protoProjector("t1").Patch(tt.media, tt.r, []byte(tt.in))
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if tt.err == nil && string(got) != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
	if _, err := protoProjector("t1").Patch("application/apply-patch+cbor", podKind(), nil); err == nil {
		t.Error("CBOR is taken")
	}
}
