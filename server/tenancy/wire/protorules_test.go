package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/references"
	"github.com/a4s-io/a4s/internal/space"
)

const rbacV1 = "rbac.authorization.k8s.io/v1"

func TestProtoOwners(t *testing.T) {
	role := Resource{Group: rbacGroup, Version: "v1", Resource: "clusterroles", Kind: "ClusterRole", MayBeSystem: true}
	class := Resource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses",
		Kind: "StorageClass", MayBeSystem: true}
	namespace := Resource{Version: "v1", Resource: "namespaces", Kind: "Namespace"}
	volume := Resource{Version: "v1", Resource: "persistentvolumes", Kind: "PersistentVolume"}
	for name, c := range map[string]struct {
		tenant          string
		r               Resource
		namespace, name string
		want, link      string
		err             error
	}{
		"own pod": {"t1", podResource, "default.t1", "web", "web",
			"/api/v1/tenants/t1/namespaces/default/pods/web", nil},
		"foreign pod": {"t1", podResource, "default.t2", "web", "", "", ErrForeign},
		"system pod":  {"t1", podResource, "default", "web", "", "", ErrForeign},
		"system's own pod": {space.System, podResource, "default", "web", "web",
			"/api/v1/tenants/system/namespaces/default/pods/web", nil},
		"tenant's for system": {space.System, podResource, "default.t1", "web", "", "", ErrForeign},
		"any pod": {space.All, podResource, "default.t1", "web", "web",
			"/api/v1/tenants/t1/namespaces/default/pods/web", nil},
		"any system pod": {space.All, podResource, "default", "web", "web",
			"/api/v1/tenants/system/namespaces/default/pods/web", nil},
		"own role": {"t1", role, "", "r.t1.tenant", "r",
			"/apis/rbac.authorization.k8s.io/v1/tenants/t1/clusterroles/r", nil},
		"foreign role": {"t1", role, "", "r.t2.tenant", "", "", ErrForeign},
		"default role": {"t1", role, "", "admin", "admin",
			"/apis/rbac.authorization.k8s.io/v1/tenants/system/clusterroles/admin", nil},
		"shared class": {"t1", class, "", "fast.t1", "fast.t1",
			"/apis/storage.k8s.io/v1/tenants/system/storageclasses/fast.t1", nil},
		"own namespace": {"t1", namespace, "", "default.t1", "default",
			"/api/v1/tenants/t1/namespaces/default", nil},
		"system namespace":  {"t1", namespace, "", "kube-system", "", "", ErrForeign},
		"foreign namespace": {"t1", namespace, "", "default.t2", "", "", ErrForeign},
		"own volume": {"t1", volume, "", "pv.1.t1.tenant", "pv.1",
			"/api/v1/tenants/t1/persistentvolumes/pv.1", nil},
		"system volume": {"t1", volume, "", "pv1", "", "", ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: c.name, Namespace: c.namespace, Labels: map[string]string{space.Label: "t1", "a": "b"},
			}}
			p := protoProjector(c.tenant)
			list := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{*object}}
			listed, err := p.Proto(Out, c.r, seal(t, "meta.k8s.io/v1", "PartialObjectMetadataList", list))
			if !errors.Is(err, c.err) {
				t.Fatalf("list: error %v", err)
			}
			b, err := p.Proto(Out, c.r, seal(t, "meta.k8s.io/v1", "PartialObjectMetadata", object))
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v", err)
			}
			if c.err != nil {
				return
			}
			got := unseal(t, b, &metav1.PartialObjectMetadata{})
			if got.Name != c.want || got.GetSelfLink() != c.link || len(got.Labels) != 1 {
				t.Errorf("got %v", got.ObjectMeta)
			}
			items := unseal(t, listed, &metav1.PartialObjectMetadataList{}).Items
			if len(items) != 1 || items[0].Name != c.want || items[0].GetSelfLink() != c.link ||
				len(items[0].Labels) != 1 {
				t.Errorf("listed %v", items)
			}
		})
	}
}

// Whatever a tenant writes, what decides about their borders is set for them.
func TestProtoInwardsHasTheLastWord(t *testing.T) {
	p := protoProjector("t1")
	reviews := Resource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews",
		Kind: "SubjectAccessReview"}
	for _, extra := range []map[string]authorizationv1.ExtraValue{nil, {space.Extra: {"t2"}},
		{space.Extra: {}, "scopes": {"a", "b"}}} {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", Extra: extra},
		}
		got := unseal(t, must(p.Proto(In, reviews, seal(t, "authorization.k8s.io/v1", "SubjectAccessReview",
			review)))(t), &authorizationv1.SubjectAccessReview{})
		if v := got.Spec.Extra[space.Extra]; len(v) != 1 || v[0] != "t1" ||
			len(got.Spec.Extra["scopes"]) != len(extra["scopes"]) {
			t.Errorf("%v became %v", extra, got.Spec.Extra)
		}
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Labels: map[string]string{space.Label: "t2", "app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "PersistentVolume", Name: "pv1"},
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs"}},
	}}
	pod.SetSelfLink("/x")
	got := unseal(t, must(p.Proto(In, podResource, seal(t, "v1", "Pod", pod)))(t), &corev1.Pod{})
	if len(got.Labels) != 1 || got.GetSelfLink() != "" || got.OwnerReferences[0].Name != "pv1.t1.tenant" ||
		got.OwnerReferences[1].Name != "rs" {
		t.Errorf("pod became %v", got.ObjectMeta)
	}

	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	deployments := Resource{Group: "apps", Version: "v1", Resource: "deployments",
		Kind: "Deployment", Namespaced: true}
	if got := unseal(t, must(p.Proto(In, deployments, seal(t, "autoscaling/v1", "Scale", scale)))(t),
		&autoscalingv1.Scale{}); got.Namespace != "default.t1" || got.Spec.Replicas != 3 {
		t.Errorf("scale became %v", got)
	}

	uid := metav1.NewUIDPreconditions("u")
	options := seal(t, "v1", "DeleteOptions", uid)
	if got := must(p.Proto(In, podResource, options))(t); !bytes.Equal(got, options) {
		t.Errorf("options became %q", got)
	}
}

// Readers merge the parts of a message that comes twice, so that a reference
// could be put together of parts that are harmless alone.
func TestProtoRefusesWhatReadersMerge(t *testing.T) {
	part := func(number protowire.Number, m protoMessage) []byte {
		b, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
	}
	envelope := func(apiVersion, kind string, raw ...[]byte) []byte {
		unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind},
			Raw: bytes.Join(raw, nil)}
		b, err := unknown.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte(protoMagic), b...)
	}
	meta := part(1, &metav1.ObjectMeta{Name: "b", Namespace: "default"})
	kind := part(3, &rbacv1.RoleRef{APIGroup: rbacGroup, Kind: "ClusterRole"})
	name := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType),
		protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), "r.t2.tenant"))
	pod := seal(t, "v1", "Pod", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	smuggled := []byte{1 << 3, 1, 'x'} // a key that is said to be a number
	bindings := Resource{Group: rbacGroup, Version: "v1", Resource: "rolebindings",
		Kind: "RoleBinding", Namespaced: true}
	for what, c := range map[string]struct {
		r    Resource
		body []byte
	}{
		"reference": {bindings, envelope(rbacV1, "RoleBinding", meta, kind, name)},
		"metadata":  {bindings, envelope(rbacV1, "RoleBinding", meta, kind, meta)},
		"envelope":  {podResource, append(bytes.Clone(pod), pod[len(protoMagic):]...)},
		"no kind":   {podResource, envelope("", "", meta)},
		"a list of anything": {podResource, envelope("v1", "List",
			part(2, &runtime.RawExtension{Raw: pod}))},
		"map entry": {podResource,
			envelope("v1", "Pod", protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType),
				protowire.AppendBytes(protowire.AppendTag(nil, 11, protowire.BytesType), smuggled)))},
		"wrong type": {podResource, envelope("v1", "Pod", []byte{1 << 3, 1})},
		"group":      {podResource, envelope("v1", "Pod", []byte{50<<3&0x7f | 3, 3})},
		"no prefix":  {podResource, pod[1:]},
	} {
		if _, err := protoProjector("t1").Proto(In, c.r, c.body); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := protoProjector("t1").Proto(In, bindings, envelope(rbacV1, "RoleBinding", meta, kind)); err != nil {
		t.Errorf("the parts alone: %v", err)
	}
}

// Every row of the table fits the types of all versions of its kind.
func TestProtoPlansFitTheTable(t *testing.T) {
	p := protoProjector("t1")
	for gvk := range protoTypes(t) {
		kind, err := p.protoKindOf(gvk.GroupVersion().String(), gvk.Kind, protoResource(gvk))
		if err != nil {
			t.Errorf("%s: %v", gvk, err)
			continue
		}
		// Fields that come twice are distinguished by the bits of a number.
		if len(kind.object.fields) > 64 {
			t.Errorf("%s has %d fields", gvk, len(kind.object.fields))
		}
	}
	for _, row := range references.Rows() {
		node := &Node{}
		node.add(segments(row), row.Op)
		for gvk, typ := range scheme.Scheme.AllKnownTypes() {
			if gvk.Group == row.Group && gvk.Kind == row.Kind {
				if _, err := compileMessage(typ, node); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestProtoStatus(t *testing.T) {
	p := protoProjector("t1")
	for name, c := range map[string]struct{ kind, name, want string }{
		"a pod may be called like a namespace": {"pods", "default.t1", "default.t1"},
		"a namespace":                          {"namespaces", "default.t1", "default"},
		"a volume":                             {"PersistentVolume", "pv1.t1.tenant", "pv1"},
	} {
		t.Run(name, func(t *testing.T) {
			status := &metav1.Status{Message: "no default.t1", Code: 404, Details: &metav1.StatusDetails{
				Name: c.name, Kind: c.kind, Causes: []metav1.StatusCause{{Message: "default.t1 is gone", Field: "a"}},
			}}
			got := unseal(t, must(p.Proto(Out, podResource, seal(t, "v1", "Status", status)))(t), &metav1.Status{})
			if got.Message != "no default" || got.Code != 404 || got.Details.Name != c.want ||
				got.Details.Kind != c.kind ||
				got.Details.Causes[0].Message != "default is gone" || got.Details.Causes[0].Field != "a" {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestProtoReferences(t *testing.T) {
	bindings := Resource{Group: rbacGroup, Version: "v1", Resource: "rolebindings",
		Kind: "RoleBinding", Namespaced: true}
	for name, c := range map[string]struct {
		d                            Direction
		tenant, group, role, subject string
		wantRole, wantSubject        string
		err                          error
	}{
		"inwards":          {In, "t1", rbacGroup, "r", "default", "r.t1.tenant", "default.t1", nil},
		"default role":     {In, "t1", rbacGroup, "admin", "default", "admin", "default.t1", nil},
		"group to fill in": {In, "t1", "", "r.t2.tenant", "default", "r.t2.tenant.t1.tenant", "default.t1", nil},
		"outwards":         {Out, "t1", rbacGroup, "r.t1.tenant", "default.t1", "r", "default", nil},
		"foreign role":     {Out, "t1", rbacGroup, "r.t2.tenant", "default.t1", "", "", ErrForeign},
		"foreign subject":  {Out, "t1", rbacGroup, "r.t1.tenant", "default.t2", "", "", ErrForeign},
		"system sees through": {Out, space.System, rbacGroup, "r.t2.tenant", "default.t2",
			"r.t2.tenant", "default.t2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"},
				RoleRef:    rbacv1.RoleRef{APIGroup: c.group, Kind: "ClusterRole", Name: c.role},
				Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: c.subject, Name: "builder"}},
			}
			if c.d == Out && c.tenant != space.System {
				b.Namespace += "." + c.tenant
			}
			out, err := protoProjector(c.tenant).Proto(c.d, bindings, seal(t, rbacV1, "RoleBinding", b))
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if got := unseal(t, out, &rbacv1.RoleBinding{}); got.RoleRef.Name != c.wantRole ||
				got.Subjects[0].Namespace != c.wantSubject || got.Subjects[0].Name != "builder" {
				t.Errorf("got %v", got)
			}
		})
	}
}

func FuzzProto(f *testing.F) {
	composite, _ := podList(3, "t1")
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default.t1", Labels: map[string]string{"a": "b"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacGroup, Kind: "ClusterRole", Name: "r.t1.tenant"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default.t1", Name: "builder"}},
	}
	f.Add(seal(f, "v1", "PodList", composite), uint16(3))
	f.Add(seal(f, rbacV1, "RoleBinding", binding), uint16(9))
	f.Add(frames(f, metav1.WatchEvent{
		Type:   "ADDED",
		Object: runtime.RawExtension{Raw: seal(f, rbacV1, "RoleBinding", binding)},
	}), uint16(5))
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		p := protoProjector("t1")
		for _, d := range []Direction{In, Out} {
			//nolint:errcheck // it must not panic, and what it accepts is to be readable
			if b, err := p.Proto(d, podResource, body); err == nil {
				if err := new(runtime.Unknown).Unmarshal(b[len(protoMagic):]); err != nil {
					t.Errorf("accepted, but cannot be read: %v", err)
				}
			}
		}
		for _, watch := range []bool{false, true} {
			w := newProtoStream(p, podResource, watch, io.Discard)
			split := min(int(at), len(body))
			if _, err := w.Write(body[:split]); err != nil {
				continue
			}
			if _, err := w.Write(body[split:]); err != nil {
				continue
			}
			_ = w.Close() //nolint:errcheck // it must not panic
		}
		// The parts of a long list, wherever it is cut.
		s := &protoList{p: p, r: podResource, pieces: pieces{w: io.Discard}}
		if from, err := s.begin(body); err == nil && s.t != nil {
			for s.left > 0 {
				before := s.left
				if from, err = s.progress(body, from); err != nil || s.left == before {
					return
				}
			}
		}
	})
}

// Whatever bytes are sent, what the API server reads of them is composed.
func FuzzProtoInwards(f *testing.F) {
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default",
			Labels: map[string]string{space.Label: "t2", "a": "b"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacGroup, Kind: "ClusterRole", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "builder"},
			{Kind: "User", Name: "u"}},
	}
	raw, err := binding.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	p := protoProjector("t1")
	bindings := Resource{Group: rbacGroup, Version: "v1", Resource: "rolebindings",
		Kind: "RoleBinding", Namespaced: true}
	f.Fuzz(func(t *testing.T, raw []byte) {
		unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: rbacV1, Kind: "RoleBinding"}, Raw: raw}
		b, err := unknown.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Proto(In, bindings, append([]byte(protoMagic), b...))
		native := &rbacv1.RoleBinding{}
		if err != nil || native.Unmarshal(raw) != nil {
			return
		}
		got := unseal(t, out, &rbacv1.RoleBinding{})
		want := native.DeepCopy()
		want.SetSelfLink("")
		want.Namespace = space.Namespace("t1", native.Namespace)
		delete(want.Labels, space.Label)
		group := native.RoleRef.APIGroup
		if group == "" && native.RoleRef.Kind == "ClusterRole" {
			group = rbacGroup
		}
		want.RoleRef.Name, _ = p.View.Name(In, group, native.RoleRef.Kind, native.RoleRef.Name)
		for i, s := range native.Subjects {
			want.Subjects[i].Namespace = space.Namespace("t1", s.Namespace)
			switch s.Kind {
			case "User":
				want.Subjects[i].Name = space.User("t1", s.Name)
			case "Group":
				want.Subjects[i].Name = space.Group("t1", s.Name)
			}
		}
		for i, o := range native.OwnerReferences {
			gv, _ := schema.ParseGroupVersion(o.APIVersion) //nolint:errcheck // what cannot be read has no group
			want.OwnerReferences[i].Name, _ = p.View.Name(In, gv.Group, o.Kind, o.Name)
			if gv.Group == "" && o.Kind == "ClusterRole" {
				want.OwnerReferences[i].Name, _ = p.View.Name(In, rbacGroup, o.Kind, o.Name)
			}
		}
		same(t, "composed", got, want)
	})
}
