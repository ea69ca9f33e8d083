package mux

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// list answers for all runtimes together. Of a message with a list, one after
// the other is the list of both, so merge need not decode anything. If the
// primary runtime does not answer, nobody does; others are answered for by
// what is remembered of them, or left out.
func (rt *router) list(c *call, merge func([][]byte) ([]byte, error)) error {
	if len(c.all) == 1 {
		return c.pass(c.all[0])
	}
	lists, err := rt.collect(c, c.method, c.fetch)
	if err != nil {
		return err
	}
	merged, err := merge(lists)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return c.stream.SendMsg(newFrame(merged))
}

// fetch gets the list of one runtime.
func (c *call) fetch(ctx context.Context, s *service) ([]byte, error) {
	answer, err := c.invoke(ctx, s, c.request)
	if err != nil {
		return nil, err
	}
	return answer.take(), nil
}

// collect asks all runtimes at the same time for their lists of the kind that
// method returns. The primary's comes first: it wins where only one can.
func (rt *router) collect(
	c *call, method string, fetch func(context.Context, *service) ([]byte, error),
) ([][]byte, error) {
	lists := make([][]byte, len(c.all))
	errs := make([]error, len(c.all))
	var wg sync.WaitGroup
	ask := func(i int, s *service) {
		if s.Primary {
			lists[i], errs[i] = fetch(c.ctx, s)
		} else {
			lists[i], errs[i] = rt.secondary(c, method, s, fetch)
		}
	}
	for i, s := range c.all[1:] {
		wg.Go(func() { ask(i+1, s) })
	}
	ask(0, c.all[0])
	wg.Wait()
	for i, s := range c.all {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if _, ok := remembered(method); ok {
			eachItem(lists[i], func(item []byte) { rt.owners.set(id(item), s) })
		}
	}
	first := slices.IndexFunc(c.all, func(s *service) bool { return s.Primary })
	lists[0], lists[first] = lists[first], lists[0]
	return lists, nil
}

// secondary asks a runtime without which the node does go on.
func (rt *router) secondary(
	c *call, method string, s *service, fetch func(context.Context, *service) ([]byte, error),
) ([]byte, error) {
	ctx, cancel := s.whileUp(c.ctx)
	defer cancel()
	t, isRemembered := remembered(method)
	list, err := fetch(ctx, s)
	switch {
	case err == nil:
		if isRemembered && everything(c.request) {
			if err := s.memory.keep(t, list); err != nil {
				rt.log.WithError(err).Warnf("what the runtime %q runs would not survive a restart", s.Name)
			}
		}
		return list, nil
	case c.ctx.Err() != nil:
		return nil, status.FromContextError(c.ctx.Err()).Err()
	case !isRemembered:
		if code := status.Code(err); code != codes.Unimplemented && code != codes.Canceled &&
			code != codes.Unavailable {
			rt.log.WithError(err).Warnf("%s is without the runtime %q", method, s.Name)
		}
		return nil, nil
	}
	if list, err = s.memory.recall(t, c.request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return list, nil
}

func concatenated(lists [][]byte) ([]byte, error) { return slices.Concat(lists...), nil }

// unique leaves out items that have the name of an earlier one.
func unique(lists [][]byte) ([]byte, error) {
	seen := map[string]bool{}
	var out []byte
	for _, list := range lists {
		eachItem(list, func(item []byte) {
			if name := string(id(item)); !seen[name] {
				seen[name] = true
				out = appendItem(out, item)
			}
		})
	}
	return out, nil
}

// uniqueImages makes one image of those with the same id: it has all their
// names, and is pinned if one is.
func uniqueImages(lists [][]byte) ([]byte, error) {
	var order []string
	byID := map[string][][]byte{}
	for _, list := range lists {
		eachItem(list, func(item []byte) {
			name := string(id(item))
			if byID[name] == nil {
				order = append(order, name)
			}
			byID[name] = append(byID[name], item)
		})
	}
	var out []byte
	for _, name := range order {
		items := byID[name]
		if len(items) == 1 {
			out = appendItem(out, items[0])
			continue
		}
		merged := &runtimeapi.Image{}
		if err := unmarshal(items[0], merged); err != nil {
			return nil, err
		}
		for _, item := range items[1:] {
			other := &runtimeapi.Image{}
			if err := unmarshal(item, other); err != nil {
				return nil, err
			}
			merged.RepoTags = union(merged.RepoTags, other.RepoTags)
			merged.RepoDigests = union(merged.RepoDigests, other.RepoDigests)
			merged.Pinned = merged.Pinned || other.Pinned
			merged.Size = max(merged.Size, other.Size)
		}
		item, err := marshal(merged)
		if err != nil {
			return nil, err
		}
		out = appendItem(out, item)
	}
	return out, nil
}

func union(a, b []string) []string {
	for _, text := range b {
		if !slices.Contains(a, text) {
			a = append(a, text)
		}
	}
	return a
}

// fileSystems puts the file systems for images of all runtimes behind those of
// the first, which are the ones that the kubelet keeps free. Those for
// containers are of the first alone: with another's, the kubelet would take
// its images and containers to be on different disks.
func fileSystems(lists [][]byte) ([]byte, error) {
	out := slices.Clone(lists[0])
	for _, list := range lists[1:] {
		eachItem(list, func(item []byte) { out = appendItem(out, item) })
	}
	return out, nil
}

// piece is how large a piece of a list in pieces gets.
const piece = 1 << 20

// streamLists answers a list in pieces. A secondary runtime that has no such
// call is asked for the list in one piece; if the primary is that, the call
// does not exist, and the kubelet asks otherwise.
func (rt *router) streamLists(c *call) error {
	if len(c.all) == 1 {
		return c.follow(c.all[0], c.stream.SendMsg)
	}
	whole := unstreamed(c.method)
	lists, err := rt.collect(c, whole, func(ctx context.Context, s *service) ([]byte, error) {
		one := *c
		one.ctx = ctx
		var list []byte
		err := one.follow(s, func(part any) error {
			list = append(list, part.(*frame).take()...)
			return nil
		})
		if s.Primary || status.Code(err) != codes.Unimplemented {
			return list, err
		}
		one.method = whole
		return one.fetch(ctx, s)
	})
	if err != nil {
		return err
	}
	merge := concatenated
	if whole == runtimeapi.ImageService_ListImages_FullMethodName {
		merge = uniqueImages
	}
	list, err := merge(lists)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	var part []byte
	eachItem(list, func(item []byte) {
		if part = appendItem(part, item); len(part) >= piece && err == nil {
			err = c.stream.SendMsg(newFrame(part))
			part = nil
		}
	})
	if err != nil || len(part) == 0 {
		return err
	}
	return c.stream.SendMsg(newFrame(part))
}
