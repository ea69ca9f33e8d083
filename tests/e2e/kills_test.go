package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/sizes"
)

// tenantsToKill are those that write, by partition. Two of home are in each group at first.
var tenantsToKill = map[string][]string{"main": {"alpha", "bravo", "november", "zulu"}, "tp2": {"far", "yonder"}}

// TestKilledServersOfGroupsAndPartitions: servers of two service groups, which share an etcd,
// and of a second partition are killed at random while tenants write through all of them and
// ranges are moved. What was acknowledged is there, what was refused is not, watches see each
// write once and in order, and what was moved has one owner.
//
// A4S_KILLS is how many there are, A4S_KILLS_SEED repeats the choices of a run.
func TestKilledServersOfGroupsAndPartitions(t *testing.T) {
	t.Parallel()
	kills, seed := sizes.Of(t, "A4S_KILLS", 3), sizes.Of(t, "A4S_KILLS_SEED", int(time.Now().Unix()))
	t.Logf("%d kills; A4S_KILLS_SEED=%d makes the same choices", kills, seed)
	etcd := sharedEtcd(t)
	zero := ownCluster(t, "kill-0", append([]string{"--service-group-id", "0"}, etcd...)...)
	one := joinServer(t, "kill-1", zero, append([]string{"--service-group-id", "1"}, etcd...)...)
	tp2 := beginRoles(t, "kill-tp2", zero, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--service-node-port-range", "28000-29999", "--disable-agent")
	zero.waitServers(t, zero, one)
	k := &killing{random: rand.New(rand.NewPCG(uint64(seed), 1)), zero: zero, one: one,
		servers: []*cluster{zero, one, tp2}, book: newBook()}
	for partition, names := range tenantsToKill {
		for _, name := range names {
			zero.must(t, "tenant", "create", name, "--partition", partition, "--output", "/run/"+name)
			k.tenants = append(k.tenants, name)
		}
	}
	k.moves = newMover(t, seed, zero, one)
	k.watch(t)
	k.write(t, seed)
	k.move(t)
	for round := range kills {
		k.round(t, round)
		if t.Failed() {
			break
		}
	}
	k.end(t)
}

// killing is what happens to the servers.
type killing struct {
	random    *rand.Rand
	servers   []*cluster
	zero, one *cluster // of the groups 0 and 1
	tenants   []string

	book    *book
	moves   *mover
	watches []*observer

	stopMoves, stopWrites, stopWatches func() // and wait for their end
}

// round kills a server, and waits until every server serves every tenant. By turns that is in
// the middle of a move that goes through the server, at any moment, and a second time while it
// starts.
func (k *killing) round(t *testing.T, round int) {
	t.Helper()
	k.served(t, "before it")
	pause := time.Duration(k.random.Int64N(int64(time.Second)))
	victim, how := k.servers[k.random.IntN(len(k.servers))], "at any moment"
	<-time.After(pause) // somewhere in the middle of later writes
	began := time.Now()
	switch round % 3 {
	case 0:
		victim, how = k.servers[k.random.IntN(2)], "in mid-move"
		k.moves.interrupt(t, victim)
	case 1:
		victim.proc.Kill()
	case 2:
		how = "and again at its start"
		victim.proc.Kill()
		if err := victim.start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(k.random.Int64N(int64(4 * time.Second))))
		victim.proc.Kill()
	}
	victim.restart(t)
	ready := time.Now()
	k.served(t, "after it")
	t.Logf("kill %d: %s, %s: ready after %s, every server served every tenant %s later", round+1, victim.host.Name,
		how, ready.Sub(began).Round(100*time.Millisecond), time.Since(ready).Round(100*time.Millisecond))
}

// served waits until every tenant has written through every server, each watch has seen
// something, and a range was moved.
func (k *killing) served(t *testing.T, when string) {
	t.Helper()
	k.book.begin()
	for _, o := range k.watches {
		o.begin()
	}
	moves := k.moves.count()
	hosts.Until(t, startTimeout, "every server serves every tenant "+when, func(context.Context) error {
		for _, s := range k.servers {
			if !s.proc.Running() {
				t.Fatalf("a4s on %s ended:\n%s", s.host.Name, hosts.LastLines(s.proc.Log, 100))
			}
			for _, tenant := range k.tenants {
				if !k.book.served(tenant, s.host.Name) {
					return fmt.Errorf("tenant %s has not written through %s: %v", tenant, s.host.Name,
						k.book.lastError(tenant, s.host.Name))
				}
			}
		}
		for _, o := range k.watches {
			if err := o.sees(); err != nil {
				return err
			}
		}
		if k.moves.count() == moves {
			return fmt.Errorf("nothing was moved: %v", k.moves.lastError())
		}
		return nil
	})
}

// end stops all, and compares what there is with what clients were told.
func (k *killing) end(t *testing.T) {
	k.stopMoves()
	k.moves.settled(t)
	k.stopWrites()
	k.book.report(t)
	for _, tenant := range k.tenants {
		for _, s := range k.servers {
			k.book.compare(t, tenant, s.host.Name, listed(t, k.of(t, tenant, s)))
		}
	}
	for _, tenant := range k.tenants {
		if _, err := k.of(t, tenant, k.zero).CoreV1().ConfigMaps("default").
			Create(t.Context(), configMap(lastName, ""), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range k.watches {
		hosts.Until(t, startTimeout, o.name+" sees the last object of each tenant", func(context.Context) error {
			return o.hasSeen()
		})
	}
	k.stopWatches()
	events, relists := 0, 0
	for _, o := range k.watches {
		n, anew := o.compare(t, k.book)
		events += n
		// As in any cluster who watches a single server may list when that has started again.
		if relists += anew; anew > 0 && !o.merged && !slices.Contains(tenantsToKill["tp2"], o.tenant) {
			t.Errorf("the watch of %s has listed %d times", o.name, anew)
		}
	}
	t.Logf("%d watches have seen %d events in order, and those of tp2, and the merged one, have listed %d times",
		len(k.watches), events, relists)
}

// of is a client of a tenant at a server, which never asks twice by itself.
func (k *killing) of(t *testing.T, tenant string, s *cluster) kubernetes.Interface {
	t.Helper()
	content, err := os.ReadFile(k.zero.host.Path("/run/" + tenant))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	config.Host = s.url()
	return askingOnce(t, config)
}

// listed are the values of config maps by name, as the datastore has them.
func listed(t *testing.T, client kubernetes.Interface) map[string]string {
	t.Helper()
	var list *corev1.ConfigMapList
	hosts.Until(t, soon, "config maps are listed", func(ctx context.Context) (err error) {
		list, err = client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	})
	return valuesOf(list.Items)
}

func valuesOf(items []corev1.ConfigMap) map[string]string {
	out := map[string]string{}
	for _, m := range items {
		if strings.HasPrefix(m.Name, writtenPrefix) {
			out[m.Name] = m.Data["value"]
		}
	}
	return out
}

// askingOnce is a client that does not repeat what was answered with an error, as client-go
// does when the answer says so: whoever asks is to know each answer.
func askingOnce(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, 0
	config.Wrap(withoutRetries)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
