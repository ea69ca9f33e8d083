package origin

import (
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// projector reads the resolver file anew: the kubelet, too, reads it whenever
// it starts a pod.
func (o Options) projector() podProjector {
	p := podProjector{options: o}
	if o.ResolvConf == "" {
		return p
	}
	// Without the file the kubelet starts no pod, and says so.
	if content, err := os.ReadFile(o.ResolvConf); err == nil {
		p.hostSearch = searchDomains(string(content))
	}
	return p
}

// searchDomains returns those of a resolver file, of which the last search
// line counts.
func searchDomains(conf string) []string {
	var out []string
	for line := range strings.Lines(conf) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		out = nil
		for _, domain := range fields[1:] {
			if domain != "." {
				out = append(out, strings.TrimSuffix(domain, "."))
			}
		}
	}
	return out
}

// setDNS spells out what the kubelet would compose for a pod that resolves
// names in the cluster, with the native namespace.
func (p podProjector) setDNS(spec *corev1.PodSpec, native string, partition Partition) {
	o := p.options
	if len(partition.ClusterDNS) > 0 {
		o.ClusterDNS = partition.ClusterDNS
	}
	switch {
	case len(o.ClusterDNS) == 0 || o.ClusterDomain == "":
		return // then the namespace is in no search path
	case spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet:
	case spec.DNSPolicy == corev1.DNSClusterFirst && !spec.HostNetwork:
	default:
		return
	}
	ndots := "5"
	config := corev1.PodDNSConfig{
		Nameservers: slices.Clone(o.ClusterDNS),
		Searches:    []string{native + ".svc." + o.ClusterDomain, "svc." + o.ClusterDomain, o.ClusterDomain},
		Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: &ndots}},
	}
	config.Searches = append(config.Searches, p.hostSearch...)
	if user := spec.DNSConfig; user != nil {
		config.Nameservers = append(config.Nameservers, user.Nameservers...)
		config.Searches = append(config.Searches, user.Searches...)
		config.Options = append(config.Options, user.Options...) // the last one of a name wins
	}
	config.Nameservers = unique(config.Nameservers)
	config.Searches = unique(config.Searches)
	spec.DNSPolicy, spec.DNSConfig = corev1.DNSNone, &config
}

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
