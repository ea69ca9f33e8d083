package main

import (
	"context"

	"github.com/a4s-io/a4s/tests/bench/sides"
)

// clusterCIDR has a network for each of some thousand nodes.
const clusterCIDR = "10.128.0.0/10"

// contestant is a side of the benchmark.
type contestant struct {
	// name is that in the results, short that in arguments and of the host.
	name, short string
	// limited is a side that cannot keep up with the pace of the others.
	limited bool
	// tenants makes spaces tenants, which are namespaces otherwise.
	tenants bool
	start   func(ctx context.Context, m *sides.Maker, host string) (*sides.Side, error)
}

// allContestants are all sides. The first is what the others are compared with.
func allContestants() []contestant {
	return []contestant{
		{name: "upstream, raised", short: "raised", start: upstream(map[string]string{
			"kube-api-qps": "5000", "kube-api-burst": "10000",
		})},
		{name: "a4s, tenants", short: "tenants", tenants: true, start: a4s},
		{name: "a4s, namespaces", short: "namespaces", start: a4s},
		{name: "upstream as kubeadm leaves it", short: "kubeadm", limited: true, start: upstream(nil)},
	}
}

// upstream starts upstream's programs, the clients of the API with these limits.
func upstream(limits map[string]string) func(context.Context, *sides.Maker, string) (*sides.Side, error) {
	return func(ctx context.Context, m *sides.Maker, host string) (*sides.Side, error) {
		controllers := map[string]string{"cluster-cidr": clusterCIDR}
		scheduler := map[string]string{}
		for name, value := range limits {
			controllers[name], scheduler[name] = value, value
		}
		return m.Upstream(ctx, host, sides.UpstreamOptions{Flags: map[string]map[string]string{
			"kube-controller-manager": controllers, "kube-scheduler": scheduler,
		}})
	}
}

// a4s starts a server without a node and without what upstream's programs do not
// do.
func a4s(ctx context.Context, m *sides.Maker, host string) (*sides.Side, error) {
	return m.A4s(ctx, host, append(sides.PlainA4s(), "--disable-agent", "--cluster-cidr", clusterCIDR)...)
}
