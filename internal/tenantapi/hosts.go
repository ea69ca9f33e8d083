package tenantapi

import (
	"iter"
	"strings"
)

// HostEntries are the entries of spec.hosts by which a host of an Ingress may be had, but for Everything: its
// name, and "*." with each name above it. A wildcard is one of its own entries; no host has none.
func HostEntries(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if host == "" || !yield(host) {
			return
		}
		for rest := strings.TrimPrefix(host, "*."); ; {
			_, above, ok := strings.Cut(rest, ".")
			if !ok || !yield("*."+above) {
				return
			}
			rest = above
		}
	}
}
