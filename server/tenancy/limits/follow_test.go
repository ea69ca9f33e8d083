package limits

import (
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// spy sees what is read in which way.
type spy struct {
	clientv3.KV
	old     bool // etcd knows no streams
	pages   int
	streams []keyRange
}

func (s *spy) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, opts...); len(op.RangeBytes()) > 0 {
		s.pages++
	}
	return s.KV.Get(ctx, key, opts...)
}

func (s *spy) GetStream(ctx context.Context, key string, opts ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	if s.old {
		return nil, status.Error(codes.Unimplemented, "unknown method RangeStream")
	}
	op := clientv3.OpGet(key, opts...)
	s.streams = append(s.streams, keyRange{key, string(op.RangeBytes())})
	return s.KV.GetStream(ctx, key, opts...)
}

// TestReadAll: everything that tenants have is counted, and what is nobody's not read.
func TestReadAll(t *testing.T) {
	client := plainetcd.Run(t)
	put := func(key string, size int) {
		if _, err := client.Put(t.Context(), "/registry/"+key, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
	}
	const n, size = 300, 100
	for i := range n {
		put(fmt.Sprintf("configmaps/t/default/%d", i), size)
		put(fmt.Sprintf("tenants/t%d", i), size)
	}
	put("zebras.example.com/zebras/t/default/z", size) // behind what is nobody's
	put("configmaps/default/of-the-system", size)
	inner := client.KV
	for name, old := range map[string]bool{"by streams": false, "by pages": true} {
		t.Run(name, func(t *testing.T) {
			s := &spy{KV: inner, old: old}
			client.KV = s
			l := New(Options{})
			l.keys.resources = map[string]*stored{
				"/registry/configmaps": {layout: space.Namespaced, belongs: true, counts: true},
				"/registry/tenants":    {layout: space.ClusterScoped},
			}
			l.accounting.begin()
			revision, err := l.readAll(t.Context(), client, "/registry/")
			if err != nil || revision == 0 {
				t.Fatal(revision, err)
			}
			l.accounting.end(revision)
			if used := l.accounting.used("t"); used[objects] != n+1 {
				t.Errorf("%d objects are counted, want %d", used[objects], n+1)
			}
			if !old && s.pages > 0 || old && s.pages == 0 {
				t.Errorf("%d pages are read", s.pages)
			}
			const tenant = "/registry/tenants/t1"
			for _, r := range s.streams {
				if r.from <= tenant && tenant < r.end {
					t.Errorf("%q is read, where Tenants are", r)
				}
			}
		})
	}
}
