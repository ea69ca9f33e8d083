package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

const (
	// handoverPatience bounds how long a member that is to close waits for another to
	// lead. Without a majority there is none.
	handoverPatience = 2 * time.Second
	// closePatience bounds how long it waits for requests of other servers.
	closePatience = 2 * time.Second
	// closeTimeout bounds how long it may take to close then.
	closeTimeout = 5 * time.Second
)

// leave closes a member that serves. Close gives requests of other servers twice an
// election and five seconds to end, for each listener, and hands the leadership over
// after them: a member that does not live to that point leaves the others without a
// leader, and what they have proposed to it is lost. So that comes first, and streams,
// which would never end, are ended.
func leave(e *embed.Etcd, endStreams context.CancelFunc) {
	within(handoverPatience, func() { _ = e.Server.TryTransferLeadershipOnShutdown() })
	endStreams()
	closed := make(chan struct{})
	go func() {
		e.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return
	case <-time.After(closePatience):
	}
	// Requests that wait for a majority end with the member.
	within(closeTimeout, func() {
		e.Server.HardStop()
		<-closed
	})
}

// abandon closes a member that has lost a goroutine to a fatal error and may wait for it
// forever, or that never served: what it holds goes with the process.
func abandon(e *embed.Etcd, served bool) {
	within(closeTimeout, func() {
		if !served {
			// Close waits for listeners that begin when the member is ready, or has stopped.
			e.Server.HardStop()
		}
		e.Close()
	})
}

// within waits for do, which goes on afterwards if it takes longer.
func within(patience time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// endingStreams lets streams of clients end with ctx, as they do when a member is gone:
// the clients go on at another one.
func endingStreams(ctx context.Context) grpc.ServerOption {
	return grpc.ChainStreamInterceptor(func(
		srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler,
	) error {
		own, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		err := handle(srv, &endingStream{ServerStream: stream, ctx: own})
		if err != nil && ctx.Err() != nil {
			return rpctypes.ErrGRPCStopped
		}
		return err
	})
}

// endingStream is a stream with a context of its own.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *endingStream) Context() context.Context { return s.ctx }
