package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/bench/users"
)

const (
	getEvery, adminEvery, podEvery = 25 * time.Millisecond, 50 * time.Millisecond, time.Second
	// patience is after which a request counts as having taken that long.
	patience = 30 * time.Second
	object   = "read"
)

// neighbours are a tenant and an administrator of the cluster.
type neighbours struct {
	space *users.Space
	admin kubernetes.Interface
}

// seen is how long things took, in order, and how many requests failed otherwise.
type seen struct {
	gets, pods, admin []time.Duration
	errors            int
}

func newNeighbours(ctx context.Context, space *users.Space, admin *rest.Config) (*neighbours, error) {
	client, err := kubernetes.NewForConfig(sides.Efficient(admin))
	if err != nil {
		return nil, err
	}
	n := &neighbours{space: space, admin: client}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: object}, Data: map[string]string{"a": "b"}}
	if _, err := space.Core.ConfigMaps(space.Namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making what is read: %w", err)
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, made, metav1.CreateOptions{})
	return n, err
}

// during measures for a while, whether what was asked for before has come or not. What
// began in it counts.
func (n *neighbours) during(ctx context.Context, d time.Duration) (seen, error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var s seen
	var mu sync.Mutex
	var all sync.WaitGroup
	again := func(
		every time.Duration, into *[]time.Duration, do func(ctx context.Context, turn int) (after func(), err error),
	) {
		all.Go(func() {
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for turn := 0; ; turn++ {
				select {
				case <-limited.Done():
					return
				case <-ticker.C:
				}
				all.Go(func() {
					patient, cancel := context.WithTimeout(ctx, patience)
					defer cancel()
					began := time.Now()
					after, err := do(patient, turn)
					took := time.Since(began)
					if after != nil {
						defer after()
					}
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						s.errors++
					}
					*into = append(*into, took)
				})
			}
		})
	}
	again(getEvery, &s.gets, func(ctx context.Context, _ int) (func(), error) {
		_, err := n.space.Core.ConfigMaps(n.space.Namespace).Get(ctx, object, metav1.GetOptions{})
		return nil, err
	})
	again(adminEvery, &s.admin, func(ctx context.Context, _ int) (func(), error) {
		_, err := n.admin.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, object, metav1.GetOptions{})
		return nil, err
	})
	again(podEvery, &s.pods, n.pod)
	all.Wait()
	for _, took := range [][]time.Duration{s.gets, s.pods, s.admin} {
		slices.Sort(took)
	}
	if min(len(s.gets), len(s.pods), len(s.admin)) == 0 {
		return s, fmt.Errorf("nothing was measured in %v: %w", d, ctx.Err())
	}
	return s, nil
}

// pod makes a ReplicaSet and returns when its pod is bound to a node, as the neighbour sees
// it. What it returns deletes it.
func (n *neighbours) pod(ctx context.Context, turn int) (after func(), err error) {
	name := fmt.Sprintf("set-%d-%d", time.Now().UnixNano(), turn)
	one, labels := int32(1), map[string]string{"app": name}
	sets := n.space.Apps.ReplicaSets(n.space.Namespace)
	pods, err := n.space.Core.Pods(n.space.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	defer pods.Stop()
	if _, err := sets.Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	after = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		background := metav1.DeletePropagationBackground
		//nolint:errcheck // what stays has a name of its own
		_ = sets.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	}
	for e := range pods.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return after, nil
		}
	}
	return after, fmt.Errorf("the pod of %s: %w", name, ctx.Err())
}
