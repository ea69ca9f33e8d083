package mux

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A runtime that hangs is noticed after probeInterval + probeTimeout, which is
// less than a second; one that ended, at once.
const (
	probeInterval = 300 * time.Millisecond
	probeTimeout  = 650 * time.Millisecond
	// hungAfter is when calls that only read are no longer made: the kubelet
	// waits two minutes for each, and its metrics wait for two of them.
	hungAfter = 10 * time.Second
	// maxReconnect is how soon a runtime that restarted is found again.
	maxReconnect = time.Second
	// maxMessage is twice what the kubelet takes.
	maxMessage = 32 << 20
	// window keeps the answer of a list from waiting for permission to
	// send the rest of it.
	window = 4 << 20
)

// Reasons of a State; what runtimes say themselves comes on top.
const (
	ReasonReady       = "RuntimeReady"
	ReasonUnasked     = "RuntimeNotAsked"
	ReasonUnreachable = "RuntimeUnreachable"
	ReasonNotReady    = "RuntimeNotReady"
)

// service is one registered runtime.
type service struct {
	Runtime
	fromSettings bool
	conn         *grpc.ClientConn
	client       runtimeapi.RuntimeServiceClient
	changed      func()
	memory       memory

	cancel  context.CancelFunc // of the prober; nil while it does not run
	stopped chan struct{}      // closed when the prober ended

	asking sync.Mutex // held during a probe, so that their results are in order

	mu       sync.Mutex
	state    State
	asked    chan struct{}               // closed after the first answer or error
	answer   *runtimeapi.StatusResponse  // of the last probe, nil if it had none
	lastGood *runtimeapi.StatusResponse  // the last one that was ready
	version  *runtimeapi.VersionResponse // the last one
	failed   time.Time                   // since when it is not ready
	down     chan struct{}               // closed while it is unreachable
	lost     time.Time                   // since when it is that
	hung     chan struct{}               // closed when it has been that for hungAfter
}

func (m *Mux) newService(r Runtime) (*service, error) {
	connect := backoff.DefaultConfig
	connect.BaseDelay, connect.MaxDelay = 100*time.Millisecond, maxReconnect
	conn, err := grpc.NewClient(r.Endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: connect, MinConnectTimeout: maxReconnect}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage),
			grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("client of the runtime %q: %w", r.Name, err)
	}
	now := time.Now()
	s := &service{
		Runtime: r,
		conn:    conn,
		client:  runtimeapi.NewRuntimeServiceClient(conn),
		changed: m.subscribers.notify,
		memory:  memory{file: m.memoryFile(r.Name)},
		asked:   make(chan struct{}),
		down:    make(chan struct{}),
		hung:    make(chan struct{}),
		failed:  now,
		state: State{
			Name: r.Name, Type: r.Type, Endpoint: r.Endpoint, Primary: r.Primary,
			Ready: corev1.ConditionUnknown, Reason: ReasonUnasked,
			Message: "the runtime has not been asked yet", Since: now,
		},
	}
	if r.Primary {
		s.memory.file = "" // the primary has to answer for itself
	}
	if err := s.memory.restore(); err != nil {
		m.o.Log.WithError(err).Warnf("the runtime %q", r.Name)
	}
	return s, nil
}

// start begins to probe. The caller sees to it that start and stop alternate.
func (s *service) start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.stopped = make(chan struct{})
	go func() {
		defer close(s.stopped)
		s.probe(ctx)
	}()
}

func (s *service) stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.stopped
		s.cancel = nil
	}
}

func (s *service) isOpen() bool { return s.conn.GetState() != connectivity.Shutdown }

func (s *service) close() error {
	s.stop()
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("closing the connection to the runtime %q: %w", s.Name, err)
	}
	return nil
}

// probe keeps the state of the runtime until ctx ends.
func (s *service) probe(ctx context.Context) {
	moved := make(chan struct{}, 1)
	go func() {
		for at := s.conn.GetState(); s.conn.WaitForStateChange(ctx, at); at = s.conn.GetState() {
			select {
			case moved <- struct{}{}:
			default:
			}
		}
	}()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		s.ask(ctx)
		select {
		case <-tick.C:
			if s.conn.GetState() == connectivity.TransientFailure {
				s.conn.ResetConnectBackoff()
			}
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// ask probes once.
func (s *service) ask(parent context.Context) {
	s.asking.Lock()
	defer s.asking.Unlock()
	ctx, cancel := context.WithTimeout(parent, probeTimeout)
	defer cancel()
	s.mu.Lock()
	version, known := s.version, s.answer != nil
	s.mu.Unlock()
	answer, err := s.client.Status(ctx, &runtimeapi.StatusRequest{})
	if err == nil && (version == nil || !known) { // it may be another program by now
		version, err = s.client.Version(ctx, &runtimeapi.VersionRequest{})
	}
	if parent.Err() != nil {
		return // nothing is known of the runtime by that
	}
	s.learn(answer, version, err, time.Now())
}

// askAgain probes a runtime that answers and is not ready, so that nobody who
// asks has to wait for the next probe.
func (s *service) askAgain(ctx context.Context) {
	s.mu.Lock()
	waits := s.answer != nil && s.state.Ready != corev1.ConditionTrue
	s.mu.Unlock()
	if waits {
		s.ask(ctx)
	}
}

// learn takes in what a probe found.
func (s *service) learn(
	answer *runtimeapi.StatusResponse, version *runtimeapi.VersionResponse, err error, now time.Time,
) {
	s.mu.Lock()
	before := s.state
	if err != nil {
		answer = nil
		s.state.Ready, s.state.Reason, s.state.Message = corev1.ConditionUnknown, ReasonUnreachable, s.explain(err)
	} else {
		s.version = version
		s.state.Version = strings.TrimSpace(version.GetRuntimeName() + " " + version.GetRuntimeVersion())
		s.state.Ready, s.state.Reason, s.state.Message = readiness(answer)
		s.state.Handlers = handlerNames(answer)
	}
	s.setReachable(answer != nil, now)
	s.answer = answer
	switch {
	case s.state.Ready == corev1.ConditionTrue:
		s.lastGood, s.failed = answer, time.Time{}
	case s.failed.IsZero():
		s.failed = now
	}
	if s.state.Ready != before.Ready {
		s.state.Since = now
	}
	differs := !reflect.DeepEqual(s.state, before)
	select {
	case <-s.asked:
	default:
		close(s.asked)
	}
	s.mu.Unlock()
	if differs {
		s.changed()
	}
}

// setReachable opens or closes down and hung. mu is held.
func (s *service) setReachable(yes bool, now time.Time) {
	switch {
	case yes:
		s.lost = time.Time{}
	case s.lost.IsZero():
		s.lost = now
	}
	s.down = closedIf(!yes, s.down)
	if yes || now.Sub(s.lost) >= hungAfter {
		s.hung = closedIf(!yes, s.hung)
	}
}

// closedIf closes a channel, or returns one that is not closed.
func closedIf(closed bool, c chan struct{}) chan struct{} {
	select {
	case <-c:
		if !closed {
			return make(chan struct{})
		}
	default:
		if closed {
			close(c)
		}
	}
	return c
}

// explain says why a probe failed, always in the same words: a text that
// changes would make a new condition of each probe.
func (s *service) explain(err error) string {
	switch status.Code(err) {
	case codes.Unavailable:
		return "nothing can be reached at " + s.Endpoint
	case codes.DeadlineExceeded:
		return fmt.Sprintf("%s did not answer within %s", s.Endpoint, probeTimeout)
	default:
		return fmt.Sprintf("%s answered the question for its status with: %s", s.Endpoint,
			status.Convert(err).Message())
	}
}

// readiness reads the two conditions that every runtime must have.
func readiness(answer *runtimeapi.StatusResponse) (ready corev1.ConditionStatus, reason, message string) {
	conditions := answer.GetStatus().GetConditions()
	for _, required := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		i := slices.IndexFunc(conditions, func(c *runtimeapi.RuntimeCondition) bool { return c.GetType() == required })
		if i < 0 {
			return corev1.ConditionFalse, ReasonNotReady, "the runtime does not say whether it is " + required
		}
		if c := conditions[i]; !c.GetStatus() {
			reason, message := c.GetReason(), c.GetMessage()
			if reason == "" {
				reason = ReasonNotReady
			}
			if message == "" {
				message = "the runtime says that it is not " + required
			}
			return corev1.ConditionFalse, reason, message
		}
	}
	return corev1.ConditionTrue, ReasonReady, "runtime and network are ready"
}

// handlerNames are those that RuntimeClasses can have, in order, so that answers compare.
func handlerNames(answer *runtimeapi.StatusResponse) []string {
	var names []string
	for _, h := range answer.GetRuntimeHandlers() {
		if len(validation.IsDNS1123Label(h.GetName())) == 0 {
			names = append(names, h.GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *service) current() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// handlers are those that the runtime listed when it last answered.
func (s *service) handlers() []*runtimeapi.RuntimeHandler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		return s.answer.GetRuntimeHandlers()
	}
	return s.lastGood.GetRuntimeHandlers()
}

// lists reports whether the runtime itself has a handler of that name.
func (s *service) lists(handler string) bool {
	return slices.ContainsFunc(s.handlers(), func(h *runtimeapi.RuntimeHandler) bool { return h.GetName() == handler })
}

// whileUp returns a context that also ends when the runtime becomes
// unreachable; it has ended if the runtime is that already.
func (s *service) whileUp(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return until(ctx, s.down)
}

// hangs returns what is closed when the runtime has been unreachable for
// hungAfter.
func (s *service) hangs() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hung
}

// until returns a context that also ends when end is closed.
func until(ctx context.Context, end <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	select {
	case <-end:
		cancel()
	default:
		go func() {
			select {
			case <-end:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}
