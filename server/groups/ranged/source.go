package ranged

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// maxRanges is how many watches one watch becomes at most. With more, everything is
// watched, and what is foreign is dropped when it comes.
const maxRanges = 64

// Options configures a Source.
type Options struct {
	// Group is the service group of this server.
	Group string
	// Client reaches the datastore without ranges.
	Client *clientv3.Client
	// Configs and Namespaces are the prefixes of the keys of DataPartitionConfigs and of
	// namespaces. They end in a slash.
	Configs, Namespaces string
	// Decode reads a stored DataPartitionConfig.
	Decode func(ctx context.Context, key string, value []byte) (*partitionapi.DataPartitionConfig, error)
}

// Source says which ranges there are as of each revision. Its clients share it.
type Source struct {
	Options
	// quiet is set if watches put in and take out nothing when tenants move.
	quiet    bool
	progress progress

	mu sync.Mutex
	// namespaces are those that the system has had up to a revision, each with one at which it
	// was found to be gone, 0 for none: it may have deleted others, too, whose ranges are empty.
	namespaces map[string]int64
	upTo       int64
}

const (
	// maxNamespaces is how many there are before it is looked which of them are gone.
	maxNamespaces = maxRanges / 2
	// maxGone is how many are remembered that are gone, for reads of the past.
	maxGone = 1000
)

// NewSource makes a source.
func NewSource(o Options) *Source {
	return &Source{Options: o, namespaces: map[string]int64{},
		progress: progress{watches: map[*merge]int64{}, table: ownership.NewTable(nil)}}
}

// view is what decides the ranges at one revision. A view does not change.
type view struct {
	configs    map[string]ownership.Config // by key
	table      *ownership.Table
	namespaces []string
	// newest is the revision of the newest configuration.
	newest int64
}

// at reads what decides the ranges as of a revision, 0 for the newest, which it returns.
func (s *Source) at(ctx context.Context, rev int64) (*view, int64, error) {
	v, rev, err := s.configsAt(ctx, rev)
	if err != nil {
		return nil, 0, err
	}
	v.table = tableOf(v.configs)
	if v.namespaces, err = s.namespacesAt(ctx, rev); err != nil {
		return nil, 0, err
	}
	return v, rev, nil
}

// configsAt reads the configurations as of a revision.
func (s *Source) configsAt(ctx context.Context, rev int64) (*view, int64, error) {
	got, err := s.Client.Get(ctx, s.Configs, clientv3.WithPrefix(), clientv3.WithRev(rev))
	if err != nil {
		return nil, 0, err // errors of etcd are read by upstream's storage
	}
	if rev == 0 {
		rev = got.Header.Revision
	}
	v := &view{configs: map[string]ownership.Config{}}
	for _, kv := range got.Kvs {
		if v.configs[string(kv.Key)], err = s.config(ctx, kv); err != nil {
			return nil, 0, err
		}
		v.newest = max(v.newest, kv.ModRevision)
	}
	return v, rev, nil
}

// Table is who owned what at a revision.
func (s *Source) Table(ctx context.Context, rev int64) (*ownership.Table, error) {
	v, _, err := s.configsAt(ctx, rev)
	if err != nil {
		return nil, err
	}
	return tableOf(v.configs), nil
}

func (s *Source) config(ctx context.Context, kv *mvccpb.KeyValue) (ownership.Config, error) {
	c, err := s.Decode(ctx, string(kv.Key), kv.Value)
	if err != nil {
		return ownership.Config{}, fmt.Errorf("reading the configuration at %s: %w", kv.Key, err)
	}
	return ownership.NewConfig(c, kv.CreateRevision), nil
}

func tableOf(configs map[string]ownership.Config) *ownership.Table {
	all := make([]ownership.Config, 0, len(configs))
	for _, c := range configs {
		all = append(all, c)
	}
	return ownership.NewTable(all)
}

// namespacesAt are the namespaces of the system at a revision, and perhaps some that
// it had before. Only the first call reads all: a cluster has those of its tenants, too.
func (s *Source) namespacesAt(ctx context.Context, rev int64) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rev > s.upTo {
		opts := []clientv3.OpOption{
			clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithRev(rev),
			clientv3.WithMinCreateRev(s.upTo + 1),
		}
		got, err := s.Client.Get(ctx, s.Namespaces, opts...)
		if err != nil {
			return nil, err
		}
		more := false
		for _, kv := range got.Kvs {
			if name, ok := s.systemNamespace(string(kv.Key)); ok {
				s.namespaces[name], more = 0, true
			}
		}
		s.upTo = rev
		if more {
			if err := s.sweep(ctx); err != nil {
				return nil, err
			}
		}
	}
	names := make([]string, 0, len(s.namespaces))
	for name, gone := range s.namespaces {
		if gone == 0 || rev < gone {
			names = append(names, name)
		}
	}
	return names, nil
}

// sweep finds out which namespaces are gone, if they are many. The caller holds mu.
func (s *Source) sweep(ctx context.Context) error {
	var there, past []string
	for name, gone := range s.namespaces {
		if gone == 0 {
			there = append(there, name)
		} else {
			past = append(past, name)
		}
	}
	if len(there) > maxNamespaces {
		for _, name := range there {
			got, err := s.Client.Get(ctx, s.Namespaces+name, clientv3.WithCountOnly(), clientv3.WithRev(s.upTo))
			if err != nil {
				return err
			}
			if got.Count == 0 {
				s.namespaces[name] = s.upTo
			}
		}
	}
	slices.SortFunc(past, func(a, b string) int { return cmp.Compare(s.namespaces[a], s.namespaces[b]) })
	for len(past) > maxGone {
		delete(s.namespaces, past[0])
		past = past[1:]
	}
	return nil
}

// systemNamespace is the name of a namespace whose key it is, if it is the system's.
func (s *Source) systemNamespace(key string) (string, bool) {
	name := strings.TrimPrefix(key, s.Namespaces)
	return name, ownership.TenantOf(space.Namespaces, name) == space.System
}

// Resource is one whose objects tenants own.
type Resource struct {
	// Prefix is that of its keys, with a slash at the end.
	Prefix string
	Layout space.Layout
}

// ranges are the keys that the servers of the group list and watch.
func (s *Source) ranges(v *view, r Resource) []ownership.Range {
	whole := []ownership.Range{{From: r.Prefix, To: clientv3.GetPrefixRangeEnd(r.Prefix)}}
	if r.Layout != space.Namespaced || !s.quiet && !v.table.Configured(s.Group) {
		// Cluster-scoped keys of tenants lie among those of the system.
		return whole
	}
	namespaces := v.namespaces
	if s.quiet && s.Group != partitionapi.Rest {
		namespaces = nil
	}
	if all := v.table.Ranges(s.Group, r.Prefix, namespaces); len(all) <= maxRanges {
		return all
	}
	return whole
}

// foreign reports whether a key is one of a tenant that the group does not hold.
func (s *Source) foreign(v *view, r Resource, key string) bool {
	if s.quiet {
		return !v.table.Streams(s.Group, ownership.TenantOf(r.Layout, strings.TrimPrefix(key, r.Prefix)))
	}
	return v.table.Foreign(s.Group, r.Layout, strings.TrimPrefix(key, r.Prefix))
}
