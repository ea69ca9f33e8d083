package gateway

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// mostSelected is how many requirements and values a selector has.
const mostSelected = 1000

// sources are the namespaces whose routes a listener takes.
type sources struct {
	from     gatewayv1.FromNamespaces
	selector labels.Selector
	size     int
	seen     map[string]bool // by namespace
}

// sourcesOf finds the namespaces whose routes a listener takes, and says what is wrong with them.
func (r gatewayReader) sourcesOf(l *listener) problem {
	l.sources.from = gatewayv1.NamespacesFromSame
	a := l.spec.AllowedRoutes
	if a == nil || a.Namespaces == nil || a.Namespaces.From == nil {
		return problem{}
	}
	switch from := *a.Namespaces.From; from {
	case gatewayv1.NamespacesFromAll, gatewayv1.NamespacesFromSame, gatewayv1.NamespacesFromSelector:
		l.sources.from = from
	default:
		l.sources.from = gatewayv1.NamespacesFromNone
		return unsupported("allowedRoutes.namespaces.from %s is not supported",
			quote(from))
	}
	if l.sources.from == gatewayv1.NamespacesFromSelector {
		return r.selectorOf(&l.sources, a.Namespaces.Selector)
	}
	return problem{}
}

func (r gatewayReader) selectorOf(s *sources, of *metav1.LabelSelector) problem {
	s.selector, s.seen = labels.Nothing(), map[string]bool{}
	if of == nil {
		return unsupported("allowedRoutes.namespaces has no selector")
	}
	s.size = 1 + len(of.MatchLabels)
	for i := range of.MatchExpressions {
		s.size += 1 + len(of.MatchExpressions[i].Values)
	}
	if s.size > mostSelected {
		return unsupported("allowedRoutes.namespaces.selector has more than "+
			"%d labels and values", mostSelected)
	}
	r.spend(s.size)
	// One label after another, as else it would depend on chance which one a message is about.
	for _, key := range slices.Sorted(maps.Keys(of.MatchLabels)) {
		one := &metav1.LabelSelector{MatchLabels: map[string]string{key: of.MatchLabels[key]}}
		if _, err := metav1.LabelSelectorAsSelector(one); err != nil {
			return badSelector(err)
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(of)
	if err != nil {
		return badSelector(err)
	}
	s.selector = selector
	return problem{}
}

func badSelector(err error) problem {
	return unsupported("allowedRoutes.namespaces.selector: %s", clip(err.Error(), mostMessage/2))
}

// takes reports whether a listener takes routes of a kind and a namespace.
func (r gatewayReader) takes(g *gateway, l *listener, kind, namespace string) bool {
	if !l.takesKind(kind) {
		return false
	}
	s := &l.sources
	switch s.from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == g.name.Namespace
	case gatewayv1.NamespacesFromSelector:
	default:
		return false
	}
	taken, ok := s.seen[namespace]
	if !ok && r.spend(s.size) {
		of, found := r.Labels(namespace)
		taken = found && s.selector.Matches(nativeLabels{of, namespace})
		s.seen[namespace] = taken
	}
	return taken
}

// nativeLabels are those of a namespace as its tenant sees them.
type nativeLabels struct {
	of        map[string]string
	namespace string // composite
}

// Has reports whether there is a label.
func (n nativeLabels) Has(label string) bool {
	_, ok := n.Lookup(label)
	return ok
}

// Get is the value of a label.
func (n nativeLabels) Get(label string) string {
	value, _ := n.Lookup(label)
	return value
}

// Lookup is the value of a label, if there is one.
func (n nativeLabels) Lookup(label string) (value string, exists bool) {
	switch label {
	case space.Label:
		return "", false
	case corev1.LabelMetadataName:
		_, value = space.SplitNamespace(n.namespace)
		return value, true
	}
	value, exists = n.of[label]
	return value, exists
}
