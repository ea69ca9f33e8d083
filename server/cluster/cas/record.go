package cas

import (
	"context"
	"encoding/json"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/sealing"
)

const (
	// recordKey has the CAs that all servers take at their next start.
	recordKey = "/a4s/authorities/next"
	// serversPrefix begins the keys under which each member says what it has.
	serversPrefix = "/a4s/authorities/servers/"
)

// record is what recordKey has.
type record struct {
	// From identifies the CAs that these follow, Hash these.
	From string `json:"from"`
	Hash string `json:"hash"`
	// Replaced are the names of those that differ.
	Replaced []string `json:"replaced"`
	Sealed   []byte   `json:"sealed"`

	revision int64
}

// report is what a server says of itself.
type report struct {
	// Running identifies the CAs that it works with, Next those of its next
	// start, if they are others.
	Running string `json:"running"`
	Next    string `json:"next,omitempty"`
}

func box() sealing.Box {
	return sealing.Box{Purpose: "a4s: certificate authorities, version 1", Label: recordKey}
}

func (r *record) seal(secret []byte, files map[string][]byte) error {
	data, err := json.Marshal(files)
	if err != nil {
		return err
	}
	r.Sealed, err = box().Seal(secret, data)
	return err
}

func (r *record) open(secret []byte) (map[string][]byte, error) {
	data, err := box().Open(secret, r.Sealed)
	if err != nil {
		return nil, fmt.Errorf("the certificate authorities in the datastore: %w", err)
	}
	var files map[string][]byte
	if err := json.Unmarshal(data, &files); err != nil {
		return nil, fmt.Errorf("the certificate authorities in the datastore: %w", err)
	}
	if pki.HashAuthorities(files) != r.Hash {
		return nil, fmt.Errorf("the certificate authorities in the datastore: %w", sealing.ErrSealed)
	}
	return files, nil
}

// load returns what the datastore has, nil if nothing, and its revision.
func load(ctx context.Context, store Store) (*record, int64, error) {
	resp, err := store.Get(ctx, recordKey)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the certificate authorities from the datastore: %w", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, resp.Header.Revision, nil
	}
	r, err := read(resp.Kvs[0])
	return r, resp.Header.Revision, err
}

func read(kv *mvccpb.KeyValue) (*record, error) {
	r := &record{revision: kv.ModRevision}
	if err := json.Unmarshal(kv.Value, r); err != nil {
		return nil, fmt.Errorf("the certificate authorities in the datastore: %w", err)
	}
	return r, nil
}

// put stores r in the place of was, which may be nil.
func put(ctx context.Context, store Store, was, r *record) error {
	var revision int64
	if was != nil {
		revision = was.revision
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	resp, err := store.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(recordKey), "=", revision)).
		Then(clientv3.OpPut(recordKey, string(value))).
		Commit()
	if err != nil {
		return fmt.Errorf("writing the certificate authorities to the datastore: %w", err)
	}
	if !resp.Succeeded {
		return &problem.Precondition{What: "certificate authorities", Err: fmt.Errorf("another server has replaced them at the same time"), Fix: "restart a4s on all servers"}
	}
	return nil
}

func tell(ctx context.Context, store Store, id string, r report) error {
	value, err := json.Marshal(&r)
	if err != nil {
		return err
	}
	if _, err := store.Txn(ctx).Then(clientv3.OpPut(serversPrefix+id, string(value))).Commit(); err != nil {
		return fmt.Errorf("telling the other servers which CAs this one has: %w", err)
	}
	return nil
}

// heard returns what servers have said, by the ID of the member.
func heard(ctx context.Context, store Store) (map[string]report, error) {
	resp, err := store.Get(ctx, serversPrefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("asking the datastore for the other servers: %w", err)
	}
	out := map[string]report{}
	for _, kv := range resp.Kvs {
		var r report
		if json.Unmarshal(kv.Value, &r) == nil {
			out[string(kv.Key[len(serversPrefix):])] = r
		}
	}
	return out, nil
}
