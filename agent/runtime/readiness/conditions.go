package readiness

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

// Conditions are those of a node with these runtimes, one per type that has
// one. They are new with the state of the runtime: their heartbeat is not set.
func Conditions(states []noderuntime.State) []corev1.NodeCondition {
	var out []corev1.NodeCondition
	for _, t := range workload.Types() {
		var of []noderuntime.State
		for _, s := range states {
			if s.Type == t {
				of = append(of, s)
			}
		}
		if len(of) == 0 {
			continue
		}
		var lines []string
		for _, s := range of {
			lines = append(lines, describe(s))
		}
		speaks := decisive(of)
		out = append(out, corev1.NodeCondition{
			Type:               t.Condition(),
			Status:             speaks.Ready,
			Reason:             speaks.Reason,
			Message:            strings.Join(lines, "; "),
			LastTransitionTime: metav1.NewTime(speaks.Since),
		})
	}
	return out
}

// decisive returns the state that is that of a type, from those of its
// runtimes: of the first, which is the default, and of the primary runtime if
// that is another one, since it runs what all pods of the node depend on.
func decisive(of []noderuntime.State) noderuntime.State {
	first := of[0]
	i := slices.IndexFunc(of, func(s noderuntime.State) bool { return s.Primary })
	if i <= 0 || first.Ready != corev1.ConditionTrue {
		return first
	}
	primary := of[i]
	if primary.Ready == corev1.ConditionTrue && primary.Since.Before(first.Since) {
		primary.Since = first.Since // since when both are
	}
	return primary
}

func describe(s noderuntime.State) string {
	text := s.Name
	if s.Primary {
		text += ", the primary runtime"
	}
	if s.Version != "" {
		text += fmt.Sprintf(" (%s)", s.Version)
	}
	if s.Message == "" {
		return text
	}
	return text + ": " + s.Message
}

// primaryOf is the type of the primary runtime, or "" if there is none.
func primaryOf(states []noderuntime.State) workload.Type {
	if i := slices.IndexFunc(states, func(s noderuntime.State) bool { return s.Primary }); i >= 0 {
		return states[i].Type
	}
	return ""
}

// change is a strategic merge patch of a Node: conditions merge by their type.
// Its metadata goes with the status, as that of the kubelet's own patches.
type change struct {
	Metadata struct {
		Labels      map[string]any `json:"labels,omitempty"`
		Annotations map[string]any `json:"annotations,omitempty"`
	} `json:"metadata"`
	Status struct {
		Conditions []any `json:"conditions,omitempty"`
	} `json:"status"`
}

// deletion takes a condition away.
type deletion struct {
	Patch string                   `json:"$patch"`
	Type  corev1.NodeConditionType `json:"type"`
}

// patchFor returns what turns node into one with these runtimes, nil if it is
// one. The heartbeats of its conditions are renewed if something else changes,
// and when they are older than maxAge.
func patchFor(node *corev1.Node, states []noderuntime.State, now time.Time, maxAge time.Duration) ([]byte, error) {
	var p change
	differs := false
	wanted := Conditions(states)
	for _, t := range workload.Types() {
		is := func(c corev1.NodeCondition) bool { return c.Type == t.Condition() }
		have, want := slices.IndexFunc(node.Status.Conditions, is), slices.IndexFunc(wanted, is)
		if want < 0 {
			if have >= 0 {
				p.Status.Conditions = append(p.Status.Conditions, deletion{Patch: "delete", Type: t.Condition()})
				differs = true
			}
			continue
		}
		c := wanted[want]
		c.LastHeartbeatTime = metav1.NewTime(now)
		if have < 0 {
			differs = true
		} else {
			old := node.Status.Conditions[have]
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			differs = differs || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message ||
				now.Sub(old.LastHeartbeatTime.Time) >= maxAge
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
	primary := string(primaryOf(states))
	if have, ok := node.Annotations[workload.PrimaryAnnotation]; have != primary || ok != (primary != "") {
		differs = true
		p.Metadata.Annotations = map[string]any{workload.PrimaryAnnotation: primary}
		if primary == "" {
			p.Metadata.Annotations[workload.PrimaryAnnotation] = nil
		}
	}
	p.Metadata.Labels = handlerLabels(node.Labels, states)
	if !differs && len(p.Metadata.Labels) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the conditions of the runtimes: %w", err)
	}
	return body, nil
}

// maxHandlers bounds the labels that the handlers of one node take.
const maxHandlers = 64

// handlerLabels is what has to change of the labels of a node, so that they name the handlers of
// its runtimes: nil takes one away. None is taken away before each runtime has told its own:
// a kubelet that starts ends pods that run where their node selector does not match any more.
func handlerLabels(have map[string]string, states []noderuntime.State) map[string]any {
	wanted, all := map[string]bool{}, true
	for _, s := range states {
		all = all && s.Version != "" // which comes with the handlers
		for _, name := range append([]string{s.Name}, s.Handlers...) {
			if len(wanted) < maxHandlers {
				wanted[workload.HandlerLabel+name] = true
			}
		}
	}
	changes := map[string]any{}
	for key := range wanted {
		if have[key] != workload.HandlerOffered {
			changes[key] = workload.HandlerOffered
		}
	}
	for key := range have {
		if all && strings.HasPrefix(key, workload.HandlerLabel) && !wanted[key] {
			changes[key] = nil
		}
	}
	return changes
}
