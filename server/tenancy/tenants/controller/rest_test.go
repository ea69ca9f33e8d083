package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestTriesOfATenant: one that is emptied is looked at for a part of the time. One that is made is tried again soon,
// however long a busy server took for the last try: somebody waits for it.
func TestTriesOfATenant(t *testing.T) {
	c := &controller{store: cache.NewStore(cache.MetaNamespaceKeyFunc),
		tries: workqueue.NewTypedItemExponentialFailureRateLimiter[string](minWait, maxWait)}
	now := metav1.Now()
	for _, tenant := range []*tenantapi.Tenant{
		{ObjectMeta: metav1.ObjectMeta{Name: "made"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "emptied", DeletionTimestamp: &now}},
	} {
		if err := c.store.Add(tenant); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []struct {
		name       string
		took, want time.Duration
	}{
		{"made", firstTry, minWait}, {"emptied", firstTry, 9 * firstTry}, {"emptied", laterTry, maxRest},
		{"gone", firstTry, minWait},
	} {
		if got := c.rest(k.name, k.took); got != k.want {
			t.Errorf("%s is tried again after %s, want %s", k.name, got, k.want)
		}
	}
	for range 20 {
		if got := c.rest("made", laterTry); got > maxWait {
			t.Fatalf("made is tried again after %s", got)
		}
	}
}
