package wire

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/a4s-io/a4s/internal/space"
)

// FieldSelector translates a field selector for resource r inwards. What
// cannot be read is returned as it is, for the API server to refuse.
func (p *Projector) FieldSelector(r Resource, s string) (string, error) {
	selector, err := fields.ParseSelector(s)
	if err != nil || p.selectsPlain() {
		return s, nil
	}
	involved, grouped := map[string]docKind{}, map[string]bool{}
	for _, requirement := range selector.Requirements() {
		object, field, ok := strings.Cut(requirement.Field, ".")
		if !ok || requirement.Operator == selection.NotEquals {
			continue
		}
		k := involved[object]
		switch field {
		case "kind":
			k.kind = requirement.Value
		case "apiVersion":
			k.group, grouped[object] = groupOf([]byte(requirement.Value)), true
		}
		involved[object] = k
	}
	for object, k := range involved {
		if group, ok := p.View.GroupOf(k.kind); ok && !grouped[object] {
			involved[object] = docKind{group: group, kind: k.kind}
		}
	}
	changed := false
	selector, err = selector.Transform(func(field, value string) (string, string, error) {
		out, err := p.fieldValue(r, involved, field, value)
		changed = changed || out != value
		return field, out, err
	})
	if err != nil {
		return "", err
	}
	if !changed {
		return s, nil
	}
	return selector.String(), nil
}

// selectsPlain tells the views in which selectors stay as they are.
func (p *Projector) selectsPlain() bool {
	return space.IsSystem(p.View.Tenant) || p.View.Tenant == space.All
}

func (p *Projector) fieldValue(r Resource, involved map[string]docKind, field, value string) (string, error) {
	switch field {
	case "metadata.namespace", "involvedObject.namespace", "regarding.namespace", "related.namespace":
		return p.View.Namespace(In, value)
	case "metadata.name":
		if r.Namespaced {
			return value, nil
		}
		return p.View.Name(In, r.Group, r.Kind, value)
	case "involvedObject.name", "regarding.name", "related.name":
		object, _, _ := strings.Cut(field, ".")
		k := involved[object]
		return p.View.Name(In, k.group, k.kind, value)
	case "spec.volumeName":
		if r.Group == "" && r.Kind == "PersistentVolumeClaim" {
			return p.View.ClusterName(In, value)
		}
	}
	return value, nil
}

// LabelSelector translates a label selector for resource r inwards, see
// FieldSelector. Only the name label of namespaces has names in it.
func (p *Projector) LabelSelector(r Resource, s string) (string, error) {
	if r.Group != "" || r.Kind != "Namespace" || p.selectsPlain() || !strings.Contains(s, namespaceNameLabel) {
		return s, nil
	}
	selector, err := labels.Parse(s)
	if err != nil {
		return s, nil
	}
	requirements, _ := selector.Requirements()
	out := labels.NewSelector()
	for _, requirement := range requirements {
		if requirement.Key() == namespaceNameLabel && requirement.Values().Len() > 0 {
			var values []string
			for _, value := range requirement.ValuesUnsorted() {
				namespace, err := p.View.Namespace(In, value)
				if err != nil {
					return "", err
				}
				values = append(values, namespace)
			}
			translated, err := labels.NewRequirement(namespaceNameLabel, requirement.Operator(), values)
			if err != nil {
				return s, nil
			}
			requirement = *translated
		}
		out = out.Add(requirement)
	}
	return out.String(), nil
}
