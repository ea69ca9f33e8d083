package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/tests/hosts"
)

func condition(n *corev1.Node, ct corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == ct {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// waitCondition waits until a condition of the node has a status.
func (r *runtimesTest) waitCondition(
	t *testing.T, ct corev1.NodeConditionType, status corev1.ConditionStatus,
) *corev1.NodeCondition {
	t.Helper()
	var found *corev1.NodeCondition
	hosts.Until(t, soon, fmt.Sprintf("%s is %s", ct, status), func(ctx context.Context) error {
		n, err := r.client.CoreV1().Nodes().Get(ctx, r.host.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if found = condition(n, ct); found == nil || found.Status != status {
			return fmt.Errorf("it is %+v", found)
		}
		return nil
	})
	return found
}

// statuses collects what a condition of the node becomes.
type statuses struct {
	mu   sync.Mutex
	seen []string
	at   map[string]time.Time // when a status was first seen
}

// observe watches a condition of the node until the test ends.
func (r *runtimesTest) observe(t *testing.T, ct corev1.NodeConditionType) *statuses {
	t.Helper()
	s := &statuses{at: map[string]time.Time{}}
	w, err := r.client.CoreV1().Nodes().Watch(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + r.host.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			status := "absent"
			if c := condition(n, ct); c != nil {
				status = string(c.Status)
			}
			s.mu.Lock()
			if len(s.seen) == 0 || s.seen[len(s.seen)-1] != status {
				s.seen = append(s.seen, status)
			}
			if _, ok := s.at[status]; !ok {
				s.at[status] = time.Now()
			}
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *statuses) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, " ")
}

// wait waits until one of the statuses was seen and returns when.
func (s *statuses) wait(t *testing.T, timeout time.Duration, status ...string) time.Time {
	t.Helper()
	var at time.Time
	hosts.Until(t, timeout, "the condition becomes "+strings.Join(status, " or "), func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, want := range status {
			if seen, ok := s.at[want]; ok {
				at = seen
				return nil
			}
		}
		return fmt.Errorf("it was %v", s.seen)
	})
	return at
}
