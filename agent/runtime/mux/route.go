package mux

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/workload"
)

// choose returns the runtime for a new sandbox, or for an image of one, and
// the handler to ask it for. Handlers that name a type or a runtime mean
// nothing to a runtime, unless it has one of that name itself. The error is
// what the pod's events show.
func choose(all []*service, handler string, annotations map[string]string) (*service, string, error) {
	wanted, annotated := workload.Container, false
	if name, ok := annotations[workload.Annotation]; ok {
		var err error
		if wanted, err = workload.Parse(name); err != nil {
			return nil, "", status.Errorf(codes.InvalidArgument, "annotation %s: %v", workload.Annotation, err)
		}
		annotated = true
	}
	s := byName(all, handler)
	if s == nil {
		if t, err := workload.Parse(handler); err == nil {
			if annotated && t != wanted {
				return nil, "", contradiction(wanted, handler, t)
			}
			wanted, annotated = t, true
		} else if handler != "" {
			// The first that has it, of the type if that is given.
			for _, other := range all {
				if other.lists(handler) && (!annotated || other.Type == wanted) {
					return other, handler, nil
				}
			}
		}
		s = byType(all, wanted)
	}
	switch {
	case s == nil:
		return nil, "", status.Errorf(codes.FailedPrecondition,
			"this node has no runtime for workloads of the type %s, only %s", wanted, named(all))
	case annotated && s.Type != wanted:
		return nil, "", contradiction(wanted, handler, s.Type)
	case handler == s.Name || handler == string(s.Type):
		if !s.lists(handler) {
			handler = ""
		}
	}
	return s, handler, nil
}

func contradiction(annotated workload.Type, handler string, its workload.Type) error {
	return status.Errorf(codes.InvalidArgument, "%v: annotation %s is %q, the runtime handler %q runs %q",
		workload.ErrConflict, workload.Annotation, annotated, handler, its)
}

// named lists runtimes for people.
func named(all []*service) string {
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%s (%s)", s.Name, s.Type))
	}
	return strings.Join(out, ", ")
}

// owner returns the runtime that has the sandbox or container. What nobody has
// goes to the primary runtime, which says so as the CRI wants it said. While a
// runtime cannot be asked, nothing is known to be nobody's.
func (rt *router) owner(c *call, t objectKind, wanted []byte) (*service, error) {
	if len(c.all) == 1 {
		return c.all[0], nil
	}
	// A list that was on its way when its runtime was removed can have named it.
	if s := rt.owners.of(wanted); s != nil && slices.Contains(c.all, s) {
		return s, nil
	}
	found := make([]bool, len(c.all))
	errs := make([]error, len(c.all))
	var wg sync.WaitGroup
	for i, s := range c.all {
		wg.Go(func() { found[i], errs[i] = s.has(c.ctx, t, string(wanted)) })
	}
	wg.Wait()
	for i, s := range c.all {
		if found[i] {
			rt.owners.set(wanted, s)
			return s, nil
		}
	}
	for i, s := range c.all {
		switch {
		case errs[i] == nil:
		case s.memory.has(t, wanted):
			return s, nil
		default:
			return nil, status.Errorf(codes.Unavailable, "nobody knows %s, but the runtime %q cannot be asked: %v",
				wanted, s.Name, status.Convert(errs[i]).Message())
		}
	}
	return primary(c.all), nil
}

// has asks the runtime. Runtimes take the beginning of an id for the id; then
// only the primary answers, as it did when there was no other.
func (s *service) has(ctx context.Context, t objectKind, wanted string) (bool, error) {
	ctx, cancel := s.whileUp(ctx)
	defer cancel()
	if t == sandboxes {
		list, err := s.client.ListPodSandbox(ctx,
			&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: wanted}})
		if err != nil {
			return false, err
		}
		return len(list.Items) == 1 && list.Items[0].Id == wanted, nil
	}
	list, err := s.client.ListContainers(ctx,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: wanted}})
	if err != nil {
		return false, err
	}
	return len(list.Containers) == 1 && list.Containers[0].Id == wanted, nil
}
