package gateway

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// statusOfRoute writes the entries of a route.
func (r *resolver) statusOfRoute(t *route, c *compiled) {
	t.findPresent()
	unresolved := c.unresolved()
	var partly string
	if len(c.invalid) > 0 && c.valid > 0 {
		partly = fmt.Sprintf("Dropped Rule: %s; requests that it matches are answered with 500", several(c.invalid))
	}
	entries := make([]gatewayv1.RouteParentStatus, 0, len(t.parents))
	for _, p := range t.parents {
		conditions := r.conditionsOn(p.present, t.object.GetGeneration(), string(gatewayv1.RouteConditionAccepted),
			string(gatewayv1.RouteConditionResolvedRefs), string(gatewayv1.RouteConditionPartiallyInvalid))
		message := "the route is accepted"
		if said := append(slices.Clone(t.said), p.said...); len(said) > 0 {
			message += "; " + several(said)
		}
		judge(conditions, gatewayv1.RouteConditionAccepted, p.refused, gatewayv1.RouteReasonAccepted, message)
		judge(conditions, gatewayv1.RouteConditionResolvedRefs, unresolved, gatewayv1.RouteReasonResolvedRefs,
			"all references are resolved")
		if partly != "" && !p.refused.is() {
			set(conditions, gatewayv1.RouteConditionPartiallyInvalid, metav1.ConditionTrue, c.invalid[0].reason,
				partly)
		} else {
			remove(conditions, gatewayv1.RouteConditionPartiallyInvalid)
		}
		entries = append(entries, entryOf(p, conditions))
	}
	r.out.Entries(t.kind)[t.name] = entries
}

// leaveOut tells a route that it is left out, in one condition of its first parent: what is said of each of many
// routes must be little.
func (r *resolver) leaveOut(t *route) {
	t.findPresent()
	p := t.parents[0]
	var present []metav1.Condition
	if was := meta.FindStatusCondition(p.present, string(gatewayv1.RouteConditionAccepted)); was != nil {
		present = []metav1.Condition{*was}
	}
	conditions := r.conditionsOn(present, t.object.GetGeneration(), string(gatewayv1.RouteConditionAccepted))
	judge(conditions, gatewayv1.RouteConditionAccepted, tooMany(), "", "")
	r.out.Entries(t.kind)[t.name] = []gatewayv1.RouteParentStatus{entryOf(p, conditions)}
}

func entryOf(p *parent, c *conditions) gatewayv1.RouteParentStatus {
	return gatewayv1.RouteParentStatus{ParentRef: *p.ref, ControllerName: ControllerName, Conditions: c.list}
}

// findPresent finds the conditions that a route has for its parents.
func (t *route) findPresent() {
	parents := make(map[refKey]*parent, len(t.parents))
	for _, p := range t.parents {
		parents[keyOf(p.ref)] = p
	}
	for i := range t.present[:min(len(t.present), 2*mostParents)] {
		entry := &t.present[i]
		if entry.ControllerName != ControllerName {
			continue
		}
		if p := parents[keyOf(&entry.ParentRef)]; p != nil && p.present == nil {
			p.present = entry.Conditions
		}
	}
}

// refKey is a reference to a parent, to compare it with others as it is spelled.
type refKey struct {
	group     optional[gatewayv1.Group]
	kind      optional[gatewayv1.Kind]
	namespace optional[gatewayv1.Namespace]
	name      gatewayv1.ObjectName
	section   optional[gatewayv1.SectionName]
	port      optional[gatewayv1.PortNumber]
}

type optional[T comparable] struct {
	is    bool
	value T
}

func optionalOf[T comparable](value *T) optional[T] {
	if value == nil {
		return optional[T]{}
	}
	return optional[T]{true, *value}
}

func keyOf(ref *gatewayv1.ParentReference) refKey {
	return refKey{optionalOf(ref.Group), optionalOf(ref.Kind), optionalOf(ref.Namespace), ref.Name,
		optionalOf(ref.SectionName), optionalOf(ref.Port)}
}
