package roles

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Shared reports whether a ClusterRole is one of the system space that all spaces have.
func Shared(composite string) bool {
	of, _ := space.SplitClusterName(composite)
	return of == space.System && kinds.SharedClusterRole(composite)
}

// Selectable reports whether an aggregated role of the same space can select a
// role: every role of a tenant has the label of the tenant.
func Selectable(role *rbacv1.ClusterRole) bool {
	n := len(role.Labels)
	if _, ok := role.Labels[space.Label]; ok {
		n--
	}
	return n > 0
}

// Rules is what role gives in a space. Of all roles of the space, those that
// Selectable reports are enough. What an aggregated role among them has stored is
// not looked at, but what it selects.
func Rules(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	c := collection{all: slices.Clone(all), seen: map[string]bool{}, has: map[string]bool{}}
	slices.SortFunc(c.all, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	err := c.add(role)
	return c.rules, err
}

// collection is the rules found so far, each once.
type collection struct {
	all       []*rbacv1.ClusterRole
	seen, has map[string]bool
	rules     []rbacv1.PolicyRule
}

func (c *collection) add(role *rbacv1.ClusterRole) error {
	if c.seen[role.Name] {
		return nil
	}
	c.seen[role.Name] = true
	if role.AggregationRule == nil {
		for _, rule := range role.Rules {
			if key := rule.String(); !c.has[key] {
				c.has[key] = true
				c.rules = append(c.rules, rule)
			}
		}
		return nil
	}
	for _, s := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := selectorOf(s)
		if err != nil {
			return fmt.Errorf("reading the selectors of the ClusterRole %s: %w", role.Name, err)
		}
		for _, r := range c.all {
			if selector.Matches(labels.Set(r.Labels)) {
				if err := c.add(r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// selectorOf is a selector without what confines it to the roles of a tenant: the
// shared ones have no tenant's label.
func selectorOf(s metav1.LabelSelector) (labels.Selector, error) {
	out := metav1.LabelSelector{MatchLabels: make(map[string]string, len(s.MatchLabels))}
	for key, value := range s.MatchLabels {
		if key != space.Label {
			out.MatchLabels[key] = value
		}
	}
	for _, e := range s.MatchExpressions {
		if e.Key != space.Label {
			out.MatchExpressions = append(out.MatchExpressions, e)
		}
	}
	return metav1.LabelSelectorAsSelector(&out)
}
