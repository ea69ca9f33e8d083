package allocations

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func requests(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func full() *NodeAllocation {
	return &NodeAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"a": "b"}},
		Shares: []Share{
			{Partition: "tp1", Requests: requests("1500m", "2Gi"), Pods: 3,
				HostPorts: []HostPort{{Protocol: corev1.ProtocolUDP, IP: "0.0.0.0", Port: 53}}},
			{Partition: "tp2", Pods: 1},
		},
		Awaited: []string{"tp3"},
	}
}

func TestEncodingsRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	factory := serializer.NewCodecFactory(scheme)
	list := &NodeAllocationList{ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items: []NodeAllocation{*full(), {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}}
	for name, in := range map[string]runtime.Object{"object": full(), "empty": &NodeAllocation{}, "list": list} {
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

func TestDeepCopySharesNothing(t *testing.T) {
	in := &NodeAllocationList{Items: []NodeAllocation{*full()}}
	out := in.DeepCopy()
	out.Items[0].Shares[0].Requests[corev1.ResourceCPU] = resource.MustParse("9")
	out.Items[0].Shares[0].HostPorts[0].Port, out.Items[0].Awaited[0] = 1, "x"
	if !apiequality.Semantic.DeepEqual(&in.Items[0], full()) {
		t.Errorf("the original became %+v", in.Items[0])
	}
}

// FuzzUnmarshal checks that no input panics, and that what is understood of it is encoded
// again without a loss.
func FuzzUnmarshal(f *testing.F) {
	b, err := full().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second NodeAllocation
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

// TestOthersIsTheRest: after any sequence of writes, each partition has what it wrote
// last, and the others what they wrote last together.
func TestOthersIsTheRest(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, last := &NodeAllocation{}, map[string]Share{}
		for range r.IntN(30) {
			s := Share{Partition: fmt.Sprintf("tp%d", r.IntN(4)), Pods: int64(r.IntN(3)),
				Requests: requests(fmt.Sprintf("%dm", r.IntN(3)*100), fmt.Sprintf("%dMi", r.IntN(3)))}
			for range r.IntN(3) {
				s.HostPorts = append(s.HostPorts, HostPort{Protocol: corev1.ProtocolTCP, IP: anywhere,
					Port: int64(r.IntN(4) + 1)})
			}
			s.Normalize()
			a.Set(*s.DeepCopy())
			last[s.Partition] = s
		}
		if !slices.IsSortedFunc(a.Shares, func(a, b Share) int { return strings.Compare(a.Partition, b.Partition) }) {
			t.Errorf("seed %d: shares are not in order: %+v", seed, a.Shares)
		}
		for partition, s := range last {
			if got := a.Of(partition); !got.Equal(s) {
				t.Errorf("seed %d: share of %s is %+v, want %+v", seed, partition, got, s)
			}
			var want Share
			for name, o := range last {
				if name != partition {
					want.Add(*o.DeepCopy())
				}
			}
			want.Normalize()
			if got := a.Others(partition); !got.Equal(want) {
				t.Errorf("seed %d: others of %s have %+v, want %+v", seed, partition, got, want)
			}
		}
	}
}

func TestSetEndsTheWaiting(t *testing.T) {
	a := &NodeAllocation{Awaited: []string{"a", "b"}}
	a.Set(Share{Partition: "a"})
	if !slices.Equal(a.Awaited, []string{"b"}) || len(a.Shares) != 0 {
		t.Errorf("%+v", a)
	}
}

// TestSumsAreBounded: what pods ask for cannot make a sum wrap around, and the sum reads
// back as it was written.
func TestSumsAreBounded(t *testing.T) {
	var s Share
	for range 3 {
		s.Add(OfPod(&corev1.Pod{}, requests("9223372036854775807", "9223372036854775807")))
	}
	if s.Requests.Cpu().MilliValue() <= 0 || s.Requests.Cpu().MilliValue()*2 <= 0 {
		t.Errorf("cpu is %d m", s.Requests.Cpu().MilliValue())
	}
	if why := Full(OfPod(&corev1.Pod{}, requests("1", "1")), s, Share{}, requests("8", "8Gi")); why == "" {
		t.Error("there is room")
	}
	s.Partition = "a"
	in := &NodeAllocation{Shares: []Share{s}}
	data, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var out NodeAllocation
	if err := out.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	if !out.Shares[0].Equal(s) {
		t.Errorf("%+v became %+v", s, out.Shares[0])
	}
}

func TestFull(t *testing.T) {
	node := requests("4", "8Gi")
	node[corev1.ResourcePods] = resource.MustParse("3")
	port := func(ip string) []HostPort { return []HostPort{{Protocol: corev1.ProtocolTCP, IP: ip, Port: 80}} }
	one := Share{Requests: requests("1", "1Gi"), Pods: 1}
	for name, tc := range map[string]struct {
		pod, own, others Share
		want             string
	}{
		"empty": {one, one, Share{}, ""},
		"exactly full": {one, Share{Requests: requests("2", "1Gi"), Pods: 2},
			Share{Requests: requests("2", "0"), Pods: 1}, ""},
		"over": {one, Share{Requests: requests("2", "1Gi")}, Share{Requests: requests("2001m", "0")},
			"of cpu, 4001m"},
		"not asked for": {Share{Pods: 1}, Share{Requests: requests("5", "1Gi"), Pods: 1}, Share{}, ""},
		"not there": {Share{Requests: corev1.ResourceList{"x/y": resource.MustParse("1")}},
			Share{Requests: corev1.ResourceList{"x/y": resource.MustParse("1")}}, Share{},
			"of x/y, 1 would be taken of 0"},
		"pods":       {one, Share{Pods: 2}, Share{Pods: 2}, "4 pods, more than 3"},
		"port":       {Share{HostPorts: port(anywhere)}, Share{}, Share{HostPorts: port("192.0.2.1")}, "port 80/TCP"},
		"other port": {Share{HostPorts: port("192.0.2.2")}, Share{}, Share{HostPorts: port("192.0.2.1")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Full(tc.pod, tc.own, tc.others, node)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLowered(t *testing.T) {
	before := Share{Requests: requests("2", "1Gi"), Pods: 2, HostPorts: []HostPort{{Port: 1}}}
	for name, tc := range map[string]struct {
		change func(*Share)
		want   bool
	}{
		"same": {func(*Share) {}, false},
		"more": {func(s *Share) { s.Requests[corev1.ResourceCPU] = resource.MustParse("3") }, false},
		"less cpu, more pods": {func(s *Share) {
			s.Pods++
			s.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		}, true},
		"nothing of a resource": {func(s *Share) { delete(s.Requests, corev1.ResourceMemory) }, true},
		"fewer pods":            {func(s *Share) { s.Pods-- }, true},
		"a port":                {func(s *Share) { s.HostPorts = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := before.DeepCopy()
			tc.change(now)
			if got := now.Lowered(before); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestOfPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(n int32) []corev1.ContainerPort { return []corev1.ContainerPort{{HostPort: n}, {ContainerPort: 8}} }
	got := OfPod(&corev1.Pod{Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Ports: port(80)}},
		InitContainers: []corev1.Container{{Ports: port(70), RestartPolicy: &always}, {Ports: port(60)}},
	}}, requests("1", "0"))
	want := Share{Pods: 1, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		HostPorts: []HostPort{{corev1.ProtocolTCP, anywhere, 70}, {corev1.ProtocolTCP, anywhere, 80}}}
	if !got.Equal(want) {
		t.Errorf("got %+v", got)
	}
}

func TestRaise(t *testing.T) {
	dns := HostPort{Port: 53, Protocol: corev1.ProtocolUDP, IP: anywhere}
	before := Share{Requests: requests("2", "1Gi"), Pods: 3, HostPorts: []HostPort{dns}}
	for what, c := range map[string]struct{ now, want Share }{
		"nothing": {Share{}, before},
		"more of one": {Share{Requests: requests("1", "4Gi"), Pods: 5},
			Share{Requests: requests("2", "4Gi"), Pods: 5, HostPorts: []HostPort{dns}}},
		"the same": {before, before},
	} {
		c.now.Raise(before)
		if !c.now.Equal(c.want) || c.now.Lowered(before) {
			t.Errorf("%s: it is %+v, want %+v", what, c.now, c.want)
		}
	}
}
