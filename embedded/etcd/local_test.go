package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// A member closes when nobody of its process is in a call any more, and lets no
// further one in.
func TestGateWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		call := func(_ context.Context, takes time.Duration) (string, error) {
			time.Sleep(takes)
			return "done", nil
		}
		ended := make(chan error, 1)
		go func() {
			_, err := pass(t.Context(), g, time.Minute, call)
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		g.close(time.Hour)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("closed after %v, the call took a minute", took)
		}
		if err := <-ended; err != nil {
			t.Errorf("the call that was inside: %v", err)
		}
		if _, err := pass(t.Context(), g, 0, call); !errors.Is(err, rpctypes.ErrGRPCStopped) {
			t.Errorf("a call afterwards: %v", err)
		}
		g.close(time.Hour) // again
	})
}

// A call that does not end keeps a member only for a while.
func TestGateDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, never := newGate(), make(chan struct{})
		go func() {
			_, _ = pass(t.Context(), g, struct{}{}, func(context.Context, struct{}) (struct{}, error) {
				<-never
				return struct{}{}, nil
			})
		}()
		synctest.Wait()
		began := time.Now()
		g.close(localPatience)
		if took := time.Since(began); took != localPatience {
			t.Errorf("closed after %v, want %v", took, localPatience)
		}
		close(never)
	})
}

// ranges is a member that remembers what it was asked.
type ranges struct {
	pb.KVServer
	asked []*pb.RangeRequest
}

// Range implements pb.KVServer.
func (r *ranges) Range(_ context.Context, in *pb.RangeRequest) (*pb.RangeResponse, error) {
	r.asked = append(r.asked, in)
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}}, nil
}

// A sole member need not ask itself whether it knows everything.
func TestLocalReadsDoNotWaitForAgreement(t *testing.T) {
	member := &ranges{}
	client := (&Local{kv: &localKV{inner: member, gate: newGate()}}).Client(t.Context())
	for _, o := range [][]clientv3.OpOption{nil, {clientv3.WithPrefix()}, {clientv3.WithRev(3)}} {
		if _, err := client.Get(t.Context(), "key", o...); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range member.asked {
		if !r.Serializable || string(r.Key) != "key" {
			t.Errorf("read %d: %v", i, r)
		}
	}
	if len(member.asked) != 3 || member.asked[2].Revision != 3 {
		t.Errorf("%d reads: %v", len(member.asked), member.asked)
	}
}

// A member with others, or that does not run, is called through its socket.
func TestLocalIsForASoleMember(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		runs    bool
		want    bool
	}{
		"sole":              {"", true, true},
		"one of several":    {"192.0.2.1", true, false},
		"sole, not running": {"", false, false},
	} {
		s := &Server{peer: peer{opts: Options{Address: c.address}}, local: &Local{}}
		if c.runs {
			s.running.Store(&embed.Etcd{})
		}
		if got := s.Local() != nil; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
