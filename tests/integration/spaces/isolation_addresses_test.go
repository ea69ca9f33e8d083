package spaces_test

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// What another partition of the cluster has. Somebody listens at the pod.
const (
	farPods, farServices, farServer = "10.145.0.0/16", "10.45.0.0/16", "198.18.0.9"
	farPod                          = "10.145.0.8"
)

// farPartition is another partition, whose addresses nothing of a tenant may have.
type farPartition struct {
	p   *plane
	pod *reached
}

// plantPartition registers it. No tenant may be made after that, which could be
// placed there.
func plantPartition(t *testing.T, p *plane) *farPartition {
	t.Helper()
	partitions, err := partitionapi.NewPartitionClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	far := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: "far"}, Spec: partitionapi.PartitionSpec{
		Roles: []partitionapi.Role{partitionapi.RoleTenant}, Identity: "of-far", ServiceCIDR: farServices,
		ClusterCIDR: farPods, NodePortRange: "28000-28099", ClusterDNS: "10.45.0.10",
		Servers: []partitionapi.PartitionServer{{Name: "far", Address: farServer + ":6443"}}}}
	if _, err := partitions.Create(t.Context(), far, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &farPartition{p: p, pod: unreachable(t, listenOutside(t, farPod, 443), "a pod of another partition")}
}

// farAddresses are those in it, as a tenant writes them.
func farAddresses(text string) bool {
	ip, ok := inside.Parse(text)
	if !ok {
		return false
	}
	return ip.String() == farServer || slices.ContainsFunc([]string{farPods, farServices}, func(r string) bool {
		return netip.MustParsePrefix(r).Contains(ip)
	})
}

// watch looks at all that is stored in the space of the attacker, until done.
func (f *farPartition) watch(ctx context.Context, t *testing.T, done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan any)
	for _, begin := range []func(metav1.ListOptions) (watch.Interface, error){
		func(o metav1.ListOptions) (watch.Interface, error) {
			return f.p.admin.DiscoveryV1().EndpointSlices("").Watch(ctx, o)
		},
		func(o metav1.ListOptions) (watch.Interface, error) {
			return f.p.admin.CoreV1().Endpoints("").Watch(ctx, o)
		},
	} {
		go func() {
			for ctx.Err() == nil {
				w, err := begin(metav1.ListOptions{})
				if err != nil {
					continue // it is tried again, by a client that waits
				}
				for e := range w.ResultChan() {
					select {
					case events <- e.Object:
					case <-ctx.Done():
						w.Stop()
						return
					}
				}
			}
		}()
	}
	seen := 0
	for {
		select {
		case obj := <-events:
			var of string
			var all []string
			switch o := obj.(type) {
			case *discoveryv1.EndpointSlice:
				of = o.Namespace
				for _, e := range o.Endpoints {
					all = append(all, e.Addresses...)
				}
			//lint:ignore SA1019 tenants still write them
			case *corev1.Endpoints:
				of = o.Namespace
				for _, s := range o.Subsets {
					for _, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
						all = append(all, a.IP)
					}
				}
			}
			if !strings.HasSuffix(of, ".a") {
				continue
			}
			seen++
			for _, a := range all {
				if farAddresses(a) {
					t.Errorf("the attacker has endpoints at %s of another partition: %+v", a, obj)
				}
			}
		case <-done:
			t.Logf("%d changes of the attacker's endpoints were looked at", seen)
			if seen == 0 {
				t.Error("that is too few: the test does not test")
			}
			if n := f.pod.n.Load(); n != 0 {
				t.Errorf("the API server connected to a pod of another partition %d times", n)
			}
			return
		}
	}
}

// elsewhere leads to another partition.
func (g *attacker) elsewhere(r *attack) (path string) {
	ip := pick(g, farPod, farPod, farServer, "10.145.255.1", "10.45.0.1", "10.45.0.10", "::ffff:"+farPod,
		"64:ff9b::a91:8", "10.42.0.8", "198.51.100.7")
	family := "IPv4"
	if strings.Contains(ip, ":") {
		family = "IPv6"
	}
	name := "far" + strconv.Itoa(g.rand.IntN(10))
	const slices, olds = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
		"/api/v1/namespaces/default/endpoints"
	switch g.rand.IntN(6) {
	case 0:
		r.body = `{"metadata":{"name":"` + name + `"},"subsets":[{"` + pick(g, "addresses", "notReadyAddresses") +
			`":[{"ip":"198.51.100.7"},{"ip":"` + ip + `"}],"ports":[{"port":443}]}]}`
		return olds
	case 1:
		r.body = `{"metadata":{"name":"` + name + `","labels":{"kubernetes.io/service-name":"web"}},"addressType":"` +
			pick(g, family, family, "IPv4", "IPv6", "FQDN") + `","endpoints":[{"addresses":["` + ip +
			`"]}],"ports":[{"port":443}]}`
		return slices
	case 2: // what was written with another one before
		r.method = http.MethodPatch
		r.header.Set("Content-Type", "application/merge-patch+json")
		r.body = `{"endpoints":[{"addresses":["198.51.100.7"]},{"addresses":["` + ip + `"]}]}`
		return slices + "/" + name
	case 3:
		r.method = http.MethodPatch
		r.header.Set("Content-Type", "application/apply-patch+yaml")
		r.body = `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"` + name +
			`"},"subsets":[{"addresses":[{"ip":"` + ip + `"}],"ports":[{"port":443}]}]}`
		return olds + "/" + name + "?fieldManager=x&force=true"
	case 4:
		host := ip
		if family == "IPv6" {
			host = "[" + ip + "]"
		}
		r.body = `{"metadata":{"name":"` + name + `"},"webhooks":[{"name":"x.example.com","clientConfig":{` +
			`"url":"https://` + host + `/"},` + notOwn + `,` +
			`"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],` +
			`"resources":["*/*"]}],"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore"}]}`
		return registration + pick(g, "mutating", "validating") + "webhookconfigurations"
	default: // a policy of the tenant writes it into what upstream's controllers write
		r.body = `{"metadata":{"name":"` + name + `"},"spec":{` + notOwn + `,"failurePolicy":"Ignore",` +
			`"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":["discovery.k8s.io"],` +
			`"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["endpointslices"]}]},` +
			`"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":` + strconv.Quote(
			`[JSONPatch{op: 'add', path: '/endpoints', value: [{'addresses': ['`+ip+`']}]}]`) + `}}]}}`
		return registration + "mutatingadmissionpolicies"
	}
}
