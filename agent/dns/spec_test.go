package dns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The tests of this file are named after the sections of the Kubernetes DNS
// specification 1.1.0.

const (
	nxdomain = dns.RcodeNameError
	zoneSOA  = "cluster.local."
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func service(name string, ips []string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ips[0],
			ClusterIPs: ips, Ports: ports},
	}
}

func external(name, target string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: target},
	}
}

func port(name string, proto corev1.Protocol, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: proto, Port: number}
}

func endpoint(hostname string, ready bool, addrs ...string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: addrs, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if hostname != "" {
		e.Hostname = &hostname
	}
	return e
}

func slice(name, svc string, ports []corev1.ServicePort, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: svc}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: eps,
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port})
	}
	return s
}

// cluster is what the specification's examples need.
func cluster() []runtime.Object {
	https := port("https", corev1.ProtocolTCP, 443)
	peer := []corev1.ServicePort{port("Peer", corev1.ProtocolTCP, 2380), port("", corev1.ProtocolUDP, 99)}
	v6 := slice("pets-v6", "pets", peer, endpoint("my-pet", true, "fd00:42::1"))
	v6.AddressType = discoveryv1.AddressTypeIPv6
	return []runtime.Object{
		namespace("default"), namespace("empty"),
		service("kubernetes", []string{"10.43.0.1"}, https, port("", corev1.ProtocolUDP, 53)),
		slice("kubernetes", "kubernetes", []corev1.ServicePort{https}, endpoint("", true, "192.0.2.1")),
		service("dual", []string{"10.43.0.2", "fd00:43::2"}, port("dns", corev1.ProtocolUDP, 53)),
		service("pets", []string{"None"}),
		slice("pets-a", "pets", peer, endpoint("my-pet", true, "10.42.0.100"), endpoint("", true, "10.42.0.101"),
			endpoint("sick", false, "10.42.0.102")),
		slice("pets-b", "pets", peer, endpoint("my-pet", true, "10.42.0.100"), endpoint("host", true, "192.0.2.7")),
		v6,
		service("unready", []string{"None"}),
		slice("unready", "unready", peer, endpoint("a", false, "10.42.0.110")),
	}
}

func TestSpec_2_2_SchemaVersion(t *testing.T) {
	serve(t, nil, cluster()...).check([]expect{
		{name: "dns-version.cluster.local.", qtype: dns.TypeTXT,
			answer: []string{`dns-version.cluster.local. 5 IN TXT "1.1.0"`}},
		{name: "dns-version.cluster.local.", qtype: dns.TypeA, soa: zoneSOA},
		{name: "x.dns-version.cluster.local.", qtype: dns.TypeTXT, rcode: nxdomain, soa: zoneSOA},
	})
}

func TestSpec_2_3_1_ServiceA(t *testing.T) {
	serve(t, nil, cluster()...).check([]expect{
		{name: "kubernetes.default.svc.cluster.local.", qtype: dns.TypeA,
			answer: []string{"kubernetes.default.svc.cluster.local. 5 IN A 10.43.0.1"}},
		{name: "kubernetes.default.svc.cluster.local.", qtype: dns.TypeAAAA, soa: zoneSOA},
		{name: "KUBERNETES.Default.svc.Cluster.LOCAL.", qtype: dns.TypeA,
			answer: []string{"KUBERNETES.Default.svc.Cluster.LOCAL. 5 IN A 10.43.0.1"}},
		{name: "dual.default.svc.cluster.local.", qtype: dns.TypeA,
			answer: []string{"dual.default.svc.cluster.local. 5 IN A 10.43.0.2"}},
		{name: "dual.default.svc.cluster.local.", qtype: dns.TypeAAAA,
			answer: []string{"dual.default.svc.cluster.local. 5 IN AAAA fd00:43::2"}},
		{name: "nosuch.default.svc.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: "kubernetes.nosuch.svc.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		// What a search path makes of an outside name stays inside.
		{name: "www.example.com.default.svc.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: "192-0-2-1.kubernetes.default.svc.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
	})
}

func TestSpec_2_3_2_ServiceSRV(t *testing.T) {
	const name = "_https._tcp.kubernetes.default.svc.cluster.local."
	https := "0 100 443 kubernetes.default.svc.cluster.local."
	extra := []string{"kubernetes.default.svc.cluster.local. 5 IN A 10.43.0.1"}
	serve(t, nil, cluster()...).check([]expect{
		{name: name, qtype: dns.TypeSRV, answer: []string{name + " 5 IN SRV " + https}, extra: extra},
		{name: "_HTTPS._TCP.kubernetes.default.svc.cluster.local.", qtype: dns.TypeSRV, extra: extra,
			answer: []string{"_HTTPS._TCP.kubernetes.default.svc.cluster.local. 5 IN SRV " + https}},
		{name: name, qtype: dns.TypeA, soa: zoneSOA},
		{name: "_tcp.kubernetes.default.svc.cluster.local.", qtype: dns.TypeSRV, soa: zoneSOA},
		{name: "_https._udp.kubernetes.default.svc.cluster.local.", qtype: dns.TypeSRV, rcode: nxdomain, soa: zoneSOA},
		{name: "_._udp.kubernetes.default.svc.cluster.local.", qtype: dns.TypeSRV, rcode: nxdomain, soa: zoneSOA},
		{name: "https._tcp.kubernetes.default.svc.cluster.local.", qtype: dns.TypeSRV, rcode: nxdomain, soa: zoneSOA},
		// Beyond the specification: every port at the service's own name.
		{name: "dual.default.svc.cluster.local.", qtype: dns.TypeSRV,
			answer: []string{"dual.default.svc.cluster.local. 5 IN SRV 0 100 53 dual.default.svc.cluster.local."},
			extra: []string{"dual.default.svc.cluster.local. 5 IN A 10.43.0.2",
				"dual.default.svc.cluster.local. 5 IN AAAA fd00:43::2"}},
	})
}

func TestSpec_2_3_3_ServicePTR(t *testing.T) {
	v6, err := dns.ReverseAddr("fd00:43::2")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, nil, cluster()...).check([]expect{
		{name: "1.0.43.10.in-addr.arpa.", qtype: dns.TypePTR,
			answer: []string{"1.0.43.10.in-addr.arpa. 5 IN PTR kubernetes.default.svc.cluster.local."}},
		{name: "1.0.43.10.in-addr.arpa.", qtype: dns.TypeA, soa: "43.10.in-addr.arpa."},
		{name: "9.9.43.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: nxdomain, soa: "43.10.in-addr.arpa."},
		{name: "0.43.10.in-addr.arpa.", qtype: dns.TypePTR, soa: "43.10.in-addr.arpa."},
		{name: "b._dns-sd._udp.0.43.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: nxdomain,
			soa: "43.10.in-addr.arpa."},
		{name: "10.0.43.10.in-addr.arpa.", qtype: dns.TypePTR,
			answer: []string{"10.0.43.10.in-addr.arpa. 5 IN PTR ns.dns.cluster.local."}},
		{name: v6, qtype: dns.TypePTR, answer: []string{v6 + " 5 IN PTR dual.default.svc.cluster.local."}},
		// Neither range: passed on, and nobody is there.
		{name: "1.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeServerFailure},
	})
}

func TestSpec_2_4_1_HeadlessA(t *testing.T) {
	const svc = "pets.default.svc.cluster.local."
	serve(t, nil, cluster()...).check([]expect{
		{name: svc, qtype: dns.TypeA,
			answer: []string{svc + " 5 IN A 10.42.0.100", svc + " 5 IN A 10.42.0.101", svc + " 5 IN A 192.0.2.7"}},
		{name: svc, qtype: dns.TypeAAAA, answer: []string{svc + " 5 IN AAAA fd00:42::1"}},
		{name: "my-pet." + svc, qtype: dns.TypeA, answer: []string{"my-pet." + svc + " 5 IN A 10.42.0.100"}},
		{name: "MY-pet." + svc, qtype: dns.TypeAAAA, answer: []string{"MY-pet." + svc + " 5 IN AAAA fd00:42::1"}},
		{name: "10-42-0-101." + svc, qtype: dns.TypeA, answer: []string{"10-42-0-101." + svc + " 5 IN A 10.42.0.101"}},
		{name: "10-42-0-101." + svc, qtype: dns.TypeAAAA, soa: zoneSOA},
		{name: "10-42-0-100." + svc, qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA}, // it has a hostname
		{name: "sick." + svc, qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: "x.my-pet." + svc, qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: "unready.default.svc.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
	})
}

func TestSpec_2_4_2_HeadlessSRV(t *testing.T) {
	const name, svc = "_peer._tcp.pets.default.svc.cluster.local.", "pets.default.svc.cluster.local."
	serve(t, nil, cluster()...).check([]expect{
		{name: name, qtype: dns.TypeSRV,
			answer: []string{
				name + " 5 IN SRV 0 100 2380 my-pet." + svc,
				name + " 5 IN SRV 0 100 2380 10-42-0-101." + svc,
				name + " 5 IN SRV 0 100 2380 host." + svc,
			},
			extra: []string{
				"my-pet." + svc + " 5 IN A 10.42.0.100", "my-pet." + svc + " 5 IN AAAA fd00:42::1",
				"10-42-0-101." + svc + " 5 IN A 10.42.0.101", "host." + svc + " 5 IN A 192.0.2.7",
			}},
		{name: "_udp." + svc, qtype: dns.TypeSRV, rcode: nxdomain, soa: zoneSOA}, // its only port has no name
		{name: "_peer._udp." + svc, qtype: dns.TypeSRV, rcode: nxdomain, soa: zoneSOA},
		{name: "_peer._tcp.unready.default.svc.cluster.local.", qtype: dns.TypeSRV, rcode: nxdomain, soa: zoneSOA},
	})
}

func TestSpec_2_4_3_HeadlessPTR(t *testing.T) {
	serve(t, nil, cluster()...).check([]expect{
		{name: "100.0.42.10.in-addr.arpa.", qtype: dns.TypePTR,
			answer: []string{"100.0.42.10.in-addr.arpa. 5 IN PTR my-pet.pets.default.svc.cluster.local."}},
		{name: "101.0.42.10.in-addr.arpa.", qtype: dns.TypePTR,
			answer: []string{"101.0.42.10.in-addr.arpa. 5 IN PTR 10-42-0-101.pets.default.svc.cluster.local."}},
		{name: "102.0.42.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: nxdomain, soa: "42.10.in-addr.arpa."},
		// An endpoint with a node's address.
		{name: "7.2.0.192.in-addr.arpa.", qtype: dns.TypePTR,
			answer: []string{"7.2.0.192.in-addr.arpa. 5 IN PTR host.pets.default.svc.cluster.local."}},
	})
}

func TestSpec_2_5_ExternalName(t *testing.T) {
	up := newUpstream(t, "www.example.com. 300 IN A 192.0.2.53")
	h := serve(t, []string{up.addr}, append(cluster(),
		external("foo", "WWW.example.com"), external("in", "kubernetes.default.svc.cluster.local"),
		external("gone", "nosuch.example.com"), external("addr", "192.0.2.1"),
		external("loop-a", "loop-b.default.svc.cluster.local"),
		external("loop-b", "loop-a.default.svc.cluster.local"))...)
	const d = ".default.svc.cluster.local."
	h.check([]expect{
		{name: "foo" + d, qtype: dns.TypeA,
			answer: []string{"foo" + d + " 5 IN CNAME www.example.com.", "www.example.com. 300 IN A 192.0.2.53"}},
		{name: "foo" + d, qtype: dns.TypeCNAME, answer: []string{"foo" + d + " 5 IN CNAME www.example.com."}},
		{name: "in" + d, qtype: dns.TypeA,
			answer: []string{"in" + d + " 5 IN CNAME kubernetes" + d, "kubernetes" + d + " 5 IN A 10.43.0.1"}},
		{name: "gone" + d, qtype: dns.TypeA, rcode: nxdomain,
			answer: []string{"gone" + d + " 5 IN CNAME nosuch.example.com."}, soa: "example.com."},
		{name: "addr" + d, qtype: dns.TypeA, soa: zoneSOA},
		{name: "x.foo" + d, qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
	})
	if m := h.ask("loop-a"+d, dns.TypeA); m.Rcode != dns.RcodeServerFailure || len(m.Answer) > maxAliases+1 {
		t.Errorf("a loop of external names: %s with %d records", dns.RcodeToString[m.Rcode], len(m.Answer))
	}
}

func TestSpec_2_6_Pod(t *testing.T) {
	serve(t, nil, cluster()...).check([]expect{
		{name: "10-42-0-100.default.pod.cluster.local.", qtype: dns.TypeA,
			answer: []string{"10-42-0-100.default.pod.cluster.local. 5 IN A 10.42.0.100"}},
		{name: "10-42-0-100.default.pod.cluster.local.", qtype: dns.TypeAAAA, soa: zoneSOA},
		{name: "fd00-42--1.default.pod.cluster.local.", qtype: dns.TypeAAAA,
			answer: []string{"fd00-42--1.default.pod.cluster.local. 5 IN AAAA fd00:42::1"}},
		{name: "10-42-0-100.nosuch.pod.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: "10-42-0-300.default.pod.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: "my-pet.default.pod.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
	})
}

// TestZone is about what DNS itself asks of a zone.
func TestZone(t *testing.T) {
	h := serve(t, nil, cluster()...)
	h.check([]expect{
		{name: zoneSOA, qtype: dns.TypeNS, answer: []string{"cluster.local. 5 IN NS ns.dns.cluster.local."},
			extra: []string{"ns.dns.cluster.local. 5 IN A 10.43.0.10"}},
		{name: "43.10.in-addr.arpa.", qtype: dns.TypeNS,
			answer: []string{"43.10.in-addr.arpa. 5 IN NS ns.dns.cluster.local."},
			extra:  []string{"ns.dns.cluster.local. 5 IN A 10.43.0.10"}},
		{name: "ns.dns.cluster.local.", qtype: dns.TypeA, answer: []string{"ns.dns.cluster.local. 5 IN A 10.43.0.10"}},
		{name: zoneSOA, qtype: dns.TypeA, soa: zoneSOA},
		{name: "dns.cluster.local.", qtype: dns.TypeA, soa: zoneSOA},
		{name: "svc.cluster.local.", qtype: dns.TypeA, soa: zoneSOA},
		{name: "pod.cluster.local.", qtype: dns.TypeA, soa: zoneSOA},
		{name: "empty.svc.cluster.local.", qtype: dns.TypeA, soa: zoneSOA},
		{name: "empty.pod.cluster.local.", qtype: dns.TypeA, soa: zoneSOA},
		{name: "nosuch.svc.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: "nosuch.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA},
		{name: zoneSOA, qtype: dns.TypeAXFR, rcode: dns.RcodeRefused},
	})
	for _, apex := range []string{zoneSOA, "42.10.in-addr.arpa."} {
		m := h.ask(apex, dns.TypeSOA)
		if len(m.Answer) != 1 || m.Answer[0].Header().Name != apex ||
			m.Answer[0].(*dns.SOA).Minttl != ttl || !m.Authoritative {
			t.Errorf("SOA of %s: %v", apex, m)
		}
	}
	chaos := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	if m := h.exchange("udp", chaos); m.Rcode != dns.RcodeRefused {
		t.Errorf("class CH: %s, want REFUSED", dns.RcodeToString[m.Rcode])
	}
}

func TestLargeAnswerIsTruncatedOverUDPOnly(t *testing.T) {
	const n, name = 100, "big.default.svc.cluster.local."
	var eps []discoveryv1.Endpoint
	for i := range n {
		eps = append(eps, endpoint("", true, fmt.Sprintf("10.42.1.%d", i)))
	}
	h := serve(t, nil, namespace("default"), service("big", []string{"None"}), slice("big", "big", nil, eps...))
	m := h.ask(name, dns.TypeA)
	m.Compress = true // as it was on the wire
	if !m.Truncated || m.Len() > dns.MinMsgSize {
		t.Errorf("over UDP: truncated=%v with %d octets", m.Truncated, m.Len())
	}
	m = h.exchange("tcp", new(dns.Msg).SetQuestion(name, dns.TypeA))
	if m.Truncated || len(m.Answer) != n {
		t.Errorf("over TCP: truncated=%v with %d records", m.Truncated, len(m.Answer))
	}
	// Clients take the first record, so it must not always be the same.
	first := lines(m.Answer[:1])[0]
	h.await(func() bool {
		again := h.exchange("tcp", new(dns.Msg).SetQuestion(name, dns.TypeA))
		return !strings.EqualFold(lines(again.Answer[:1])[0], first)
	}, "another record comes first")
}
