package apiendpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and the seed has the groups in them

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var https = corev1.EndpointPort{Name: "https", Port: 6443, Protocol: corev1.ProtocolTCP}

// living are servers, each "address group" or "address group port"; without a group its
// reconciler is upstream's.
func living(t *testing.T, servers ...string) []server {
	t.Helper()
	var out []server
	for _, text := range servers {
		s := server{port: 6443}
		words := strings.Fields(text)
		s.ip = netip.MustParseAddr(words[0])
		if len(words) == 1 {
			s.port = 0
		} else {
			s.group = words[1]
		}
		if len(words) == 3 {
			if _, err := fmt.Sscan(words[2], &s.port); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, s)
	}
	return out
}

// shown is Endpoints as text: the annotation, and of each subset its addresses and port.
func shown(e *corev1.Endpoints) string {
	out := []string{e.Annotations["a4s.io/service-groups"]}
	for _, s := range e.Subsets {
		var ips []string
		for _, a := range s.Addresses {
			ips = append(ips, a.IP)
		}
		out = append(out, fmt.Sprintf("%s:%d", strings.Join(ips, " "), s.Ports[0].Port))
	}
	return strings.Join(out, " | ")
}

// TestSubsets: one subset for each group, as the leases of the original's tests have
// them, and upstream's form while a server without a group lives.
func TestSubsets(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers []string
		want    string
		slices  []string
	}{
		{"nobody", nil, "", []string{"kubernetes ="}},
		{"one server", []string{"192.0.2.1 0"}, "0 | 192.0.2.1:6443",
			[]string{"kubernetes =192.0.2.1", "kubernetes-0-6443 0=192.0.2.1"}},
		{"two servers of one group, sorted", []string{"192.0.2.10 1", "192.0.2.9 1"}, "1 | 192.0.2.9 192.0.2.10:6443",
			[]string{"kubernetes =192.0.2.9 192.0.2.10", "kubernetes-1-6443 1=192.0.2.9 192.0.2.10"}},
		{"five servers in two groups",
			[]string{"192.0.2.5 1", "192.0.2.1 0", "192.0.2.4 1", "192.0.2.3 0", "192.0.2.2 0"},
			"0,1 | 192.0.2.1 192.0.2.2 192.0.2.3:6443 | 192.0.2.4 192.0.2.5:6443",
			[]string{"kubernetes =192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4 192.0.2.5",
				"kubernetes-0-6443 0=192.0.2.1 192.0.2.2 192.0.2.3", "kubernetes-1-6443 1=192.0.2.4 192.0.2.5"}},
		{"one without a group", []string{"192.0.2.2 1", "192.0.2.1"}, " | 192.0.2.1 192.0.2.2:6443",
			[]string{"kubernetes-1-6443 1=192.0.2.2"}},
		{"other ports", []string{"192.0.2.1 0", "192.0.2.2 0 7443", "192.0.2.3 1"},
			"0,0,1 | 192.0.2.1:6443 | 192.0.2.2:7443 | 192.0.2.3:6443",
			[]string{"kubernetes =192.0.2.1 192.0.2.3", "kubernetes-0-6443 0=192.0.2.1",
				"kubernetes-0-7443 0=192.0.2.2", "kubernetes-1-6443 1=192.0.2.3"}},
		{"IPv6", []string{"2001:db8::1 0"}, "0 | 2001:db8::1:6443",
			[]string{"kubernetes =2001:db8::1", "kubernetes-0-6443 0=2001:db8::1"}},
	} {
		all := living(t, c.servers...)
		var e corev1.Endpoints
		if !correct(&e, all, https) {
			t.Errorf("%s: an empty object is right", c.name)
		}
		if got := shown(&e); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if e.Labels[discoveryv1.LabelSkipMirror] != "true" {
			t.Errorf("%s: upstream makes a slice of it, too", c.name)
		}
		slices.Reverse(all)
		if correct(&e, all, https) {
			t.Errorf("%s: what is right is changed to %s", c.name, shown(&e))
		}
		var made []string
		for name, s := range endpointSlices("kubernetes", all, https) {
			var ips []string
			for _, e := range s.Endpoints {
				ips = append(ips, e.Addresses...)
				if (s.AddressType == discoveryv1.AddressTypeIPv6) != strings.Contains(e.Addresses[0], ":") {
					t.Errorf("%s: %s is %s", c.name, e.Addresses[0], s.AddressType)
				}
			}
			if s.Name != name || s.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
				t.Errorf("%s: %+v", c.name, s.ObjectMeta)
			}
			made = append(made, name+" "+s.Labels["a4s.io/service-group"]+"="+strings.Join(ips, " "))
		}
		slices.Sort(made)
		if !slices.Equal(made, c.slices) {
			t.Errorf("%s: slices %q, want %q", c.name, made, c.slices)
		}
	}
}

// TestUpstreamsFormIsLeft: what upstream's reconciler wrote is not changed while it
// writes, whatever the order and the port.
func TestUpstreamsFormIsLeft(t *testing.T) {
	e := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "192.0.2.2"}, {IP: "192.0.2.1"}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: 7443, Protocol: corev1.ProtocolTCP}}}},
	}
	all := living(t, "192.0.2.1", "192.0.2.2 1")
	if correct(e, all, https) {
		t.Errorf("it became %s", shown(e))
	}
	if !correct(e, living(t, "192.0.2.1"), https) || shown(e) != " | 192.0.2.1:6443" {
		t.Errorf("a dead server is left in %s", shown(e))
	}
	e.Annotations = map[string]string{"a4s.io/service-groups": "1"}
	if !correct(e, living(t, "192.0.2.1"), https) || len(e.Annotations) != 0 {
		t.Errorf("groups are left: %v", e.Annotations)
	}
}

// TestRead: a lease of upstream's server has no group, whatever was there before.
func TestRead(t *testing.T) {
	lease := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a4s.io/service-groups": "1"}},
		Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}},
			Ports: []corev1.EndpointPort{{Port: 6443}}}},
	}
	if s, ok := read(lease); !ok || s != living(t, "192.0.2.1 1")[0] {
		t.Errorf("%+v %t", s, ok)
	}
	lease.Subsets[0].Ports = nil
	if s, ok := read(lease); !ok || s != living(t, "192.0.2.1")[0] {
		t.Errorf("%+v %t", s, ok)
	}
	lease.Subsets[0].Addresses[0].IP = "junk"
	if _, ok := read(lease); ok {
		t.Error("junk is a server")
	}
	if _, ok := read(&corev1.Endpoints{}); ok {
		t.Error("nothing is a server")
	}
}
