package partitionfaults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// outcome is what the client of a request knows.
type outcome int

const (
	unknown outcome = iota // it was not answered, or with an error
	there                  // it was made
	gone                   // it was deleted
)

// story is what is known of a tenant.
type story struct {
	partition string
	uid       types.UID // if it was answered
	state     outcome
}

// victims are the servers of a cluster of three partitions, home first.
type victims struct {
	servers []*server
	of      map[string]*server // by partition
	before  map[string]bool    // tenants that a partition is born with

	mu      sync.Mutex
	tenants map[string]*story
}

// TestKilledWhileTenantsAreMade kills servers in the middle of the creation and of the
// deletion of tenants: that of home, that of the partition of the tenant, and that which
// the client asks.
func TestKilledWhileTenantsAreMade(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	home := n.home(t)
	tp2 := n.begin(t, home, "tp2", 0, "--tenant-partition", "tp2")
	tp3 := n.begin(t, home, "tp3", 1, "--tenant-partition", "tp3")
	v := &victims{servers: []*server{home, tp2, tp3}, tenants: map[string]*story{}, before: map[string]bool{},
		of: map[string]*server{partitionapi.Home: home, "tp2": tp2, "tp3": tp3}}
	for _, at := range v.servers {
		for partition, s := range v.of {
			awaitServers(t, at, partition, s)
		}
	}
	for name, s := range v.of {
		list, err := s.tenants(t).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, o := range list.Items {
			v.before[name+"/"+o.Name] = true
		}
	}

	// How long it takes says when to kill.
	var took []time.Duration
	for i, asked := range v.servers {
		for partition := range v.of {
			began := time.Now()
			v.create(t, asked, fmt.Sprintf("first-%d-%s", i, partition), partition)
			took = append(took, time.Since(began))
		}
	}
	v.settle(t, 0)
	for i := range v.servers {
		for partition := range v.of {
			name, asked := fmt.Sprintf("first-%d-%s", i, partition), v.servers[(i+1)%len(v.servers)]
			if i > 0 && !v.remove(t, asked, name) {
				t.Fatalf("%s did not delete tenant %s", asked.name, name)
			}
		}
	}
	v.settle(t, 0)
	slices.Sort(took)
	window := 2 * took[len(took)/2]
	t.Logf("a tenant is made in %s (median), %s at most; kills come within %s", took[len(took)/2],
		took[len(took)-1], window)

	const seed = 23
	r := rand.New(rand.NewPCG(seed, seed))
	interrupted, answered := 0, 0
	for round := 1; round <= runs(t, 5); round++ {
		victim := v.servers[r.IntN(len(v.servers))]
		lost := v.round(t, r, round, victim, window)
		interrupted += lost
		answered += perRound - lost
		victim.start(t)
		victim.ready(t)
		v.settle(t, round)
		v.again(t, r, round)
	}
	t.Logf("%d requests were interrupted, %d answered", interrupted, answered)
	if interrupted == 0 {
		t.Error("no kill came in the middle of a request: this run shows nothing")
	}
}

// creations and deletions are how many of each are under way when a server is killed.
const creations, deletions, perRound = 4, 3, creations + deletions

// round asks for some things at random moments, and kills a server at one. It returns how
// many requests were not answered with success.
func (v *victims) round(t *testing.T, r *rand.Rand, round int, victim *server, window time.Duration) int {
	t.Helper()
	partitions := slices.Sorted(maps.Keys(v.of))
	var asking sync.WaitGroup
	failed := make(chan struct{}, perRound)
	at := func(do func(asked *server) bool) {
		delay, asked := time.Duration(r.Int64N(int64(window))), v.servers[r.IntN(len(v.servers))]
		asking.Go(func() {
			<-time.After(delay)
			if !do(asked) {
				failed <- struct{}{}
			}
		})
	}
	for i := range creations {
		name, partition := fmt.Sprintf("t%d-%d", round, i), partitions[r.IntN(len(partitions))]
		at(func(asked *server) bool { return v.create(t, asked, name, partition) })
	}
	for _, name := range v.some(r, deletions) {
		at(func(asked *server) bool { return v.remove(t, asked, name) })
	}
	<-time.After(time.Duration(r.Int64N(int64(2 * window))))
	victim.kill()
	asking.Wait()
	return len(failed)
}

// some are tenants that are there.
func (v *victims) some(r *rand.Rand, n int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(v.tenants)) {
		if v.tenants[name].state == there {
			out = append(out, name)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(n, len(out))]
}

func (v *victims) note(name string, s *story) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tenants[name] = s
}

// create asks for a tenant and reports whether it was made.
func (v *victims) create(t *testing.T, asked *server, name, partition string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	made, err := asked.tenants(t).Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: tenantapi.TenantSpec{Partition: partition}}, metav1.CreateOptions{})
	s := &story{partition: partition}
	if err == nil {
		s.state, s.uid = there, made.UID
	} else if status := apierrors.APIStatus(nil); errors.As(err, &status) && !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsInternalError(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
		t.Errorf("%s refused to make tenant %s in %s: %v", asked.name, name, partition, err)
	}
	v.note(name, s)
	return err == nil
}

// remove asks for the deletion of a tenant and reports whether that was accepted.
func (v *victims) remove(t *testing.T, asked *server, name string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	v.mu.Lock()
	s := *v.tenants[name]
	v.mu.Unlock()
	err := asked.tenants(t).Delete(ctx, name, metav1.DeleteOptions{})
	s.state = unknown
	if err == nil {
		s.state = gone
	}
	v.note(name, &s)
	return err == nil
}

// settle waits until nothing is under way, and compares what there is with what clients
// were told. After that nothing is unknown.
func (v *victims) settle(t *testing.T, round int) {
	t.Helper()
	placed, owned := map[string]partitionapi.TenantPlacement{}, map[string]tenantapi.Tenant{}
	hosts.Until(t, settled, fmt.Sprintf("round %d: nothing is under way", round), func(ctx context.Context) error {
		clear(placed)
		clear(owned)
		list, err := v.servers[0].placements(t).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Status.Phase != partitionapi.PlacementActive {
				return fmt.Errorf("the placement of %s in %s is %s", p.Name, p.Spec.Partition, p.Status.Phase)
			}
			placed[p.Name] = p
		}
		for partition, s := range v.of {
			tenants, err := s.tenants(t).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, o := range tenants.Items {
				if o.Name == space.System || v.before[partition+"/"+o.Name] {
					delete(placed, o.Name)
					continue
				}
				if !o.DeletionTimestamp.IsZero() {
					return fmt.Errorf("tenant %s in %s is being deleted", o.Name, partition)
				}
				p, ok := placed[o.Name]
				if !ok || p.Spec.Partition != partition || p.Status.TenantUID != o.UID {
					return fmt.Errorf("tenant %s (%s) in partition %s has the placement %+v", o.Name, o.UID,
						partition, p)
				}
				if other, twice := owned[o.Name]; twice {
					return fmt.Errorf("tenant %s has two owners: %s, %s", o.Name, other.UID, o.UID)
				}
				owned[o.Name] = o
			}
		}
		for name := range placed {
			if _, ok := owned[name]; !ok {
				return fmt.Errorf("tenant %s has a placement and is not there", name)
			}
		}
		return nil
	})
	for name, s := range v.tenants {
		o, exists := owned[name]
		switch {
		case s.state == there && !exists:
			t.Errorf("round %d: tenant %s in %s was made, and is lost", round, name, s.partition)
		case s.state == there && s.uid != "" && s.uid != o.UID, exists && placed[name].Spec.Partition != s.partition:
			t.Errorf("round %d: tenant %s is another one than was made: %+v, %+v", round, name, placed[name], o)
		case s.state == gone && exists:
			t.Errorf("round %d: tenant %s was deleted, and is there", round, name)
		}
		delete(owned, name)
	}
	for name := range owned {
		t.Errorf("round %d: nobody asked for tenant %s", round, name)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// again deletes and makes what it was not known of whether it is there: both must work, in
// whatever partition, and nothing is unknown afterwards.
func (v *victims) again(t *testing.T, r *rand.Rand, round int) {
	t.Helper()
	partitions, done := slices.Sorted(maps.Keys(v.of)), 0
	for _, name := range slices.Sorted(maps.Keys(v.tenants)) {
		if v.tenants[name].state == gone {
			delete(v.tenants, name)
		} else if v.tenants[name].state == unknown {
			done++
			asked := v.servers[r.IntN(len(v.servers))]
			to := partitions[r.IntN(len(partitions))]
			// Servers find each other again a moment after one started.
			hosts.Until(t, settled, fmt.Sprintf("round %d: tenant %s is made again in %s", round, name, to),
				func(ctx context.Context) error {
					if err := asked.tenants(t).Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
						return fmt.Errorf("deleting it: %w", err)
					}
					if !v.create(t, asked, name, to) {
						return errors.New("it was not made")
					}
					return nil
				})
		}
	}
	if done > 0 {
		v.settle(t, round)
	}
}
