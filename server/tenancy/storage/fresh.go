package storage

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/cacher/delegator"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// awaitFresh waits until the cache knows all that was written before the list was asked for, and
// has the list ask for what the cache knows then. Upstream waits for that, too, for up to 100 ms
// if nothing is written to the resource. But there a request cannot say that it waits: its tenant
// was charged for that time, and what it asked next waited.
func (m *mapped) awaitFresh(ctx context.Context, opts *storage.ListOptions) {
	seat := fairqueue.Of(ctx)
	if seat == nil || opts.ResourceVersion != "" || opts.ResourceVersionMatch != "" || opts.Predicate.Continue != "" {
		return
	}
	if _, cached := m.Interface.(*cacher.CacheDelegator); !cached || !delegator.ConsistentReadSupported() {
		return
	}
	var version string
	var err error
	seat.Wait(func() { version, err = m.fresh(ctx) })
	seat.Need()
	if err == nil { // else the list finds out what is wrong
		opts.ResourceVersion, opts.ResourceVersionMatch = version, metav1.ResourceVersionMatchNotOlderThan
	}
}

// fresh is the version of now, once the cache has it.
func (m *mapped) fresh(ctx context.Context) (string, error) {
	now, err := m.GetCurrentResourceVersion(ctx)
	if err != nil {
		return "", err
	}
	version := strconv.FormatUint(now, 10)
	// What is read is not there: the cache reads nothing without waiting for its version.
	return version, m.Interface.Get(ctx, m.within+"/-",
		storage.GetOptions{ResourceVersion: version, IgnoreNotFound: true}, m.keys.newFunc())
}
