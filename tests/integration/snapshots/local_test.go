package snapshots

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLocalClients: who calls the member in its process sees and is refused
// what others are, also while it stops.
func TestLocalClients(t *testing.T) {
	c := newControlPlane(t)
	c.start(t)
	near := c.server.Local().Client(t.Context())

	events := near.Watch(t.Context(), "/", clientv3.WithPrefix())
	if _, err := c.client.Put(t.Context(), "/far", "1"); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Err() != nil || len(e.Events) != 1 || string(e.Events[0].Kv.Key) != "/far" {
		t.Errorf("the watch in the process: %v, %v", e.Events, e.Err())
	}
	if _, err := near.Put(t.Context(), "/near", "2"); err != nil {
		t.Fatal(err)
	}
	for who, client := range map[string]*clientv3.Client{"far": c.client, "near": near} {
		got, err := client.Get(t.Context(), "/", clientv3.WithPrefix())
		if err != nil || got.Count != 2 {
			t.Errorf("%s: %v, %v", who, got, err)
		}
		if _, err := client.Put(t.Context(), "/large", strings.Repeat("x", 1<<21-1<<10)); !errors.Is(err,
			rpctypes.ErrRequestTooLarge) {
			t.Errorf("%s: a value of 2 MiB: %v", who, err)
		}
		if _, err := client.Get(t.Context(), "/", clientv3.WithRev(1000)); !errors.Is(err, rpctypes.ErrFutureRev) {
			t.Errorf("%s: a revision of the future: %v", who, err)
		}
	}

	// A streamed range is the same for both, in as many chunks as it takes.
	const many = 2500
	for i := range many {
		if _, err := near.Put(t.Context(), fmt.Sprintf("/stream/%04d", i), strings.Repeat("x", 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	for who, client := range map[string]*clientv3.Client{"far": c.client, "near": near} {
		chunks, err := client.GetStream(t.Context(), "/stream/", clientv3.WithPrefix())
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		var keys, parts int
		for chunk := range chunks {
			if chunk.Err() != nil {
				t.Fatalf("%s: after %d keys: %v", who, keys, chunk.Err())
			}
			for _, kv := range chunk.RangeResponse.Kvs {
				if want := fmt.Sprintf("/stream/%04d", keys); string(kv.Key) != want {
					t.Fatalf("%s: %s, want %s", who, kv.Key, want)
				}
				keys++
			}
			parts++
		}
		if keys != many || parts < 2 {
			t.Errorf("%s: %d keys in %d chunks", who, keys, parts)
		}
		if chunks, err = client.GetStream(t.Context(), "/stream/", clientv3.WithPrefix(),
			clientv3.WithRev(1_000_000)); err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		if chunk := <-chunks; !errors.Is(chunk.Err(), rpctypes.ErrFutureRev) {
			t.Errorf("%s: a stream of the future: %v", who, chunk.Err())
		}
		// Who leaves early keeps nothing of the member.
		leaving, leave := context.WithCancel(t.Context())
		if chunks, err = client.GetStream(leaving, "/stream/", clientv3.WithPrefix()); err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		<-chunks
		leave()
	}

	// A read sees what was confirmed before it, whoever wrote it.
	var writers sync.WaitGroup
	for i := range 8 {
		writer := []*clientv3.Client{near, c.client}[i%2]
		writers.Go(func() {
			for range 100 {
				wrote, err := writer.Put(t.Context(), "/own/"+strconv.Itoa(i), "x")
				if err != nil {
					t.Error(err)
					return
				}
				got, err := near.Get(t.Context(), "/own/"+strconv.Itoa(i))
				if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision < wrote.Header.Revision ||
					got.Header.Revision < wrote.Header.Revision {
					t.Errorf("written as %d, read %v, %v", wrote.Header.Revision, got, err)
					return
				}
			}
		})
	}
	writers.Wait()

	// Calls are under way when it stops. They end, and so do later ones.
	var callers sync.WaitGroup
	started := make(chan struct{}, 8)
	for range cap(started) {
		callers.Go(func() {
			for first := true; ; first = false {
				_, err := near.Get(t.Context(), "/near", clientv3.WithSerializable())
				if first {
					started <- struct{}{}
				}
				if err != nil {
					if !errors.Is(err, rpctypes.ErrStopped) {
						t.Errorf("a read of a member that stops: %v", err)
					}
					return
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	c.stop()
	callers.Wait()
	if c.server.Local() != nil {
		t.Error("there are clients of a member that has stopped")
	}
}
