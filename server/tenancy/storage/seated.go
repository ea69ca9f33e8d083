package storage

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// seatedKV says that requests wait while they wait for the datastore, so that others can
// have their seats. A request goes on without its seat where upstream may hold a lock that
// others wait for, as it does of the ports of services. What is read in great numbers is
// computed with, and needs one; upstream holds none then.
//
// It writes nothing for a request that has been ended. An etcd in this process would, now and
// then: it waits for its turn and for the end of the context, and takes either when it has both.
// The tenant of the request can be gone by then, and another one have its name.
type seatedKV struct {
	clientv3.KV
	// remote is a datastore that is not in this process. One that is computes here what it
	// answers, and what is written waits for its disk.
	remote bool
}

// Get implements clientv3.KV.
func (k seatedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	seat := fairqueue.Of(ctx)
	if seat == nil || !k.remote {
		return k.KV.Get(ctx, key, opts...)
	}
	seat.BeginWait()
	resp, err := k.KV.Get(ctx, key, opts...)
	seat.EndWait()
	if err == nil && len(resp.Kvs) > 1 {
		seat.Need()
	}
	return resp, err
}

// Txn implements clientv3.KV.
func (k seatedKV) Txn(ctx context.Context) clientv3.Txn {
	return &seatedTxn{k.KV.Txn(ctx), ctx}
}

type seatedTxn struct {
	clientv3.Txn
	ctx context.Context
}

// If implements clientv3.Txn.
func (t *seatedTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(cs...)
	return t
}

// Then implements clientv3.Txn.
func (t *seatedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(ops...)
	return t
}

// Else implements clientv3.Txn.
func (t *seatedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(ops...)
	return t
}

// Commit implements clientv3.Txn.
func (t *seatedTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	seat := fairqueue.Of(t.ctx)
	seat.BeginWait()
	defer seat.EndWait()
	return t.Txn.Commit()
}
