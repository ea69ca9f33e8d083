package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

// reasons says of some objects why they are still there, in native names: whoever
// reads it knows the Tenant.
func (e *emptying) reasons(ctx context.Context, left []contents.Resource) string {
	var out []string
	for _, t := range []int{workloads, hooks, rest, definitions, namespaces} {
		for _, r := range left {
			if turn(r.GroupResource) != t {
				continue
			}
			a, err := e.apis.of(ctx, r)
			if err != nil {
				continue
			}
			for _, o := range r.Objects[:min(examples, len(r.Objects))] {
				if len(out) == examples {
					break
				}
				m, err := e.metadata.Resource(a.GroupVersionResource).Namespace(o.Namespace).Get(ctx, o.Name,
					metav1.GetOptions{})
				if err != nil {
					continue
				}
				if why := reason(m); why != "" {
					out = append(out, fmt.Sprintf("%s %s %s", r.GroupResource, native(o), why))
				}
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

func reason(m *metav1.PartialObjectMetadata) string {
	switch {
	case len(m.Finalizers) > 0:
		return "is held by " + strings.Join(slices.Sorted(slices.Values(m.Finalizers)), " and ")
	case m.DeletionGracePeriodSeconds != nil && *m.DeletionGracePeriodSeconds > 0:
		return fmt.Sprintf("has %d seconds to end", *m.DeletionGracePeriodSeconds)
	}
	return ""
}

func native(o contents.Object) string {
	if o.Namespace == "" {
		if tenant, name := space.SplitClusterName(o.Name); tenant != space.System {
			return name
		}
		_, name := space.SplitNamespace(o.Name)
		return name
	}
	_, ns := space.SplitNamespace(o.Namespace)
	return ns + "/" + o.Name
}
