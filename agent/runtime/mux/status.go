package mux

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// answerStatus answers for the node.
//
// The kubelet asks every 5 s. An answer that is not ready makes the node
// NotReady at its next status, no answer does so 30 s after the last good one
// (maxWaitForContainerRuntime). Neither is the grace period that was set, so
// the kubelet always gets an answer: the last good one during the grace period,
// be it shorter or longer than 30 s, and one that is not ready after it, so
// that nothing is added to a short one. A primary runtime that cannot be reached
// for 3 minutes makes the node NotReady in any case, since its pods cannot be
// listed (the kubelet's threshold of the pod lifecycle event generator).
//
// A kubelet that starts asks ten times a second until its node is ready.
func (rt *router) answerStatus(c *call) error {
	var r runtimeapi.StatusRequest
	if err := unmarshal(c.request, &r); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	first := primary(c.all)
	select {
	case <-first.asked:
	case <-c.ctx.Done():
		return status.FromContextError(c.ctx.Err()).Err()
	}
	first.askAgain(c.ctx)
	answer := first.report(time.Now(), rt.grace)
	if r.Verbose {
		// For people, who want the truth of the moment.
		verbose, err := first.client.Status(c.ctx, &r)
		if err != nil {
			return err
		}
		answer.Info = verbose.GetInfo()
	}
	answer.RuntimeHandlers = handlers(c.all)
	return c.answer(answer)
}

// report returns what the kubelet is to know of the primary runtime: the last
// answer, or the last good one during the grace period. The kubelet takes its
// features from it too: they are about users and groups of containers.
func (s *service) report(now time.Time, grace time.Duration) *runtimeapi.StatusResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed.IsZero() || s.lastGood != nil && now.Sub(s.failed) < grace:
		return proto.CloneOf(s.lastGood)
	case s.answer != nil:
		return proto.CloneOf(s.answer)
	}
	conditions := make([]*runtimeapi.RuntimeCondition, 0, 2)
	for _, name := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		conditions = append(conditions,
			&runtimeapi.RuntimeCondition{Type: name, Reason: s.state.Reason, Message: s.state.Message})
	}
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: conditions},
		Features: s.lastGood.GetFeatures()}
}

// handlers are those of all runtimes, and those by which the mux picks one:
// the types of the registered runtimes and their names. What a name can do is
// what the default handler of the runtime can.
func handlers(all []*service) []*runtimeapi.RuntimeHandler {
	var out []*runtimeapi.RuntimeHandler
	add := func(name string, features *runtimeapi.RuntimeHandlerFeatures) {
		if !slices.ContainsFunc(out, func(h *runtimeapi.RuntimeHandler) bool { return h.Name == name }) {
			out = append(out, &runtimeapi.RuntimeHandler{Name: name, Features: features})
		}
	}
	for _, h := range primary(all).handlers() {
		add(h.GetName(), h.GetFeatures())
	}
	for _, s := range all {
		var usual *runtimeapi.RuntimeHandlerFeatures
		for _, h := range s.handlers() {
			if h.GetName() != "" {
				add(h.GetName(), h.GetFeatures())
			} else {
				usual = h.GetFeatures()
			}
		}
		if byType(all, s.Type) == s {
			add(string(s.Type), usual)
		}
		add(s.Name, usual)
	}
	return out
}

// answerVersion answers with the version of the primary runtime, and with the
// last one while it cannot be asked: the kubelet does not report that its node
// is not ready before it has one.
func (rt *router) answerVersion(c *call) error {
	first := primary(c.all)
	ctx, cancel := first.whileUp(c.ctx)
	defer cancel()
	answer, err := c.invoke(ctx, first, c.request)
	if err == nil {
		return c.stream.SendMsg(answer)
	}
	first.mu.Lock()
	version := first.version
	first.mu.Unlock()
	if version == nil || c.ctx.Err() != nil {
		return err
	}
	return c.answer(version)
}

// tellAll hands a call on to every runtime and the primary's answer back.
func (rt *router) tellAll(c *call) error {
	for _, s := range c.all {
		if s.Primary {
			continue
		}
		ctx, cancel := s.whileUp(c.ctx)
		if _, err := c.invoke(ctx, s, c.request); err != nil && status.Code(err) != codes.Unimplemented {
			rt.log.WithError(err).Warnf("%s: the runtime %q", c.method, s.Name)
		}
		cancel()
	}
	return c.pass(primary(c.all))
}
