package hostnames

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// frame is a message that nobody has decoded.
type frame struct{ data []byte }

// rawCodec hands frames on. Its name is that of the codec it stands in for.
type rawCodec struct{}

// Name implements encoding.CodecV2.
func (rawCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	f.data = data.Materialize()
	return nil
}

// unmarshal and marshal use gRPC's own codec.

func unmarshal(data []byte, message any) error {
	if err := encoding.GetCodecV2(proto.Name).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, message); err != nil {
		return fmt.Errorf("reading a %T: %w", message, err)
	}
	return nil
}

func marshal(message any) ([]byte, error) {
	data, err := encoding.GetCodecV2(proto.Name).Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("writing a %T: %w", message, err)
	}
	return data.Materialize(), nil
}

// pass hands one call on to the runtime. Calls of the CRI have one request and
// one answer or a stream of them.
func (o Options) pass(stream grpc.ServerStream, runtime grpc.ClientConnInterface) error {
	method, ok := grpc.MethodFromServerStream(stream)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	ctx := stream.Context()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	var request frame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	var err error
	switch method {
	case runtimeapi.RuntimeService_RunPodSandbox_FullMethodName:
		request.data, err = o.sandbox(request.data)
	case runtimeapi.RuntimeService_CreateContainer_FullMethodName:
		err = o.container(request.data)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "native names for a tenant's pod: %v", err)
	}
	call, err := runtime.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	// Where sending fails, receiving says why.
	if err := call.SendMsg(&request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := call.CloseSend(); err != nil {
		return err
	}
	for {
		var answer frame
		if err := call.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err // with its code, as the runtime said it
		}
		if err := stream.SendMsg(&answer); err != nil {
			return err
		}
	}
}
