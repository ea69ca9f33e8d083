package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
)

const (
	// reportTimeout bounds one report, and reportRetry is how long it is until the next one after a failure.
	reportTimeout = 10 * time.Second
	reportRetry   = 5 * time.Second
	// reportAgain is how often a problem is said again: the Node may have been made anew.
	reportAgain = time.Minute
	// reasonPorts is that of the condition.
	reasonPorts = "PortsTaken"
)

// ports is whether this node has the ports.
type ports struct {
	mu      sync.Mutex
	known   bool
	problem string // "" if it has them
	changed chan struct{}
}

func newPorts() *ports { return &ports{changed: make(chan struct{})} }

// set takes over why the node has no ports, nil if it has them.
func (p *ports) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if p.known && p.problem == problem {
		return
	}
	p.known, p.problem = true, problem
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *ports) current() (problem string, known bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem, p.known, p.changed
}

// Report returns what tells the cluster by a condition of the Node that something else has the ports, so that no
// Ingress has the node's address. Without problem there is no condition.
func (n *Node) Report(client kubernetes.Interface, name string) component.Component {
	return component.Component{Name: Name + "-report", Run: func(ctx context.Context, ready func()) error {
		ready()
		for {
			problem, known, changed := n.ports.current()
			var again <-chan time.Time
			if known {
				if err := report(ctx, client, name, problem); err != nil && ctx.Err() == nil {
					n.Log.WithError(err).Debug("cannot report whether this node takes requests for Ingresses yet")
					again = time.After(reportRetry)
				} else if problem != "" {
					again = time.After(reportAgain)
				}
			}
			select {
			case <-changed:
			case <-again:
			case <-ctx.Done():
				return nil
			}
		}
	}}
}

// report makes the Node say what holds.
func report(ctx context.Context, client kubernetes.Interface, name, problem string) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("looking for the Node object: %w", err)
	}
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == joinapi.NodeTakesIngress
	})
	var wanted any
	switch {
	case problem == "" && at < 0, problem != "" && at >= 0 && node.Status.Conditions[at].Message == problem &&
		node.Status.Conditions[at].Status == corev1.ConditionFalse:
		return nil
	case problem == "":
		wanted = map[string]any{"$patch": "delete", "type": joinapi.NodeTakesIngress}
	default:
		now := metav1.Now()
		wanted = corev1.NodeCondition{Type: joinapi.NodeTakesIngress, Status: corev1.ConditionFalse,
			Reason: reasonPorts, Message: problem, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{wanted}}})
	if err != nil {
		return fmt.Errorf("encoding a condition of the Node: %w", err)
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		return fmt.Errorf("writing a condition of the Node: %w", err)
	}
	return nil
}
