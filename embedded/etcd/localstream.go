package etcd

import (
	"context"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// localStream hands the chunks of one answer from the member to a client of this
// process, one at a time: the member waits until a chunk was taken, as it would
// for a socket.
type localStream struct {
	ctx    context.Context
	chunks chan *pb.RangeStreamResponse
	err    error // how the answer ended; to be read once chunks is closed
}

// sendingSide is the member's. It has no headers and nothing to receive: etcd
// calls Context and Send.
type sendingSide struct {
	grpc.ServerStream
	*localStream
}

// Context is the caller's.
func (s sendingSide) Context() context.Context { return s.ctx }

// Send returns when the chunk was taken or the caller is gone.
func (s sendingSide) Send(chunk *pb.RangeStreamResponse) error {
	select {
	case s.chunks <- chunk:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// receivingSide is the client's. It has no headers and nothing to send: etcd's
// client calls Recv.
type receivingSide struct {
	grpc.ClientStream
	*localStream
}

// Context is the caller's.
func (s receivingSide) Context() context.Context { return s.ctx }

// Recv returns the next chunk, io.EOF after the last, or why it ended.
func (s receivingSide) Recv() (*pb.RangeStreamResponse, error) {
	if chunk, more := <-s.chunks; more {
		return chunk, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	return nil, io.EOF
}
