package apiendpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and the seed has the groups in them

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// portServers are the servers of a group that have the same port, which all have but by mistake.
type portServers struct {
	group string
	port  corev1.EndpointPort
	ips   []netip.Addr
}

// byGroup are the servers of each group, in a stable order.
func byGroup(all []server, like corev1.EndpointPort) []portServers {
	all = slices.SortedFunc(slices.Values(all), func(a, b server) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.port, b.port), a.ip.Compare(b.ip))
	})
	var out []portServers
	for _, s := range all {
		if n := len(out) - 1; n < 0 || out[n].group != s.group || out[n].port.Port != s.port {
			p := portServers{group: s.group, port: like}
			p.port.Port = s.port
			out = append(out, p)
		}
		out[len(out)-1].ips = append(out[len(out)-1].ips, s.ip)
	}
	return out
}

// mixed reports whether a server without a group lives.
func mixed(all []server) bool {
	return slices.ContainsFunc(all, func(s server) bool { return s.group == "" })
}

// subsets are those of Endpoints, and what the annotation says of them.
func subsets(all []server, like corev1.EndpointPort) (out []corev1.EndpointSubset, groups string) {
	if mixed(all) {
		// As upstream's reconciler has them.
		return []corev1.EndpointSubset{{
			Addresses: addresses(everyone(all)), Ports: []corev1.EndpointPort{like}}}, ""
	}
	var ids []string
	for _, p := range byGroup(all, like) {
		out = append(out, corev1.EndpointSubset{Addresses: addresses(p.ips), Ports: []corev1.EndpointPort{p.port}})
		ids = append(ids, p.group)
	}
	return out, strings.Join(ids, ",")
}

// everyone are the addresses of all servers.
func everyone(all []server) []netip.Addr {
	var ips []netip.Addr
	for _, s := range all {
		ips = append(ips, s.ip)
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips)
}

func addresses(ips []netip.Addr) []corev1.EndpointAddress {
	out := make([]corev1.EndpointAddress, 0, len(ips))
	for _, ip := range ips {
		out = append(out, corev1.EndpointAddress{IP: ip.String()})
	}
	return out
}

// correct makes Endpoints what they should be, and reports whether they were not.
func correct(e *corev1.Endpoints, all []server, like corev1.EndpointPort) (changed bool) {
	want, groups := subsets(all, like)
	if e.Annotations[partitionapi.GroupsAnnotation] != groups {
		changed = true
		if delete(e.Annotations, partitionapi.GroupsAnnotation); groups != "" {
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, partitionapi.GroupsAnnotation, groups)
		}
	}
	// We make the slices ourselves.
	if e.Labels[discoveryv1.LabelSkipMirror] != "true" {
		changed = true
		metav1.SetMetaDataLabel(&e.ObjectMeta, discoveryv1.LabelSkipMirror, "true")
	}
	if mixed(all) && len(e.Subsets) == 1 && sameAddresses(e.Subsets[0].Addresses, want[0].Addresses) {
		return changed // in upstream's order, and with the port of its server
	}
	if !apiequality.Semantic.DeepEqual(e.Subsets, want) {
		changed, e.Subsets = true, want
	}
	return changed
}

func sameAddresses(have, want []corev1.EndpointAddress) bool {
	found := map[string]bool{}
	for _, a := range have {
		found[a.IP] = true
	}
	missing := slices.ContainsFunc(want, func(a corev1.EndpointAddress) bool { return !found[a.IP] })
	return len(have) == len(want) && !missing
}

// endpointSlices are those of the groups by name and, while no server has upstream's
// reconciler, which has it then, the one of all that a tenant sees as its own.
func endpointSlices(service string, all []server, like corev1.EndpointPort) map[string]*discoveryv1.EndpointSlice {
	out := map[string]*discoveryv1.EndpointSlice{}
	found := byGroup(slices.DeleteFunc(slices.Clone(all), func(s server) bool { return s.group == "" }), like)
	for _, p := range found {
		name := service + "-" + p.group + "-" + strconv.Itoa(int(p.port.Port))
		out[name] = endpointSlice(service, name, p.ips, p.port)
		out[name].Labels[partitionapi.GroupLabel] = p.group
	}
	if mixed(all) {
		return out
	}
	whole := portServers{port: like}
	for i, p := range found {
		if i == 0 {
			whole.port = p.port
		}
		if p.port.Port == whole.port.Port { // a slice has one
			whole.ips = append(whole.ips, p.ips...)
		}
	}
	slices.SortFunc(whole.ips, netip.Addr.Compare)
	out[service] = endpointSlice(service, service, whole.ips, whole.port)
	return out
}

func endpointSlice(service, name string, ips []netip.Addr, port corev1.EndpointPort) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{},
		Ports:       []discoveryv1.EndpointPort{{Name: &port.Name, Port: &port.Port, Protocol: &port.Protocol}},
	}
	ready := true
	for _, ip := range ips {
		if ip.Is6() {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return s
}
