package users

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

// InParallel calls do with 0 to n-1, some at a time, until one fails.
func InParallel(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
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

// Load makes Deployments, in one space after the other.
type Load struct {
	Spaces []*Space
	// Name begins the names of its Deployments; Clients is how many requests are made at a
	// time, Replicas how many pods a Deployment has.
	Name              string
	Clients, Replicas int

	mu   sync.Mutex
	made int // Deployments of the current phase, called 0 to made-1
	took []time.Duration
}

// Saturate makes so many Deployments as fast as it can.
func (l *Load) Saturate(ctx context.Context, n int) error {
	l.made, l.took = n, nil
	return InParallel(ctx, l.Clients, n, l.create)
}

// Pace makes Deployments so that there are so many new pods a second, until
// stop is closed.
func (l *Load) Pace(ctx context.Context, pods float64, stop <-chan struct{}) error {
	l.made, l.took = 0, nil
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ticker := time.NewTicker(l.Period(pods))
	defer ticker.Stop()
	places := make(chan struct{}, l.Clients)
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

// Period is the time from one Deployment to the next when there are so many new pods a second.
func (l *Load) Period(pods float64) time.Duration {
	return time.Duration(float64(l.Replicas) / pods * float64(time.Second))
}

// Pods is how many pods the Deployments of the current phase have.
func (l *Load) Pods() int { return l.made * l.Replicas }

// Requests returns how long the requests of the current phase took, in order.
func (l *Load) Requests() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.took))
}

func (l *Load) create(ctx context.Context, i int) error {
	s := l.Spaces[i%len(l.Spaces)]
	began := time.Now()
	wanted := deployment(l.deploymentName(i), l.Replicas)
	if _, err := s.Apps.Deployments(s.Namespace).Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making %s: %w", wanted.Name, err)
	}
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	return nil
}

// Remove deletes the Deployments of the current phase.
func (l *Load) Remove(ctx context.Context) error {
	return InParallel(ctx, l.Clients, l.made, func(ctx context.Context, i int) error {
		s := l.Spaces[i%len(l.Spaces)]
		if err := s.Apps.Deployments(s.Namespace).Delete(ctx, l.deploymentName(i), metav1.DeleteOptions{
			PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		}); err != nil {
			return fmt.Errorf("deleting %s: %w", l.deploymentName(i), err)
		}
		return nil
	})
}

func (l *Load) deploymentName(i int) string { return fmt.Sprintf("%s-%05d", l.Name, i) }

// deployment is one of pods as they are common: with labels, an environment and
// requests.
func deployment(name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": name, "tier": "front"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
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
