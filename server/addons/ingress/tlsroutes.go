package ingress

import (
	"iter"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/addons/gateway"
)

// securedHosts yields the hosts of an Ingress that it has TLS for, by whatever certificate. The others leave it to
// whoever asks for it.
func securedHosts(ingress *networkingv1.Ingress) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(ingress.Spec.TLS) == 0 {
			return
		}
		named, all := map[string]bool{}, false
		for i := range ingress.Spec.TLS {
			entry := &ingress.Spec.TLS[i]
			all = all || len(entry.Hosts) == 0
			for _, host := range entry.Hosts {
				named[host] = true
			}
		}
		for _, host := range hostsOf(ingress) {
			if (all || named[host] || named[wildcardOver(host)]) && !yield(host) {
				return
			}
		}
	}
}

// openedBy are the hosts whose connections with TLS Ingresses have opened, and since when the oldest of each is there.
func openedBy(ingresses []*networkingv1.Ingress) map[string]time.Time {
	out := map[string]time.Time{}
	for _, ingress := range ingresses {
		for host := range securedHosts(ingress) {
			if was, ok := out[host]; !ok || ingress.CreationTimestamp.Time.Before(was) {
				out[host] = ingress.CreationTimestamp.Time
			}
		}
	}
	return out
}

// pass has the connections with TLS for a host go where a TLSRoute says. It counts as a path.
func (r *resolver) pass(from source, rule *gateway.Rule) {
	if !r.oneMore(from) {
		return
	}
	r.served[from.key] = true
	var path joinapi.IngressPath
	r.split(from, rule, &path)
	r.at(rule.Host).Passthrough = &joinapi.IngressPassthrough{Split: path.Split}
}
