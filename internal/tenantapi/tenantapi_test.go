package tenantapi

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func full(name string) Tenant {
	n := int64(3)
	zero, no := int64(0), false
	t := Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b", "c": "d"},
			Finalizers: []string{Finalizer}, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0))},
		Spec: TenantSpec{Limits: &TenantLimits{Namespaces: &n, Objects: &zero}, CRDPolicy: SystemCRDFirst,
			Nodes: NodesReadOnly, Partition: "tp2", DeletionProtection: &no, Cordoned: true, Template: "gold",
			PodSecurity: "restricted", Allow: fullAllowances(),
			Images: []string{"registry.example.com/team", "docker.io"},
			Scheduling: &TenantScheduling{NodeSelector: map[string]string{"a": "b", "c": ""}, Exclusive: true,
				Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists,
					Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &zero}, {}}}},
		Status: TenantStatus{Phase: Active, Conditions: []metav1.Condition{
			{Type: SpaceReady, Status: metav1.ConditionTrue, Reason: "Made", Message: "x",
				LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0))},
			{Type: SpaceEmpty, Status: metav1.ConditionFalse},
		}, Template: &AppliedTemplate{Name: "gold", UID: "u", Generation: 3,
			Objects: []TemplateObject{{Kind: "Role", Namespace: "default", Name: "r"}}},
			Effective: &EffectiveSpec{PodSecurity: "baseline", Allow: &TenantAllowances{},
				Images: []string{"docker.io"}, Scheduling: &TenantScheduling{}}},
	}
	return t
}

func fullAllowances() *TenantAllowances {
	no, yes, list := false, true, []string{"a", "b"}
	return &TenantAllowances{VolumeTypes: list, CSIDrivers: list, HostPorts: list, LoadBalancerPorts: list,
		NodeNames: &no, TolerationKeys: list, PriorityClasses: list, RuntimeClasses: list, StorageClasses: list,
		DeviceClasses: list, DeviceAdminAccess: &yes}
}

func fullTemplate() *TenantTemplate {
	n := int64(3)
	return &TenantTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gold", Generation: 2},
		Spec: TenantTemplateSpec{Default: true, Limits: &TenantLimits{Pods: &n}, Labels: map[string]string{"a": "b"},
			Objects: []runtime.RawExtension{{Raw: []byte(`{"a":1}`)}, {Raw: []byte(`{}`)}}, AtATime: 2, MaxFailed: 1,
			PodSecurity: "privileged", Allow: fullAllowances(), Scheduling: &TenantScheduling{}, Images: []string{"*"},
			DeletionProtection: new(true)},
		Status: TenantTemplateStatus{Tenants: 3, Current: 2, Failed: 1,
			Conditions: []metav1.Condition{{Type: RolledOut, Status: metav1.ConditionFalse}}},
	}
}

func fullAccess() *TenantAccess {
	n, at := int64(600), metav1.NewTime(time.Unix(1e9, 0))
	return &TenantAccess{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Finalizers: []string{AccessFinalizer}},
		Spec: TenantAccessSpec{Tenant: "t1", User: "u", Groups: []string{"g", "h"}, Role: "edit", Namespace: "default",
			ServiceAccount: &AccessAccount{Namespace: "default", Name: "s"}, ExpirationSeconds: &n, Expires: &at,
			Secret: AccessSecret{Namespace: "argocd", Name: "s", Format: FormatArgoCD,
				Labels: map[string]string{"a": "b"}}, Server: "https://a4s.example.com"},
		Status: TenantAccessStatus{Conditions: []metav1.Condition{{Type: AccessReady, Status: metav1.ConditionTrue}},
			TenantUID: "u", ExpirationTimestamp: &at, Binding: &AccessBinding{Namespace: "default", Name: "b"},
			Namespaces: []AccessNamespace{{Name: "default", UID: "v", Generation: 2}}},
	}
}

func codecs(t *testing.T) (*runtime.Scheme, serializer.CodecFactory) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s, serializer.NewCodecFactory(s)
}

func TestEncodingsRoundTrip(t *testing.T) {
	scheme, factory := codecs(t)
	one := full("t1")
	list := &TenantList{ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items: []Tenant{full("a"), {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}}
	for name, in := range map[string]runtime.Object{"object": &one,
		"empty": &Tenant{Spec: TenantSpec{Limits: &TenantLimits{}}}, "list": list, "template": fullTemplate(),
		"list of templates": &TenantTemplateList{Items: []TenantTemplate{*fullTemplate(), {}}}, "access": fullAccess(),
		"list of accesses": &TenantAccessList{Items: []TenantAccess{*fullAccess(), {}}}} {
		for _, info := range factory.SupportedMediaTypes() {
			t.Run(name+" "+info.MediaType, func(t *testing.T) {
				// This is how storage writes and reads: from and to the
				// internal version.
				var b bytes.Buffer
				if err := factory.EncoderForVersion(info.Serializer, GroupVersion()).
					Encode(in.DeepCopyObject(), &b); err != nil {
					t.Fatal(err)
				}
				out, gvk, err := factory.DecoderToVersion(info.Serializer, runtime.InternalGroupVersioner).
					Decode(b.Bytes(), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if gvk.GroupVersion() != GroupVersion() {
					t.Errorf("encoded as %v", gvk)
				}
				if !apiequality.Semantic.DeepEqual(in, out) {
					t.Errorf("got %+v\nwant %+v", out, in)
				}
			})
		}
	}
	t.Run("lists in chunks", func(t *testing.T) {
		var whole, chunks bytes.Buffer
		if err := protobuf.NewSerializer(scheme, scheme).Encode(list, &whole); err != nil {
			t.Fatal(err)
		}
		if err := protobuf.NewSerializerWithOptions(scheme, scheme,
			protobuf.SerializerOptions{StreamingCollectionsEncoding: true}).Encode(list, &chunks); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(whole.Bytes(), chunks.Bytes()) {
			t.Errorf("chunks %x\nwhole  %x", chunks.Bytes(), whole.Bytes())
		}
	})
}

func TestMarshalFillsItsBuffer(t *testing.T) {
	in := full("t1")
	want, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, in.Size()+5)
	if n, err := in.MarshalTo(b); err != nil || !bytes.Equal(b[:n], want) {
		t.Errorf("MarshalTo = %d, %v", n, err)
	}
	b = make([]byte, in.Size()+5)
	if n, err := in.MarshalToSizedBuffer(b); err != nil || !bytes.Equal(b[len(b)-n:], want) {
		t.Errorf("MarshalToSizedBuffer = %d, %v", n, err)
	}
	if _, err := in.MarshalTo(make([]byte, len(want)-1)); err == nil {
		t.Error("MarshalTo wrote into a buffer that is too small")
	}
}

// FuzzUnmarshal checks that no input panics and that what is understood of it
// is encoded again without a loss.
func FuzzUnmarshal(f *testing.F) {
	seed := full("t1")
	b, err := seed.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b, 0x7a, 0x01, 0x00, 0x78, 0x05, 0x7d, 1, 2, 3, 4)) // fields of later versions
	f.Add([]byte{0x08, 0x01})                                        // a number where a message belongs
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second Tenant
		if first.Unmarshal(data) != nil {
			return
		}
		again, err := first.Marshal()
		if err != nil {
			t.Skip(err) // strings that are not UTF-8
		}
		if err := second.Unmarshal(again); err != nil {
			t.Fatal(err)
		}
		if !apiequality.Semantic.DeepEqual(first, second) {
			t.Errorf("got %+v\nwant %+v", second, first)
		}
	})
}

func TestDeepCopySharesNothing(t *testing.T) {
	in := &TenantList{Items: []Tenant{full("a")}}
	out := in.DeepCopy()
	if !apiequality.Semantic.DeepEqual(in, out) {
		t.Fatalf("got %+v, want %+v", out, in)
	}
	c := &out.Items[0]
	*c.Spec.Limits.Namespaces = 9
	c.Labels["a"] = "x"
	c.Status.Conditions[0].Reason = "x"
	c.Status.Template.Objects[0].Name = "x"
	want := full("a")
	if !apiequality.Semantic.DeepEqual(in.Items[0], want) {
		t.Errorf("a change of the copy changed %+v", in.Items[0])
	}
}
