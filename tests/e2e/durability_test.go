package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/databases"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	kills   = 20
	writers = 4
)

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
}

// ledger is what the server has acknowledged.
type ledger struct {
	mu sync.Mutex
	// values has the last acknowledged value of each object. A deleted one
	// has gone: its deletion was acknowledged.
	values map[string]int
	gone   map[string]bool
	// pending objects have a deletion that was never answered: they may be
	// there or not.
	pending map[string]bool
	writes  int
}

func (l *ledger) acknowledged(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.writes++
}

func TestKilledServerLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	killServers(t, ownCluster(t, "durable", "--disable-agent"), kills)
}

func TestKilledServerOnSQLiteLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	killServers(t, ownCluster(t, "sqlite", "--disable-agent", "--datastore-endpoint=sqlite"), kills)
}

// The database is killed, too.
func TestKilledServerOnPostgreSQLLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	p := databases.StartPostgreSQL(t)
	c := ownCluster(t, "postgres", "--disable-agent", "--datastore-endpoint", p.Endpoint("cluster"))
	killServers(t, c, kills/2)
	proc := c.proc
	killRounds(t, c, kills/2, func() {
		p.Kill(t)
		p.Start(t)
		c.waitReady(t)
	})
	if c.proc != proc || !proc.Running() {
		t.Error("the server ended with its database")
	}
}

// killServers kills the server of a cluster again and again.
func killServers(t *testing.T, c *cluster, kills int) {
	killRounds(t, c, kills, func() {
		c.proc.Kill()
		c.restart(t)
	})
}

// killRounds writes, kills something meanwhile, and looks for what is lost.
func killRounds(t *testing.T, c *cluster, kills int, kill func()) {
	ns := c.namespace(t)
	l := &ledger{values: map[string]int{}, gone: map[string]bool{}, pending: map[string]bool{}}
	for round := range kills {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { write(ctx, c.client, ns, fmt.Sprintf("r%d-w%d", round, w), l) })
		}
		before := l.count()
		deadline := time.After(startTimeout)
		for l.count() < before+20 {
			select {
			case <-deadline:
				t.Fatalf("round %d: 20 writes take longer than %s", round, startTimeout)
			case <-time.After(time.Millisecond):
			}
		}
		// Somewhere in the middle of a later write.
		<-time.After(rand.N(300 * time.Millisecond))
		kill()
		stop()
		wg.Wait()
		checkLedger(t, c, ns, l)
	}
	t.Logf("%d acknowledged writes survived %d kills", l.writes, kills)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// write creates, updates and sometimes deletes objects until the first error.
func write(ctx context.Context, client kubernetes.Interface, ns, prefix string, l *ledger) {
	api := client.CoreV1().ConfigMaps(ns)
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		object, err := api.Create(ctx, configMap(name, "0"), metav1.CreateOptions{})
		if err != nil {
			return
		}
		l.acknowledged(func() { l.values[name] = 0 })
		for value := 1; value <= 3; value++ {
			object.Data["value"] = strconv.Itoa(value)
			if object, err = api.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
				return
			}
			l.acknowledged(func() { l.values[name] = value })
		}
		if i%3 == 0 {
			l.mu.Lock()
			l.pending[name] = true
			l.mu.Unlock()
			if err := api.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return
			}
			l.acknowledged(func() {
				delete(l.pending, name)
				delete(l.values, name)
				l.gone[name] = true
			})
		}
	}
}

func checkLedger(t *testing.T, c *cluster, ns string, l *ledger) {
	t.Helper()
	// An empty resource version asks etcd itself, not the watch cache.
	// The first requests to a database that was killed can meet a connection of
	// before, and fail.
	var list *corev1.ConfigMapList
	hosts.Until(t, startTimeout, "what was acknowledged can be listed", func(ctx context.Context) error {
		var err error
		list, err = c.client.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		return err
	})
	there := map[string]int{}
	for _, object := range list.Items {
		value, err := strconv.Atoi(object.Data["value"])
		if err != nil {
			continue // kube-root-ca.crt
		}
		there[object.Name] = value
		if l.gone[object.Name] {
			t.Errorf("%s is back although its deletion was acknowledged", object.Name)
		}
	}
	for name, value := range l.values {
		switch got, ok := there[name]; {
		case !ok && l.pending[name]:
			if _, err := c.client.CoreV1().ConfigMaps(ns).Get(t.Context(), name,
				metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s is not in the list, but Get answers %v", name, err)
			}
			delete(l.values, name)
		case !ok:
			_, err := c.client.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
			t.Errorf("%s is lost from the list; value %d was acknowledged; Get answers %v", name, value, err)
		case got < value:
			t.Errorf("%s has value %d, but %d was acknowledged", name, got, value)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}
