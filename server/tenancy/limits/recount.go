package limits

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// recountTimeout bounds the reading of what one tenant has of what its quotas name. Who
// asks after it begins anew, so it is longer than the largest space takes.
const recountTimeout = 10 * time.Minute

// recount counts by names of quotas what a tenant has already. What is written meanwhile is
// counted by them, too, so a key is passed over unless it is known as it was read: it
// is counted by who knows better. When other names are to be counted it changes nothing any
// more, and ends: who counts those reads all of it.
func (l *Limits) recount(tenant string, c *counting) {
	ctx, cancel := context.WithTimeout(context.Background(), recountTimeout)
	defer cancel()
	l.accounting.dropQuota(tenant, l.quotas.counts(tenant, c))
	if c.err = readQuota(ctx, l, tenant, c); c.err != nil {
		l.quotas.tenants.CompareAndDelete(tenant, c) // who asks next begins anew
		if l.log != nil {
			l.log.WithError(c.err).WithField("tenant", tenant).Debug("What quotas of a tenant name was not counted")
		}
	}
	close(c.done)
}

// readQuota reads the keys of the resources that count, and values where they say something.
func readQuota(ctx context.Context, l *Limits, tenant string, c *counting) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	current := l.quotas.counts(tenant, c)
	for r := range c.resources {
		client, root, prefixes, err := l.keys.placesOf(r)
		if err != nil {
			return err
		}
		var options []clientv3.OpOption
		if !c.values(r) {
			options = append(options, clientv3.WithKeysOnly())
		}
		for _, prefix := range prefixes {
			of := space.TenantPrefix(prefix, tenant)
			places := keyRange{of, clientv3.GetPrefixRangeEnd(of)}
			read := func(kv *mvccpb.KeyValue) {
				key := string(kv.Key)
				s, owner, ok := l.keys.owner(root, key)
				if !ok || owner != tenant || s.resource != r {
					return
				}
				used := c.uses(r, nil)
				if c.values(r) {
					used = s.charge(ctx, key, kv.Value, c).quota
				}
				if !l.accounting.setQuota(tenant, key, kv.ModRevision, used, current) {
					cancel(errRecounted)
				}
			}
			err := readRange(ctx, client, places, 0, read, options...)
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("reading the %s of tenant %s: %w", r, tenant, err)
			}
		}
	}
	return nil
}

// placesOf are the prefixes of a resource. Custom resources of a tenant have theirs, whoever
// has begun to serve them.
func (k *keys) placesOf(r schema.GroupResource) (client *clientv3.Client, root string, prefixes []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if client, err = k.connect(); err != nil {
		return nil, "", nil, err
	}
	for prefix, s := range k.resources {
		if s.resource == r {
			prefixes = append(prefixes, prefix)
		}
	}
	if len(prefixes) == 0 && strings.Contains(r.Group, ".") && !kinds.Groups()[r.Group] {
		prefixes = []string{path.Join("/", k.root, r.Group, r.Resource)}
	}
	return client, path.Join("/", k.root) + "/", prefixes, nil
}

// takeQuota counts what an object uses by names.
func (a *account) takeQuota(q *quotaUse, times int64) {
	if q != nil {
		a.quota.take(q.uses, times)
	}
}

// dropQuota forgets what objects of a tenant use by names, unless others are counted now.
func (l *accounting) dropQuota(tenant string, current func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[tenant]
	if a == nil || !current() {
		return
	}
	for id, c := range a.charges {
		if c.quota != nil {
			a.changeQuota(id, nil)
		}
	}
}

// setQuota says what a key uses by names, if it is known as it was at a revision. It is false, and
// nothing is changed, if others are counted now: who does that drops what there is first, and
// waits for the lock to do so.
func (l *accounting) setQuota(tenant, key string, revision int64, q *quotaUse, current func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !current() {
		return false
	}
	if a, id := l.accounts[tenant], l.id(key); a != nil {
		if e, known := a.entries[id]; known && e.revision == revision {
			a.changeQuota(id, q)
		}
	}
	return true
}

func (a *account) changeQuota(id uint64, q *quotaUse) {
	c := a.charges[id]
	a.takeQuota(c.quota, -1)
	c.quota = q
	a.takeQuota(q, 1)
	if c == (charge{}) {
		delete(a.charges, id)
		return
	}
	if a.charges == nil {
		a.charges = map[uint64]charge{}
	}
	a.charges[id] = c
}

var (
	errRecounted = errors.New("other names are counted now")
	errLack      = errors.New("there is too little")
)

// reserveQuota is reserve for names; it says of which there is too little. It reserves
// nothing when what was counted for the write is not what is counted now: what is used may
// not be known then.
func (l *accounting) reserveQuota(
	tenant string, need numbers, limits map[string]resource.Quantity, current func() bool,
) (lack string, used int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !current() { // after this, dropQuota has to wait
		return "", 0, errRecounted
	}
	a := l.of(tenant)
	lack, used, ok := a.quota.reserve(need, func(name string) (int64, bool) {
		limit, bounded := limits[name]
		return quotaNumber(name, limit), bounded
	})
	l.forgetEmpty(tenant, a)
	if !ok {
		return lack, used, errLack
	}
	return "", 0, nil
}

// heldQuota is what is known of a key.
func (l *accounting) heldQuota(tenant, key string) numbers {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		if q := a.charges[l.id(key)].quota; q != nil {
			return q.uses // nobody changes them
		}
	}
	return nil
}

// usedQuota is what a tenant uses.
func (l *accounting) usedQuota(tenant string) numbers {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		return a.quota.used.values()
	}
	return nil
}
