package datastore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// clusterKey says in the datastore whose it is.
	clusterKey = "/a4s/cluster"
	// apiPrefix is where an API server keeps its objects, and healthKey the
	// one that kine makes by itself.
	apiPrefix = "/registry/"
	healthKey = "/registry/health"
	// claimTimeout bounds a claim.
	claimTimeout = 30 * time.Second
)

// Claim marks a datastore that is up as that of the server directory, and
// refuses one that is another's: a datastore outlives its server, and what a
// server with other keys would find in it it could not use, only spoil.
func Claim(ctx context.Context, serverDir string, e *dsn.Endpoint, to Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	client, err := Dial(ctx, to)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // every write was answered
	record, err := ReadRecord(serverDir)
	if err != nil {
		return err
	}
	wrap := func(err error) error { return fmt.Errorf("asking %s whose it is: %w", e, err) }
	there, err := client.Get(ctx, clusterKey)
	if err != nil {
		return wrap(err)
	}
	if len(there.Kvs) > 0 {
		return record.compare(string(there.Kvs[0].Value), serverDir, e)
	}
	if record.Claimed {
		return refuse(e, errors.New("it is empty or another one than the server has used so far"),
			"set the address of the one that has the objects or restore it; "+
				"to begin a new and empty cluster move "+serverDir+" away")
	}
	objects, err := client.Get(ctx, apiPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(2))
	if err != nil {
		return wrap(err)
	}
	for _, kv := range objects.Kvs {
		if string(kv.Key) != healthKey {
			return refuse(e, errors.New("it holds the objects of another Kubernetes cluster"), "use an empty one")
		}
	}
	// Remembered first, so that a kill between the two does not lock us out.
	*record = Record{Kind: e.Kind, Where: e.String(), Cluster: rand.Text()}
	if err := record.write(serverDir); err != nil {
		return err
	}
	// In the shape in which the API server creates, which is what kine knows.
	made, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(clusterKey), "=", 0)).
		Then(clientv3.OpPut(clusterKey, record.Cluster)).Commit()
	if err != nil {
		return fmt.Errorf("marking %s as used: %w", e, err)
	}
	if !made.Succeeded {
		return refuse(e, errors.New("another server has begun to use it at the same time"),
			"use one datastore for each cluster")
	}
	record.Claimed = true
	return record.write(serverDir)
}

// Join remembers that a server shares a datastore with others, which call it cluster.
func Join(serverDir string, e *dsn.Endpoint, cluster string) error {
	r := &Record{Kind: e.Kind, Where: e.String(), Cluster: cluster, Claimed: true}
	return r.write(serverDir)
}

// compare compares what the datastore says with the record, and completes it.
func (r *Record) compare(cluster, serverDir string, e *dsn.Endpoint) error {
	switch {
	case r.Cluster == "":
		return refuse(e, errors.New("it is that of another server, whose keys and tokens are not in "+serverDir),
			"join that server (--server and --token), restore the server directory that belongs to it, "+
				"or use an empty one")
	case r.Cluster != cluster:
		return refuse(e, errors.New("it is that of another cluster than "+serverDir),
			"set the address of the one that the server has used so far")
	}
	r.Claimed, r.Where = true, e.String()
	return r.write(serverDir)
}

func refuse(e *dsn.Endpoint, err error, fix string) error {
	return &problem.Precondition{What: fmt.Sprintf("datastore %s (--datastore-endpoint)", e), Err: err, Fix: fix}
}
