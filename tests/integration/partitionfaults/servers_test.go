package partitionfaults_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/tests/hosts"
)

// pair is home and a tenant partition, each of several servers.
type pair struct {
	homes, tps []*server // those that run
	turn       int
}

// TestServersOfPartitionsAreKilled: home and a tenant partition have three servers each, of
// which those that lead are killed. Tenants and nodes go on, what is done by one server at a
// time is done by another, and the list of servers has those that are there.
func TestServersOfPartitionsAreKilled(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	home := n.home(t, "--cluster-init")
	p := &pair{homes: []*server{home, n.join(t, home, "home-2"), n.join(t, home, "home-3")}}
	tp := n.begin(t, home, "tp2-1", 0, "--tenant-partition", "tp2", "--cluster-init")
	p.tps = []*server{tp, n.join(t, tp, "tp2-2"), n.join(t, tp, "tp2-3")}
	homes, tps := slices.Clone(p.homes), slices.Clone(p.tps)
	awaitServers(t, home, "main", homes...)
	awaitServers(t, home, "tp2", tps...)
	hollow(t, homes, "n0")
	p.works(t, "all servers run")

	lost := p.killLeader(t, &p.tps)
	p.works(t, "the leader of tp2 is down")
	awaitServers(t, p.homes[0], "tp2", p.tps...)

	other := p.killLeader(t, &p.homes)
	p.works(t, "the leader of home is down, too")
	// They know it from the partition that lost a server.
	awaitServers(t, p.tps[0], "main", p.homes...)

	for _, s := range []*server{lost, other} {
		s.start(t)
		s.ready(t)
	}
	p.homes, p.tps = homes, tps
	for _, s := range []*server{homes[0], tps[0]} {
		awaitServers(t, s, "main", homes...)
		awaitServers(t, s, "tp2", tps...)
	}
	p.works(t, "all servers run again")

	// A partition that is down keeps its addresses, by which it is found again.
	for _, s := range tps {
		s.kill()
	}
	_, err := home.tenants(t).Create(t.Context(), &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "down"},
		Spec: tenantapi.TenantSpec{Partition: "tp2"}}, metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a tenant is made in a partition that is down: %v", err)
	}
	awaitServers(t, home, "tp2", tps...)
	for _, s := range tps {
		s.start(t)
	}
	for _, s := range tps {
		s.ready(t)
	}
	p.works(t, "tp2 was down")
}

// killLeader kills the server that leads.
func (p *pair) killLeader(t *testing.T, of *[]*server) (killed *server) {
	t.Helper()
	hosts.Until(t, settled, "one of the servers leads", func(ctx context.Context) (err error) {
		killed, err = leader(ctx, *of)
		return err
	})
	killed.kill()
	*of = slices.DeleteFunc(slices.Clone(*of), func(s *server) bool { return s == killed })
	return killed
}

// works waits until everything works that needs servers of both partitions.
func (p *pair) works(t *testing.T, when string) {
	t.Helper()
	began := time.Now()
	p.turn++
	all := slices.Concat(p.homes, p.tps)
	for i, asked := range all {
		partition := []string{partitionapi.Home, "tp2"}[i%2]
		name := fmt.Sprintf("t%d-%d", p.turn, i)
		hosts.Until(t, settled, fmt.Sprintf("%s: %s makes a tenant in %s", when, asked.name, partition),
			func(ctx context.Context) error {
				_, err := asked.tenants(t).Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec: tenantapi.TenantSpec{Partition: partition}}, metav1.CreateOptions{})
				if apierrors.IsAlreadyExists(err) {
					return nil // an earlier try was not answered
				}
				return err
			})
		for _, other := range all {
			hosts.Until(t, settled, fmt.Sprintf("%s: %s knows tenant %s", when, other.name, name),
				func(ctx context.Context) error {
					_, err := other.client.CoreV1().Namespaces().Get(ctx, "default."+name, metav1.GetOptions{})
					return err
				})
		}
	}
	// The importer.
	label := fmt.Sprint("turn-", p.turn)
	hosts.Until(t, settled, when+": the node is labelled", func(ctx context.Context) error {
		_, err := p.homes[0].client.CoreV1().Nodes().Patch(ctx, "n0", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"turn":%q}}}`, label), metav1.PatchOptions{})
		return err
	})
	for _, s := range p.tps {
		hosts.Until(t, settled, when+": the copy follows at "+s.name, func(ctx context.Context) error {
			node, err := s.client.CoreV1().Nodes().Get(ctx, "n0", metav1.GetOptions{})
			if err == nil && node.Labels["turn"] != label {
				err = fmt.Errorf("it has %v", node.Labels)
			}
			return err
		})
	}
	// The schedulers, and the accountants after that.
	for _, servers := range [][]*server{p.homes, p.tps} {
		p.schedules(t, when, servers, fmt.Sprint("pod-", p.turn))
	}
	t.Logf("%s: all of it works, after %s", when, time.Since(began).Round(time.Second))
}

// schedules has a pod get a node, and its share go when it goes.
func (p *pair) schedules(t *testing.T, when string, servers []*server, name string) {
	t.Helper()
	partition := partitionapi.Home
	if servers[0] == p.tps[0] {
		partition = "tp2"
	}
	pods := func(i int) func(ctx context.Context) (*corev1.Pod, error) {
		return func(ctx context.Context) (*corev1.Pod, error) {
			return servers[i].client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		}
	}
	hosts.Until(t, settled, fmt.Sprintf("%s: a pod of %s is made", when, partition), func(ctx context.Context) error {
		_, err := servers[0].client.CoreV1().Pods("default").Create(ctx, pod(name), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	what := fmt.Sprintf("%s: a pod of %s gets a node", when, partition)
	hosts.Until(t, settled, what, func(ctx context.Context) error {
		got, err := pods(len(servers) - 1)(ctx)
		if err == nil && got.Spec.NodeName != "n0" {
			err = fmt.Errorf("it has %q: %+v", got.Spec.NodeName, got.Status.Conditions)
		}
		return err
	})
	p.share(t, when, partition, 1)
	hosts.Until(t, settled, fmt.Sprintf("%s: the pod of %s goes", when, partition), func(ctx context.Context) error {
		now := int64(0)
		err := servers[0].client.CoreV1().Pods("default").Delete(ctx, name,
			metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err == nil {
			err = fmt.Errorf("it is there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	p.share(t, when, partition, 0)
}

// share waits until a partition has said how many pods it has on the node.
func (p *pair) share(t *testing.T, when, partition string, pods int64) {
	t.Helper()
	client, err := allocations.NewClient(p.homes[0].config, nil)
	must(t, err)
	hosts.Until(t, settled, fmt.Sprintf("%s: the share of %s is %d pods", when, partition, pods),
		func(ctx context.Context) error {
			a, err := client.Get(ctx, "n0", metav1.GetOptions{})
			if err == nil && a.Of(partition).Pods != pods {
				err = fmt.Errorf("shares are %+v", a.Shares)
			}
			if apierrors.IsNotFound(err) && pods == 0 {
				return nil
			}
			return err
		})
}
