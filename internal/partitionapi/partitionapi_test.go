package partitionapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func full() *DataPartitionConfig {
	return &DataPartitionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "partition-1", Labels: map[string]string{"a": "b"}},
		RangeStart: "A", RangeEnd: "m", IsRangeEndValid: true, ServiceGroupID: "1", Tenants: []string{"x", "y"},
	}
}

func partition() *Partition {
	return &Partition{ObjectMeta: metav1.ObjectMeta{Name: "tp2"}, Spec: PartitionSpec{
		Roles: Roles(), Identity: "id",
		Servers:     []PartitionServer{{Name: "a", Address: "192.0.2.1:6443"}, {Name: "b"}},
		ServiceCIDR: "10.44.0.0/16", ClusterCIDR: "10.42.0.0/16", NodePortRange: "30000-32767",
		ClusterDNS: "10.44.0.10",
		Removed: []RemovedPartition{{Name: "tp3", Identity: "gone", At: metav1.Unix(1e9, 0)},
			{Name: "tp3", Identity: "another"}},
		Restored: "then",
	}}
}

func placement() *TenantPlacement {
	made := metav1.Unix(1e9, 0)
	return &TenantPlacement{
		ObjectMeta: metav1.ObjectMeta{Name: "team-a"},
		Spec: TenantPlacementSpec{Partition: "tp2", Tenant: &tenantapi.Tenant{
			ObjectMeta: metav1.ObjectMeta{Name: "team-a", Labels: map[string]string{"a": "b"}},
			Spec:       tenantapi.TenantSpec{Nodes: tenantapi.NodesReadOnly},
		}},
		Status: TenantPlacementStatus{Phase: PlacementCreating, TenantUID: "uid", TenantCreated: &made},
	}
}

func TestEncodingsRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	factory := serializer.NewCodecFactory(scheme)
	list := &DataPartitionConfigList{ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items: []DataPartitionConfig{*full(), {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}}
	for name, in := range map[string]runtime.Object{
		"object": full(), "empty": &DataPartitionConfig{}, "list": list,
		"partition": partition(), "partitions": &PartitionList{Items: []Partition{*partition(), {}}},
		"placement": placement(), "placements": &TenantPlacementList{Items: []TenantPlacement{*placement(), {}}},
	} {
		for _, info := range factory.SupportedMediaTypes() {
			t.Run(name+" "+info.MediaType, func(t *testing.T) {
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
				if gvk.GroupVersion() != GroupVersion() || !apiequality.Semantic.DeepEqual(in, out) {
					t.Errorf("%v: got %+v\nwant %+v", gvk, out, in)
				}
			})
		}
	}
}

// TestSeedForm: the object of the seed in JSON. What is false is left out.
func TestSeedForm(t *testing.T) {
	in := full()
	in.Labels, in.Tenants = nil, nil
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata":{"name":"partition-1"},` +
		`"rangeStart":"A","rangeEnd":"m","isRangeEndValid":true,"serviceGroupId":"1"}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}

// TestSeedNumbers: the numbers of the protobuf fields.
func TestSeedNumbers(t *testing.T) {
	in := full()
	in.ObjectMeta, in.IsRangeStartValid, in.Tenants = metav1.ObjectMeta{}, true, []string{"t"}
	data, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{
		2<<3 | 2, 1, 'A', 3 << 3, 1, 4<<3 | 2, 1, 'm', 5 << 3, 1, 6<<3 | 2, 1, '1', 7<<3 | 2, 1, 't',
	}
	if !bytes.HasSuffix(data, want) {
		t.Errorf("got %v, want it to end with %v", data, want)
	}
}

func TestDeepCopySharesNothing(t *testing.T) {
	in := &DataPartitionConfigList{Items: []DataPartitionConfig{*full()}}
	out := in.DeepCopy()
	out.Items[0].Tenants[0], out.Items[0].Labels["a"] = "changed", "changed"
	if !apiequality.Semantic.DeepEqual(&in.Items[0], full()) {
		t.Errorf("the original became %+v", in.Items[0])
	}
	a, b := partition(), placement()
	p, q := a.DeepCopy(), b.DeepCopy()
	p.Spec.Roles[0], p.Spec.Servers[0].Name = "changed", "changed"
	q.Spec.Tenant.Labels["a"], q.Status.TenantCreated.Time = "changed", q.Status.TenantCreated.Add(1)
	if !apiequality.Semantic.DeepEqual(a, partition()) || !apiequality.Semantic.DeepEqual(b, placement()) {
		t.Errorf("the originals became %+v and %+v", a, b)
	}
}

// FuzzUnmarshal checks that no input panics, and that what is understood of it is
// encoded again without a loss.
func FuzzUnmarshal(f *testing.F) {
	b, err := full().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b, 0x7a, 0x01, 0x00, 0x78, 0x05)) // fields of later versions
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second DataPartitionConfig
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

// TestRemovedPartitions: the latest are remembered, each once.
func TestRemovedPartitions(t *testing.T) {
	var s PartitionSpec
	for i := range MaxRemoved + 2 {
		s.Remove(RemovedPartition{Name: "tp", Identity: fmt.Sprint(i)})
	}
	s.Remove(RemovedPartition{Name: "tp", Identity: "7"})
	_, oldest := s.HasRemoved("1")
	_, first := s.HasRemoved("2")
	if len(s.Removed) != MaxRemoved || oldest || !first || s.Removed[MaxRemoved-1].Identity != "7" {
		t.Errorf("%d, %v, %v, %v", len(s.Removed), oldest, first, s.Removed[MaxRemoved-1])
	}
}
