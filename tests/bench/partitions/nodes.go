package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/bench/hollow"
	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/bench/users"
)

const (
	// largeCPUs is what a pod of the contended load requests, and fitting how many of
	// these a node has room for, beside the small pods of other loads.
	largeCPUs, fitting = 7, 4
	// asked is how many there are for each that fits.
	asked = 1.5
	// contentionTime bounds how long pods may take until there is no more room.
	contentionTime = time.Minute
	// changed is the label that is changed of nodes.
	changed = "bench/changed"
	// arrivalTimeout bounds how long a change may take.
	arrivalTimeout = time.Minute
)

// contend has all TPs fill the same few nodes at once, with more pods than there is room
// for: what two schedulers give out twice fails at the node.
func (t *trial) contend(ctx context.Context) error {
	nodes := t.spread(t.contended)
	room := fitting * len(nodes)
	pods := int(asked * float64(room))
	t.enter(phaseContended)
	if err := users.InParallel(ctx, t.clients*len(t.tps), pods, func(ctx context.Context, i int) error {
		tp := t.tps[i%len(t.tps)]
		space := tp.spaces[i/len(t.tps)%len(tp.spaces)]
		_, err := space.Core.Pods(space.Namespace).Create(ctx, largePod(i, nodes), metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("making large pods: %w", err)
	}
	count := func() (ran, failed int) {
		for _, tp := range t.tps {
			seen := tp.pods.Of(phaseContended)
			ran, failed = ran+len(seen.Waits), failed+seen.Failed
		}
		return ran, failed
	}
	limited, cancel := context.WithTimeout(ctx, contentionTime)
	defer cancel()
	if err := sides.Await(limited, "no more room", func() error {
		if ran, failed := count(); ran < room && ran+failed < pods {
			return fmt.Errorf("%d of %d run", ran, room)
		}
		return nil
	}); err != nil && ctx.Err() == nil {
		log.Printf("  %v", err) // a number, below
	}
	ran, failed := count()
	t.set(contendedRoom, float64(room))
	t.set(contendedRan, float64(ran))
	t.set(contendedFailed, float64(failed))
	return t.removeLarge(ctx, pods)
}

func (c *cluster) removeLarge(ctx context.Context, pods int) error {
	if err := users.InParallel(ctx, c.clients, pods, func(ctx context.Context, i int) error {
		tp := c.tps[i%len(c.tps)]
		space := tp.spaces[i/len(c.tps)%len(tp.spaces)]
		return space.Core.Pods(space.Namespace).Delete(ctx, largeName(i), metav1.DeleteOptions{})
	}); err != nil {
		return fmt.Errorf("deleting large pods: %w", err)
	}
	for _, tp := range c.tps {
		if err := tp.pods.AwaitLeft(ctx, phaseContended); err != nil {
			return err
		}
	}
	return nil
}

func largeName(i int) string { return fmt.Sprintf("large-%05d", i) }

// largePod is one that only some nodes are to have.
func largePod(i int, nodes []string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: largeName(i)},
		Spec: corev1.PodSpec{
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes,
					}}}},
				},
			}},
			Containers: []corev1.Container{{
				Name: "large", Image: "example.com/large:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewQuantity(largeCPUs, resource.DecimalSI),
				}},
			}},
		},
	}
}

// sightings are when TPs saw changes of nodes.
type sightings struct {
	mu    sync.Mutex
	began []time.Time
	took  []time.Duration
	seen  map[string]bool // number of the change and of the TP
	news  chan struct{}
}

func newSightings() *sightings {
	return &sightings{seen: map[string]bool{}, news: make(chan struct{}, 1)}
}

// see notes that a TP has a node with a change, perhaps not for the first time.
func (s *sightings) see(tp int, value string, now time.Time) {
	change, err := strconv.Atoi(value)
	key := fmt.Sprint(change, " ", tp)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || change >= len(s.began) || s.seen[key] {
		return
	}
	s.seen[key] = true
	s.took = append(s.took, now.Sub(s.began[change]))
	select {
	case s.news <- struct{}{}:
	default: // nobody has looked yet
	}
}

// await returns when there are so many times.
func (s *sightings) await(ctx context.Context, want int) error {
	limited, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
	for {
		n := len(s.times())
		if n >= want {
			return nil
		}
		select {
		case <-s.news:
		case <-limited.Done():
			return fmt.Errorf("%d of %d are seen: %w", n, want, limited.Err())
		}
	}
}

// begin returns the number of the next change.
func (s *sightings) begin(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = append(s.began, now)
	return len(s.began) - 1
}

// times are those until now, in order.
func (s *sightings) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.took))
}

// change changes nodes at their RPs, one after the other, and measures when every TP shows
// it.
func (t *trial) change(ctx context.Context) error {
	if !t.layout.split() {
		return nil
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	s := newSightings()
	for i, tp := range t.tps {
		if err := followNodes(following, tp, func(obj any) {
			if node, ok := obj.(*corev1.Node); ok && node.Labels[changed] != "" {
				s.see(i, node.Labels[changed], time.Now())
			}
		}); err != nil {
			return err
		}
	}
	var clients []kubernetes.Interface
	for _, rp := range t.rps {
		client, err := kubernetes.NewForConfig(sides.Efficient(rp.Config))
		if err != nil {
			return err
		}
		clients = append(clients, client)
	}
	for i := range t.changes {
		rp := i % len(t.rps)
		// A node that was not changed before, as long as there are any.
		node := t.layout.first(rp, t.nodes) + i/len(t.rps)%t.rps[rp].nodes
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, changed, s.begin(time.Now()))
		if _, err := clients[rp].CoreV1().Nodes().Patch(ctx, hollow.Name(node), types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("changing %s: %w", hollow.Name(node), err)
		}
		if err := s.await(ctx, (i+1)*len(t.tps)); err != nil {
			return fmt.Errorf("changing %s: %w", hollow.Name(node), err)
		}
	}
	took := s.times()
	t.set(changeP50, sides.Seconds(took, 0.5)*1000)
	t.set(changeP99, sides.Seconds(took, 0.99)*1000)
	return nil
}
