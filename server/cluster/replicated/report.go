package replicated

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/component"
)

// reporter is how a member is called in the keys of reports.
func (d *Document[R]) reporter(m Member) string {
	if d.ByName {
		return m.Name
	}
	return m.ID
}

// Report stores what this server has applied. The report stays when the server
// ends.
func (d *Document[R]) Report(ctx context.Context, store Store, report R) error {
	self := Member{Name: d.Name}
	if !d.ByName {
		var err error
		if self, err = d.Self(); err != nil {
			return err
		}
	}
	value, err := json.Marshal(&report)
	if err != nil {
		return err
	}
	key := d.Reports + d.reporter(self)
	if _, err := store.Txn(ctx).Then(clientv3.OpPut(key, string(value))).Commit(); err != nil {
		return fmt.Errorf("reporting to the other servers on %s: %w", d.Subject, err)
	}
	return nil
}

// MemberReport is a member with what it reports, nil if it has reported nothing
// that can be read.
type MemberReport[R any] struct {
	Member
	Report *R
}

// MemberReports returns all members with their reports.
func (d *Document[R]) MemberReports(ctx context.Context, store Store) ([]MemberReport[R], error) {
	resp, err := store.Get(ctx, d.Reports, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("asking the datastore for the other servers: %w", err)
	}
	reports := map[string]*R{}
	for _, kv := range resp.Kvs {
		r := new(R)
		if json.Unmarshal(kv.Value, r) == nil {
			reports[string(kv.Key[len(d.Reports):])] = r
		}
	}
	// The members are read later: one that is not in this list reads what was
	// in the datastore before.
	members := d.Members()
	if len(members) == 0 {
		return nil, ErrNoMembers
	}
	var out []MemberReport[R]
	for _, m := range members {
		out = append(out, MemberReport[R]{Member: m, Report: reports[d.reporter(m)]})
	}
	return out, nil
}

// Missing names the other servers of which no report satisfies applied.
func (d *Document[R]) Missing(ctx context.Context, store Store, applied func(R) bool) ([]string, error) {
	members, err := d.MemberReports(ctx, store)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, m := range members {
		if m.Name != "" && m.Name != d.Name && (m.Report == nil || !applied(*m.Report)) {
			missing = append(missing, m.Name)
		}
	}
	return missing, nil
}

// Wait calls missing, and hands the names to next with the time since it was
// called, until next says that it is done. It returns the last names.
func Wait(ctx context.Context, missing func(ctx context.Context) ([]string, error),
	next func(missing []string, waited time.Duration) (pause time.Duration, done bool, err error)) ([]string, error) {
	for began := time.Now(); ; {
		names, err := missing(ctx)
		if err != nil {
			return nil, err
		}
		pause, done, err := next(names, time.Since(began))
		if done || err != nil {
			return names, err
		}
		if err := component.Sleep(ctx, pause); err != nil {
			return names, err
		}
	}
}
