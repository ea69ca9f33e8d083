package mux

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/rootsocket"
)

// serveCRI serves until the returned function is called. failed gets the
// reason if it ends earlier.
func (m *Mux) serveCRI(ctx context.Context, failed chan<- error) (stop func(), err error) {
	listener, err := rootsocket.Listen(ctx, m.o.Socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return m.router.handle(stream) }))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); err != nil {
			failed <- err
		}
	}()
	return func() {
		server.Stop()
		<-served
	}, nil
}

// router hands every call of the kubelet on to the runtimes that it is about.
type router struct {
	log   *logrus.Entry
	grace time.Duration // Options.Grace
	// carried is Options.Carried.
	carried string
	native  rewriter
	owners  owners

	// all returns the registered runtimes, snapshot also what is closed when
	// they change.
	all      func() []*service
	snapshot func() ([]*service, <-chan struct{})
}

// call is one call of the kubelet.
type call struct {
	ctx     context.Context // also for the calls that it becomes
	method  string
	request []byte
	stream  grpc.ServerStream
	all     []*service // the runtimes of its beginning
}

// handle routes one call. Calls of the CRI have one request and one answer or
// a stream of them.
func (rt *router) handle(stream grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(stream)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	var request frame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	c := &call{ctx: stream.Context(), method: method, request: request.take(), stream: stream, all: rt.all()}
	if md, ok := metadata.FromIncomingContext(c.ctx); ok {
		c.ctx = metadata.NewOutgoingContext(c.ctx, md)
	}
	switch kindOf(method) {
	case runSandbox:
		return rt.runSandbox(c)
	case createInside:
		return rt.createContainer(c)
	case toSandbox:
		return rt.toOwner(c, sandboxes)
	case toContainer:
		return rt.toOwner(c, containers)
	case listAll, listUnique, listImages, listFS, streamAll:
		return c.read(primary(c.all), func() error { return rt.anyList(c) })
	case askStatus:
		return rt.answerStatus(c)
	case askVersion:
		return rt.answerVersion(c)
	case tellAll:
		return rt.tellAll(c)
	case followEvents:
		return rt.followEvents(c)
	case toImage:
		return rt.toImage(c)
	case removeImage:
		return rt.removeImage(c)
	default:
		return c.follow(primary(c.all), c.stream.SendMsg)
	}
}

// anyList answers a list.
func (rt *router) anyList(c *call) error {
	switch kindOf(c.method) {
	case listUnique:
		return rt.list(c, unique)
	case listImages:
		return rt.list(c, uniqueImages)
	case listFS:
		return rt.list(c, fileSystems)
	case streamAll:
		return rt.streamLists(c)
	default:
		return rt.list(c, concatenated)
	}
}

// read makes a call that changes nothing, and ends it when the runtime hangs.
func (c *call) read(s *service, do func() error) error {
	asked := c.ctx
	ctx, cancel := until(asked, s.hangs())
	defer cancel()
	c.ctx = ctx
	err := do()
	if err != nil && ctx.Err() != nil && asked.Err() == nil {
		return status.Errorf(codes.Unavailable, "the runtime %q: %s", s.Name, s.current().Message)
	}
	return err
}

// invoke makes the call at one runtime.
func (c *call) invoke(ctx context.Context, s *service, request []byte) (*frame, error) {
	answer := &frame{}
	err := s.conn.Invoke(ctx, c.method, newFrame(request), answer)
	return answer, err // with its code, as the runtime said it
}

// pass makes the call at one runtime and hands its answer on.
func (c *call) pass(s *service) error {
	answer, err := c.invoke(c.ctx, s, c.request)
	if err != nil {
		return err
	}
	return c.stream.SendMsg(answer)
}

// answer sends a message that was made here.
func (c *call) answer(message any) error {
	data, err := marshal(message)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return c.stream.SendMsg(newFrame(data))
}

// follow makes the call at one runtime and hands every answer to send.
func (c *call) follow(s *service, send func(any) error) error {
	upstream, err := s.conn.NewStream(c.ctx, &grpc.StreamDesc{ServerStreams: true}, c.method)
	if err != nil {
		return err
	}
	// Where sending fails, receiving says why.
	if err := upstream.SendMsg(newFrame(c.request)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := upstream.CloseSend(); err != nil {
		return err
	}
	for {
		var answer frame
		if err := upstream.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := send(&answer); err != nil {
			return err
		}
	}
}

// runSandbox starts a sandbox in the runtime of its type.
func (rt *router) runSandbox(c *call) error {
	var r runtimeapi.RunPodSandboxRequest
	if err := unmarshal(c.request, &r); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s, handler, err := choose(c.all, r.RuntimeHandler, r.GetConfig().GetAnnotations())
	if err != nil {
		return err
	}
	changed := rt.native.sandbox(r.GetConfig())
	if left := shorten(r.GetConfig()); len(left) > 0 {
		changed = true
		rt.log.WithField("pod", r.GetConfig().GetMetadata().GetNamespace()+"/"+r.GetConfig().GetMetadata().GetName()).
			Infof("The runtime is not told %d annotations and labels that are too long together, such as %q",
				len(left), left[0])
	}
	if changed || handler != r.RuntimeHandler {
		r.RuntimeHandler = handler
		if c.request, err = marshal(&r); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
	return rt.made(c, s)
}

// createContainer makes a container in the runtime of its sandbox.
func (rt *router) createContainer(c *call) error {
	if err := rt.native.container(c.request); err != nil {
		return status.Errorf(codes.Internal, "native names for a tenant's pod: %v", err)
	}
	short, err := shortenContainer(c.request)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	c.request = short
	s, err := rt.owner(c, sandboxes, id(c.request))
	if err != nil {
		return err
	}
	return rt.made(c, s)
}

// made makes a call whose answer has the id of something new.
func (rt *router) made(c *call, s *service) error {
	answer, err := c.invoke(c.ctx, s, c.request)
	if err != nil {
		return err
	}
	if len(c.all) > 1 {
		data := answer.take()
		rt.owners.set(id(data), s)
		answer = newFrame(data)
	}
	return c.stream.SendMsg(answer)
}

// toOwner makes a call at the runtime that has the object.
func (rt *router) toOwner(c *call, t objectKind) error {
	s, err := rt.owner(c, t, id(c.request))
	if err != nil {
		return err
	}
	if c.method == runtimeapi.RuntimeService_RemovePodSandbox_FullMethodName ||
		c.method == runtimeapi.RuntimeService_RemoveContainer_FullMethodName {
		answer, err := c.invoke(c.ctx, s, c.request)
		if err != nil {
			return err
		}
		rt.owners.forget(id(c.request))
		s.memory.forget(t, id(c.request))
		return c.stream.SendMsg(answer)
	}
	if !reads(c.method) {
		return c.pass(s)
	}
	if s.Primary {
		return c.read(s, func() error { return c.pass(s) })
	}
	// The kubelet reads one pod after the other; those of a runtime that
	// hangs must not hold up those of others.
	ctx, cancel := s.whileUp(c.ctx)
	defer cancel()
	answer, err := c.invoke(ctx, s, c.request)
	if err != nil && ctx.Err() != nil && c.ctx.Err() == nil {
		return status.Errorf(codes.Unavailable, "the runtime %q: %s", s.Name, s.current().Message)
	}
	if err != nil {
		return err
	}
	return c.stream.SendMsg(answer)
}
