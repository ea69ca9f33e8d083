package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/a4s-io/a4s/internal/space"
)

const rbacName = "rbac.authorization.k8s.io"

func podKind() Resource {
	return Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
}

func namespaceKind() Resource {
	return Resource{Version: "v1", Resource: "namespaces", Kind: "Namespace"}
}

func volumeKind() Resource {
	return Resource{Version: "v1", Resource: "persistentvolumes", Kind: "PersistentVolume"}
}

func classKind() Resource {
	return Resource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses",
		Kind: "StorageClass", MayBeSystem: true}
}

func clusterRoleKind() Resource {
	return Resource{Group: rbacName, Version: "v1", Resource: "clusterroles", Kind: "ClusterRole", MayBeSystem: true}
}

func bindingKind() Resource {
	return Resource{Group: rbacName, Version: "v1", Resource: "clusterrolebindings", Kind: "ClusterRoleBinding"}
}

func policyKind() Resource {
	return Resource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies",
		Kind: "NetworkPolicy", Namespaced: true}
}

func reviewKind() Resource {
	return Resource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews",
		Kind: "SubjectAccessReview"}
}

func customKind(namespaced bool) Resource {
	return Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: namespaced}
}

func TestJSON(t *testing.T) {
	const pods = "/api/v1/tenants/t1/namespaces/default/pods/"
	tests := []struct {
		name   string
		tenant string // t1 if empty
		d      Direction
		r      Resource
		in     string
		want   string
		err    error
		whole  bool // cannot be streamed
	}{
		{
			name: "object in", d: In, r: podKind(),
			in:   `{"kind":"Pod","metadata":{"name":"web","namespace":"default"},"spec":{"nodeName":"n1"}}`,
			want: `{"kind":"Pod","metadata":{"name":"web","namespace":"default.t1"},"spec":{"nodeName":"n1"}}`,
		},
		{
			name: "object out", d: Out, r: podKind(),
			in: `{"metadata":{"name":"web","namespace":"default.t1","uid":"1"}}`,
			want: `{"metadata":{"name":"web","namespace":"default","uid":"1","tenant":"t1","selfLink":"` +
				pods + `web"}}`,
		},
		{
			name: "pretty printed", d: Out, r: podKind(),
			in: "{\n  \"metadata\": {\n    \"name\": \"web\",\n    \"namespace\": \"default.t1\"\n  }\n}\n",
			want: "{\n  \"metadata\": {\n    \"name\": \"web\",\n" +
				"    \"namespace\": \"default\",\"tenant\":\"t1\",\"selfLink\":\"" + pods + "web\"}\n}\n",
		},
		{name: "another tenant's namespace", d: Out, r: podKind(),
			in: `{"metadata":{"name":"web","namespace":"default.t2"}}`, err: ErrForeign},
		{name: "a namespace of the system", d: Out, r: podKind(),
			in: `{"metadata":{"name":"web","namespace":"kube-system"}}`, err: ErrForeign},
		{name: "another tenant's name", d: Out, r: volumeKind(),
			in: `{"metadata":{"name":"pv1.t2.tenant"}}`, err: ErrForeign},
		{name: "a name of the system", d: Out, r: volumeKind(), in: `{"metadata":{"name":"pv1"}}`, err: ErrForeign},
		{name: "another tenant, escaped", d: Out, r: podKind(),
			in: `{"met\u0061data":{"name":"web","namesp\u0061ce":"default\u002et2"}}`, err: ErrForeign},
		{
			name: "cluster-scoped and back", d: Out, r: volumeKind(),
			in: `{"metadata":{"name":"pv1.t1.tenant"},"spec":{"claimRef":{"namespace":"default.t1","name":"data"}}}`,
			want: `{"metadata":{"name":"pv1","tenant":"t1","selfLink":"/api/v1/tenants/t1/persistentvolumes/pv1"},` +
				`"spec":{"claimRef":{"namespace":"default","name":"data"}}}`,
		},
		{
			name: "namespace in", d: In, r: namespaceKind(),
			in:   `{"metadata":{"name":"x","labels":{"kubernetes.io/metadata.name":"x","a4s.io/tenant":"t2"}}}`,
			want: `{"metadata":{"name":"x.t1","labels":{"kubernetes.io/metadata.name":"x.t1"}}}`,
		},
		{
			name: "namespace out", d: Out, r: namespaceKind(),
			in: `{"metadata":{"name":"x.t1","labels":{"a4s.io/tenant":"t1","kubernetes.io/metadata.name":"x.t1"}}}`,
			want: `{"metadata":{"name":"x","labels":{"kubernetes.io/metadata.name":"x"},` +
				`"tenant":"t1","selfLink":"/api/v1/tenants/t1/namespaces/x"}}`,
		},
		{
			name: "labels that are the tenant's alone", d: Out, r: clusterRoleKind(),
			in: `{"metadata":{"name":"r.t1.tenant","labels":{"a4s.io/tenant":"t1"}}}`,
			want: `{"metadata":{"name":"r","tenant":"t1",` +
				`"selfLink":"/apis/rbac.authorization.k8s.io/v1/tenants/t1/clusterroles/r"}}`,
		},
		{
			name: "the tenant named", d: In, r: podKind(),
			in:   `{"metadata":{"tenant":"t1","name":"web","selfLink":"x"}}`,
			want: `{"metadata":{"name":"web"}}`,
		},
		{name: "nothing but the tenant", d: In, r: podKind(), in: `{"metadata":{"tenant":"t1", "selfLink":"x" }}`,
			want: `{"metadata":{}}`},
		{name: "another tenant named", d: In, r: podKind(), in: `{"metadata":{"tenant":"t2"}}`, err: ErrTenant},
		{name: "the tenant of a wrong type", d: In, r: podKind(), in: `{"metadata":{"tenant":2}}`, err: ErrMalformed},
		{
			name: "shared object", d: Out, r: classKind(),
			in: `{"metadata":{"name":"fast"},"provisioner":"p"}`,
			want: `{"metadata":{"name":"fast","tenant":"system",` +
				`"selfLink":"/apis/storage.k8s.io/v1/tenants/system/storageclasses/fast"},"provisioner":"p"}`,
		},
		{
			name: "shared ClusterRole", d: Out, r: clusterRoleKind(),
			in: `{"metadata":{"name":"view"}}`,
			want: `{"metadata":{"name":"view","tenant":"system",` +
				`"selfLink":"/apis/rbac.authorization.k8s.io/v1/tenants/system/clusterroles/view"}}`,
		},
		{
			name: "roleRef and subjects in", d: In, r: bindingKind(),
			in: `{"metadata":{"name":"b"},"roleRef":{"name":"r","kind":"ClusterRole",` +
				`"apiGroup":"rbac.authorization.k8s.io"},"subjects":[{"kind":"ServiceAccount","name":"a",` +
				`"namespace":"default"},{"kind":"User","name":"system:serviceaccount:default:a"},` +
				`{"name":"system:serviceaccounts:default","kind":"Group"},{"kind":"User","name":"ann"}]}`,
			want: `{"metadata":{"name":"b.t1.tenant"},"roleRef":{"name":"r.t1.tenant","kind":"ClusterRole",` +
				`"apiGroup":"rbac.authorization.k8s.io"},"subjects":[{"kind":"ServiceAccount","name":"a",` +
				`"namespace":"default.t1"},{"kind":"User","name":"system:serviceaccount:default.t1:a"},` +
				`{"name":"system:serviceaccounts:default.t1","kind":"Group"},{"kind":"User","name":"ann"}]}`,
		},
		{
			name: "roleRef without a group, which is filled in later", d: In, r: bindingKind(),
			in:   `{"roleRef":{"kind":"ClusterRole","name":"r"}}`,
			want: `{"roleRef":{"kind":"ClusterRole","name":"r.t1.tenant"}}`,
		},
		{
			name: "roleRef to a shared role", d: In, r: bindingKind(),
			in:   `{"roleRef":{"kind":"ClusterRole","name":"view"}}`,
			want: `{"roleRef":{"kind":"ClusterRole","name":"view"}}`,
		},
		{
			name: "roleRef twice",
			d:    In,
			r:    bindingKind(),
			in:   `{"roleRef":{"name":"r"},"roleRef":{"kind":"ClusterRole"}}`,
			want: `{"roleRef":null,"roleRef":{"kind":"ClusterRole"}}`,
		},
		{
			name: "roleRef twice, merged",
			d:    In,
			r:    merging(bindingKind()),
			in:   `{"roleRef":{"name":"r"}, "roleRef":{ },"roleRef":{"kind":"ClusterRole"}}`,
			want: `{"roleRef":null, "roleRef":null,"roleRef":{"name":"r.t1.tenant","kind":"ClusterRole"}}`,
		},
		{
			name: "roleRef twice, merged with nothing",
			d:    In,
			r:    merging(bindingKind()),
			in:   `{"roleRef":{"name":"r","kind":"Role"},"roleRef":{"kind":"ClusterRole"},"roleRef":{}}`,
			want: `{"roleRef":null,"roleRef":null,"roleRef":{"name":"r.t1.tenant","kind":"ClusterRole"}}`,
		},
		{
			name: "kind of the roleRef twice",
			d:    In,
			r:    bindingKind(),
			in:   `{"roleRef":{"kind":"Role","name":"r","kind":"ClusterRole"}}`,
			want: `{"roleRef":{"kind":null,"name":"r.t1.tenant","kind":"ClusterRole"}}`,
		},
		{name: "namespace twice", d: In, r: podKind(), in: `{"metadata":{"namespace":"a","namespace":"b"}}`,
			want: `{"metadata":{"namespace":null,"namespace":"b.t1"}}`},
		{name: "namespace, then null", d: In, r: podKind(), in: `{"metadata":{"namespace":"a","namespace":null}}`,
			want: `{"metadata":{"namespace":null,"namespace":null}}`},
		{name: "labels of a selector twice", d: In, r: policyKind(),
			in: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{"matchLabels":null,"matchLabels":{"a":"b"}}}]}]}}`,
			want: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"a4s.io/tenant":"t1"},` +
				`"matchLabels":{"a":"b","a4s.io/tenant":"t1"}}}]}]}}`},
		{
			name: "what is left out leaves its lines",
			d:    In,
			r:    podKind(),
			in:   "{\"metadata\":{\n\"tenant\":\n\"t1\",\n\"name\":\"a\",\n\"selfLink\":\"x\"\n},\n\"x\":1}",
			want: "{\"metadata\":{\n\n\n\"name\":\"a\"\n\n},\n\"x\":1}",
		},
		{name: "kind twice", d: In, r: podKind(), in: `{"kind":"Pod","kind":"Status"}`,
			want: `{"kind":null,"kind":"Status"}`},
		{
			name: "owners", d: Out, r: podKind(),
			in: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"PersistentVolume",` +
				`"name":"pv1.t1.tenant"},{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"x.t1"}],` +
				`"name":"w","namespace":"d.t1"}}`,
			want: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"PersistentVolume","name":"pv1"},` +
				`{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"x.t1"}],"name":"w","namespace":"d",` +
				`"tenant":"t1","selfLink":"/api/v1/tenants/t1/namespaces/d/pods/w"}}`,
		},
		{
			name: "namespace selector in", d: In, r: policyKind(),
			in: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{}},` +
				`{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"x","a4s.io/tenant":"t2"}}},` +
				`{"namespaceSelector":{"matchExpressions":[{"values":["a","b"],"key":"kubernetes.io/metadata.name",` +
				`"operator":"In"}]}},{"namespaceSelector":null},{"podSelector":{}}]}]}}`,
			want: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"a4s.io/tenant":"t1"}}},` +
				`{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"x.t1","a4s.io/tenant":"t1"}}},` +
				`{"namespaceSelector":{"matchExpressions":[{"values":["a.t1","b.t1"],` +
				`"key":"kubernetes.io/metadata.name","operator":"In"}],"matchLabels":{"a4s.io/tenant":"t1"}}},` +
				`{"namespaceSelector":null},{"podSelector":{}}]}]}}`,
		},
		{
			name: "labels of a namespace selector null", d: In, r: policyKind(),
			in:   `{"spec":{"egress":[{"to":[{"namespaceSelector":{"matchLabels":null}}]}]}}`,
			want: `{"spec":{"egress":[{"to":[{"namespaceSelector":{"matchLabels":{"a4s.io/tenant":"t1"}}}]}]}}`,
		},
		{
			name: "namespace selector out", d: Out, r: policyKind(),
			in: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"a4s.io/tenant":"t1"}}},` +
				`{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"x.t1",` +
				`"a4s.io/tenant":"t1"}}}]}]}}`,
			want: `{"spec":{"ingress":[{"from":[{"namespaceSelector":{}},` +
				`{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"x"}}}]}]}}`,
		},
		{
			name: "user without extra", d: In, r: reviewKind(),
			in: `{"spec":{"user":"ann","resourceAttributes":{"namespace":"default"}}}`,
			want: `{"spec":{"user":"ann","resourceAttributes":{"namespace":"default.t1"},` +
				`"extra":{"a4s.io/tenant":["t1"]}}}`,
		},
		{
			name: "user with another tenant in extra", d: In, r: reviewKind(),
			in:   `{"spec":{"extra":{"a4s.io/tenant":["t2"],"k":["v"]},"user":"ann"}}`,
			want: `{"spec":{"extra":{"k":["v"],"a4s.io/tenant":["t1"]},"user":"ann"}}`,
		},
		{
			name: "user with extra null", d: In, r: reviewKind(),
			in:   `{"spec":{"extra":null,"user":"ann"}}`,
			want: `{"spec":{"extra":{"a4s.io/tenant":["t1"]},"user":"ann"}}`,
		},
		{
			name: "user out", d: Out, r: reviewKind(),
			in: `{"metadata":{},"spec":{"extra":{"a4s.io/tenant":["t1"]},` +
				`"user":"system:serviceaccount:default.t1:a"}}`,
			want: `{"metadata":{},"spec":{"user":"system:serviceaccount:default:a"}}`,
		},
		{
			name: "affinity", d: In, r: podKind(),
			in: `{"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{` +
				`"namespaces":["a","b"]}]}}}}`,
			want: `{"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{` +
				`"namespaces":["a.t1","b.t1"]}]}}}}`,
		},
		{
			name: "custom resource", d: In, r: customKind(true),
			in: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"a"},` +
				`"spec":{"namespace":"a"}}`,
			want: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"a.t1"},` +
				`"spec":{"namespace":"a"}}`,
		},
		{
			name: "list", d: Out, r: podKind(),
			in: `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{` +
				`"name":"a","namespace":"default.t1"}},{"metadata":{"name":"b","namespace":"default.t1"}}]}`,
			want: `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7",` +
				`"selfLink":"/api/v1/tenants/t1/pods"},` +
				`"items":[{"metadata":{"name":"a","namespace":"default","tenant":"t1","selfLink":"` + pods +
				`a"}},{"metadata":{"name":"b","namespace":"default","tenant":"t1","selfLink":"` + pods + `b"}}]}`,
		},
		{
			name: "list of custom resources, its kind behind the items", d: Out, r: customKind(false),
			in: `{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget",` +
				`"metadata":{"name":"w"}}],"kind":"WidgetList","metadata":{"continue":""}}`,
			want: `{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget",` +
				`"metadata":{"name":"w","tenant":"t1","selfLink":"/apis/example.com/v1/tenants/t1/widgets/w"}}],` +
				`"kind":"WidgetList","metadata":{"continue":"","selfLink":"/apis/example.com/v1/tenants/t1/widgets"}}`,
		},
		{
			name: "custom resource with a field called items", d: Out, r: customKind(false), whole: true,
			in: `{"apiVersion":"example.com/v1","items":[{"metadata":{"name":"w"}}],` +
				`"kind":"Widget","metadata":{"name":"w"}}`,
			want: `{"apiVersion":"example.com/v1","items":[{"metadata":{"name":"w"}}],"kind":"Widget",` +
				`"metadata":{"name":"w","tenant":"t1","selfLink":"/apis/example.com/v1/tenants/t1/widgets/w"}}`,
		},
		{name: "list with a foreign item", d: Out, r: podKind(),
			in: `{"kind":"PodList","items":[{"metadata":{"name":"a","namespace":"default.t2"}}]}`, err: ErrForeign},
		{name: "empty list", d: Out, r: podKind(), in: `{"kind":"PodList","items":[],"metadata":null}`,
			want: `{"kind":"PodList","items":[],"metadata":null}`},
		{
			name: "partial metadata", d: Out, r: volumeKind(),
			in: `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{` +
				`"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"pv.t1.tenant"}}]}`,
			want: `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",` +
				`"metadata":{"selfLink":"/api/v1/tenants/t1/persistentvolumes"},` +
				`"items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"pv",` +
				`"tenant":"t1","selfLink":"/api/v1/tenants/t1/persistentvolumes/pv"}}]}`,
		},
		{
			name: "kind of a subresource behind its metadata", d: Out,
			r: Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true},
			in: `{"metadata":{"name":"w","namespace":"d.t1"},"spec":{"replicas":1},` +
				`"kind":"Scale","apiVersion":"autoscaling/v1"}`,
			want: `{"metadata":{"name":"w","namespace":"d","tenant":"t1",` +
				`"selfLink":"/apis/apps/v1/tenants/t1/namespaces/d/deployments/w"},"spec":{"replicas":1},` +
				`"kind":"Scale","apiVersion":"autoscaling/v1"}`,
		},
		{
			name: "status", d: Out, r: namespaceKind(),
			in: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"x.t1\" ` +
				`not found","reason":"NotFound","details":{"name":"x.t1","kind":"namespaces",` +
				`"causes":[{"message":"not x.t1","field":"f"}]},"code":404}`,
			want: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"x\" ` +
				`not found","reason":"NotFound","details":{"name":"x","kind":"namespaces","causes":[{"message":"not ` +
				`x","field":"f"}]},"code":404}`,
		},
		{
			name: "status, its kind last", d: Out, r: volumeKind(),
			in: `{"details":{"name":"pv1.t1.tenant","kind":"persistentvolumes"},"message":"pv1.t1.tenant, ` +
				`pv1.t2.tenant","apiVersion":"v1","kind":"Status"}`,
			want: `{"details":{"name":"pv1","kind":"persistentvolumes"},"message":"pv1, \u003chidden\u003e",` +
				`"apiVersion":"v1","kind":"Status"}`,
		},
		{
			name: "status on an object with a dot in its name", d: Out, r: podKind(),
			in:   `{"kind":"Status","apiVersion":"v1","details":{"name":"web.t1","kind":"pods"}}`,
			want: `{"kind":"Status","apiVersion":"v1","details":{"name":"web.t1","kind":"pods"}}`,
		},
		{
			name: "table", d: Out, r: podKind(),
			in: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"x.t1"}],` +
				`"rows":[{"cells":["web.t1",3,"in default.t1"],"object":{"kind":"PartialObjectMetadata",` +
				`"apiVersion":"meta.k8s.io/v1","metadata":{"name":"web.t1","namespace":"default.t1"}}}]}`,
			want: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"selfLink":"/api/v1/tenants/t1/pods"},` +
				`"columnDefinitions":[{"name":"x.t1"}],"rows":[{"cells":["web.t1",3,"in default"],` +
				`"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web.t1",` +
				`"namespace":"default","tenant":"t1","selfLink":"` + pods + `web.t1"}}}]}`,
		},
		{
			name: "table of namespaces", d: Out, r: namespaceKind(),
			in: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":["x.t1","Active"],` +
				`"object":{"metadata":{"name":"x.t1"}}}]}`,
			want: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":["x","Active"],` +
				`"object":{"metadata":{"name":"x","tenant":"t1","selfLink":"/api/v1/tenants/t1/namespaces/x"}}}]}`,
		},
		{name: "table with a foreign row", d: Out, r: podKind(), in: `{"kind":"Table","apiVersion":"meta.k8s.io/v1",` +
			`"rows":[{"cells":["a"],"object":{"metadata":{"name":"a","namespace":"d.t2"}}}]}`, err: ErrForeign},
		{
			name: "all tenants", tenant: space.All, d: Out, r: podKind(),
			in: `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"status":{"message":"in d.t1"},` +
				`"metadata":{"name":"a","namespace":"d.t1"}},{"metadata":{"name":"b","namespace":"d.t2"}},` +
				`{"metadata":{"name":"c","namespace":"kube-system"}}]}`,
			want: `{"kind":"PodList","apiVersion":"v1","metadata":{"selfLink":"/api/v1/tenants/all/pods"},` +
				`"items":[{"status":{"message":"in d"},"metadata":{"name":"a","namespace":"d","tenant":"t1",` +
				`"selfLink":"/api/v1/tenants/t1/namespaces/d/pods/a"}},{"metadata":{"name":"b","namespace":"d",` +
				`"tenant":"t2","selfLink":"/api/v1/tenants/t2/namespaces/d/pods/b"}},` +
				`{"metadata":{"name":"c","namespace":"kube-system","tenant":"system",` +
				`"selfLink":"/api/v1/tenants/system/namespaces/kube-system/pods/c"}}]}`,
		},
		{
			name: "all tenants, a binding of the system to one of a tenant", tenant: space.All,
			d: Out, r: bindingKind(),
			in: `{"metadata":{"name":"b"},"subjects":[{"kind":"ServiceAccount","name":"a",` +
				`"namespace":"default.t1"}]}`,
			want: `{"metadata":{"name":"b","tenant":"system",` +
				`"selfLink":"/apis/rbac.authorization.k8s.io/v1/tenants/system/clusterrolebindings/b"},` +
				`"subjects":[{"kind":"ServiceAccount","name":"a","namespace":"default.t1"}]}`,
		},
		{
			name: "all tenants, a table", tenant: space.All, d: Out, r: volumeKind(),
			in: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":["p.t2.tenant","d.t2/c"],` +
				`"object":{"metadata":{"name":"p.t2.tenant"}}}]}`,
			want: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":["p","d/c"],"object":{"metadata":{` +
				`"name":"p","tenant":"t2","selfLink":"/api/v1/tenants/t2/persistentvolumes/p"}}}]}`,
		},
		{
			name: "system", tenant: space.System, d: Out, r: bindingKind(),
			in: `{"metadata":{"name":"b"},"subjects":[{"kind":"ServiceAccount","name":"a",` +
				`"namespace":"default.t1"}]}`,
			want: `{"metadata":{"name":"b","tenant":"system",` +
				`"selfLink":"/apis/rbac.authorization.k8s.io/v1/tenants/system/clusterrolebindings/b"},` +
				`"subjects":[{"kind":"ServiceAccount","name":"a","namespace":"default.t1"}]}`,
		},
		{name: "system does not see tenants", tenant: space.System, d: Out, r: podKind(),
			in: `{"metadata":{"name":"a","namespace":"d.t1"}}`, err: ErrForeign},
		{
			name: "into the system", tenant: space.System, d: In, r: reviewKind(),
			in:   `{"metadata":{"tenant":"system"},"spec":{"user":"ann"}}`,
			want: `{"metadata":{},"spec":{"user":"ann"}}`,
		},
		{
			name: "bookmark",
			d:    Out,
			r:    podKind(),
			in:   `{"kind":"Pod","metadata":{"resourceVersion":"8","creationTimestamp":null}}`,
			want: `{"kind":"Pod","metadata":{"resourceVersion":"8","creationTimestamp":null}}`,
		},
		{name: "other values", d: In, r: podKind(), in: ` [1,null,{"metadata":{"namespace":"a"}}] `,
			want: ` [1,null,{"metadata":{"namespace":"a"}}] `},
		{
			name: "wrong types",
			d:    In,
			r:    bindingKind(),
			in:   `{"metadata":[],"roleRef":"x","subjects":[[],3,{"name":4,"namespace":null}]}`,
			want: `{"metadata":[],"roleRef":"x","subjects":[[],3,{"name":4,"namespace":null}]}`,
		},
		{name: "empty", d: In, r: podKind(), in: ``, err: ErrMalformed},
		{name: "no end", d: In, r: podKind(), in: `{"metadata":{"name":"a"`, err: ErrMalformed},
		{name: "no end of a string", d: In, r: podKind(), in: `{"metadata":{"name":"a\"`, err: ErrMalformed},
		{name: "comma too much", d: In, r: podKind(), in: `{"metadata":{"name":"a",}}`, err: ErrMalformed},
		{name: "two documents", d: In, r: podKind(), in: `{}{"metadata":{"namespace":"a"}}`, err: ErrMalformed},
		{name: "wrong escape", d: In, r: podKind(), in: `{"metadata":{"name":"\x"}}`, err: ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tenant := tt.tenant
			if tenant == "" {
				tenant = "t1"
			}
			got, err := protoProjector(tenant).JSON(tt.d, tt.r, []byte(tt.in))
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(got) != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
			if tt.err == nil && tt.d == Out && !tt.whole {
				streamed(t, tenant, tt.r, tt.in, tt.want)
			}
		})
	}
}

func merging(r Resource) Resource {
	r.Merges = true
	return r
}

// streamed wants the same of a stream.
func streamed(t *testing.T, tenant string, r Resource, in, want string) {
	t.Helper()
	var out bytes.Buffer
	s, err := protoProjector(tenant).Stream("application/json", r, false, &out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Write([]byte(in)); err == nil {
		err = s.Close()
	}
	if err != nil || out.String() != want {
		t.Errorf("streamed: %v\n got %s\nwant %s", err, &out, want)
	}
}

// TestAppend: a translation goes behind what is there, into the room that is
// there, and is the one that is made without.
func TestAppend(t *testing.T) {
	p := protoProjector("a")
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default.a"}}
	inJSON, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	var inProto bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(pod, &inProto); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body  []byte
		whole func(Direction, Resource, []byte) ([]byte, error)
		onto  func([]byte, Direction, Resource, []byte) ([]byte, error)
	}{
		"JSON":     {inJSON, p.JSON, p.AppendJSON},
		"protobuf": {inProto.Bytes(), p.Proto, p.AppendProto},
	} {
		want, err := c.whole(Out, podKind(), c.body)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 4, Room(len(c.body))+4)
		copy(dst, "head")
		got, err := c.onto(dst, Out, podKind(), c.body)
		if err != nil || string(got) != "head"+string(want) {
			t.Errorf("%s: %q, %v, want %q behind the head", name, got, err, want)
		}
		if &got[0] != &dst[0] {
			t.Errorf("%s: the room that was there is not used", name)
		}
	}
}

func TestJSONErrorsNameTheTenants(t *testing.T) {
	_, err := protoProjector("t1").JSON(In, podKind(), []byte(`{"metadata":{"tenant":"t2"}}`))
	if err == nil || !strings.Contains(err.Error(), `"t1"`) || !strings.Contains(err.Error(), `"t2"`) {
		t.Errorf("%v", err)
	}
	_, err = protoProjector("t1").JSON(Out, podKind(), []byte(`{"metadata":{"name":"n","namespace":"secret.t2"}}`))
	if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "t2") {
		t.Errorf("a foreign name is told: %v", err)
	}
	_, err = protoProjector("t1").JSON(In, podKind(), []byte(`{"metadata":{"name" "n"}}`))
	if err == nil || !strings.Contains(err.Error(), "byte 20") {
		t.Errorf("%v", err)
	}
}

// TestJSONEveryKindAndBack fills objects of all kinds at random.
func TestJSONEveryKindAndBack(t *testing.T) {
	p := protoProjector("t1")
	for gvk, typ := range protoTypes(t) {
		r := protoResource(gvk)
		for seed := range int64(2) {
			native := fillObject(typ, r, seed)
			// As the API server writes it: the type comes first.
			b, err := json.Marshal(native)
			if err != nil {
				t.Fatal(err)
			}
			head := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, gvk.Kind, gvk.GroupVersion())
			b = append([]byte(head), b[1:]...)

			inwards := must(p.JSON(In, r, b))(t)
			outwards := must(p.JSON(Out, r, inwards))(t)
			if again := must(p.JSON(In, r, outwards))(t); !bytes.Equal(again, inwards) {
				t.Fatalf("%v: composed again\n got %s\nwant %s", gvk, firstDifference(again, inwards),
					firstDifference(inwards, again))
			}
			got := reflect.New(typ).Interface()
			want := reflect.New(typ).Interface()
			if err := errors.Join(json.Unmarshal(outwards, got), json.Unmarshal(b, want)); err != nil {
				t.Fatal(err)
			}
			metaOf(got).SetSelfLink("")
			same(t, gvk.String(), got, want)

			// As many clients write it: the keys are sorted, the type is last.
			var tree map[string]json.RawMessage
			if err := json.Unmarshal(b, &tree); err != nil {
				t.Fatal(err)
			}
			delete(tree, "kind")
			delete(tree, "apiVersion")
			sorted, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			sorted = append(bytes.TrimSuffix(sorted, []byte("}")), strings.TrimSuffix(","+head[1:], ",")+"}"...)
			other := r
			other.Kind = "Widget"
			last, err := p.JSON(In, other, sorted)
			if err != nil {
				t.Fatal(err)
			}
			if r.Namespaced { // the name is one of a Widget
				first := reflect.New(typ).Interface()
				behind := reflect.New(typ).Interface()
				if err := errors.Join(json.Unmarshal(inwards, first), json.Unmarshal(last, behind)); err != nil {
					t.Fatal(err)
				}
				same(t, "kind at the end", behind, first)
			}
		}
	}
}
