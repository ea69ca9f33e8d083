package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// slowKV takes a second for everything.
type slowKV struct {
	clientv3.KV
	found int
}

func (k slowKV) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	time.Sleep(time.Second)
	return &clientv3.GetResponse{Kvs: make([]*mvccpb.KeyValue, k.found)}, nil
}

func (k slowKV) Txn(context.Context) clientv3.Txn { return slowTxn{} }

type slowTxn struct{ clientv3.Txn }

func (t slowTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t slowTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t slowTxn) Else(...clientv3.Op) clientv3.Txn { return t }

func (t slowTxn) Commit() (*clientv3.TxnResponse, error) {
	time.Sleep(time.Second)
	return &clientv3.TxnResponse{}, nil
}

// TestDatastoreIsWaitedForWithoutASeat: unless it is this process that computes. Only what
// reads much has its seat again before it goes on.
func TestDatastoreIsWaitedForWithoutASeat(t *testing.T) {
	get := func(ctx context.Context, kv clientv3.KV) error {
		_, err := kv.Get(ctx, "/registry/pods/")
		return err
	}
	for _, c := range []struct {
		what         string
		found        int
		local        bool
		do           func(context.Context, clientv3.KV) error
		gives, needs bool
	}{
		{"one key", 1, false, get, true, false},
		{"many keys", 2, false, get, true, true},
		{"of this process", 2, true, get, false, false},
		{"a transaction", 0, true, func(ctx context.Context, kv clientv3.KV) error {
			_, err := kv.Txn(ctx).If().Then().Else().Commit()
			return err
		}, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			busy := func() int { return 1000 }
			queue := fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 8, Busy: busy})
			acquire := func() *fairqueue.Seat {
				seat, err := queue.Acquire(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				return seat
			}
			seat, began := acquire(), time.Now()
			done := make(chan time.Duration, 1)
			go func() {
				kv := seatedKV{slowKV{found: c.found}, !c.local}
				if err := c.do(fairqueue.With(t.Context(), seat), kv); err != nil {
					t.Error(err)
				}
				done <- time.Since(began)
				if !c.gives {
					seat.Release()
				}
			}()
			synctest.Wait()
			other := acquire()
			if gave := time.Since(began) < time.Second; gave != c.gives {
				t.Errorf("%s: another request has a seat after %v", c.what, time.Since(began))
			}
			time.Sleep(5*time.Second - time.Since(began))
			other.Release()
			if took := <-done; (took > time.Second) != c.needs {
				t.Errorf("%s: it goes on after %v", c.what, took)
			}
			seat.Release()
		})
	}
}

// committed counts what is written.
type committed struct {
	clientv3.KV
	n int
}

func (c *committed) Txn(context.Context) clientv3.Txn { return committing{of: c} }

type committing struct {
	clientv3.Txn
	of *committed
}

func (c committing) Commit() (*clientv3.TxnResponse, error) {
	c.of.n++
	return &clientv3.TxnResponse{}, nil
}

// TestEndedRequestsWriteNothing: with a seat or without one.
func TestEndedRequestsWriteNothing(t *testing.T) {
	var c committed
	ctx, cancel := context.WithCancel(t.Context())
	txn := seatedKV{&c, false}.Txn(ctx)
	if _, err := txn.Commit(); err != nil || c.n != 1 {
		t.Fatalf("%d were written: %v", c.n, err)
	}
	cancel()
	if _, err := txn.Commit(); !errors.Is(err, context.Canceled) || c.n != 1 {
		t.Errorf("an ended request has written: %v", err)
	}
}
