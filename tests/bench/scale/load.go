package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// inParallel calls do with 0 to n-1, some at a time, until one fails.
func inParallel(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// load makes Deployments, in one space after the other.
type load struct {
	spaces            []*space
	clients, replicas int

	mu   sync.Mutex
	made int // Deployments of the current phase, called 0 to made-1
	took []time.Duration
}

// saturate makes so many Deployments as fast as it can.
func (l *load) saturate(ctx context.Context, n int) error {
	l.made, l.took = n, nil
	return inParallel(ctx, l.clients, n, l.create)
}

// pace makes Deployments so that there are so many new pods a second, until
// stop is closed.
func (l *load) pace(ctx context.Context, pods float64, stop <-chan struct{}) error {
	l.made, l.took = 0, nil
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ticker := time.NewTicker(time.Duration(float64(l.replicas) / pods * float64(time.Second)))
	defer ticker.Stop()
	places := make(chan struct{}, l.clients)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-stop:
			all.Wait()
			return context.Cause(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		places <- struct{}{}
		i := l.made
		l.made++
		all.Go(func() {
			defer func() { <-places }()
			if err := l.create(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
}

// pods is how many pods the Deployments of the current phase have.
func (l *load) pods() int { return l.made * l.replicas }

// requests returns how long the requests of the current phase took, in order.
func (l *load) requests() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.took))
}

func (l *load) create(ctx context.Context, i int) error {
	s := l.spaces[i%len(l.spaces)]
	began := time.Now()
	deployments := s.apps.Deployments(s.namespace)
	if _, err := deployments.Create(ctx, deployment(i, l.replicas), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making %s: %w", deploymentName(i), err)
	}
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	return nil
}

// remove deletes the Deployments of the current phase.
func (l *load) remove(ctx context.Context) error {
	return inParallel(ctx, l.clients, l.made, func(ctx context.Context, i int) error {
		s := l.spaces[i%len(l.spaces)]
		if err := s.apps.Deployments(s.namespace).Delete(ctx, deploymentName(i), metav1.DeleteOptions{
			PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		}); err != nil {
			return fmt.Errorf("deleting %s: %w", deploymentName(i), err)
		}
		return nil
	})
}

func deploymentName(i int) string { return fmt.Sprintf("web-%05d", i) }

// deployment is one of pods as they are common: with labels, an environment and
// requests.
func deployment(i, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": deploymentName(i), "tier": "front"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: deploymentName(i), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "example.com/web:1",
					Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
					Env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU:    quantity.MustParse("10m"),
						corev1.ResourceMemory: quantity.MustParse("16Mi"),
					}},
				}}},
			},
		},
	}
}
