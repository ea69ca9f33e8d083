package charts

import (
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/server/addons/charts/confined"
	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

// maxTooMuch is how often a look may have no answer, one time after the other.
const maxTooMuch = 5

// What a tenant is told of what is not theirs.
var (
	errServer = errors.New("the server cannot look at it now; it is tried again")
	errNever  = errors.New("this server cannot run charts of tenants; its administrators find the reason in its log")
)

// explain is what a tenant is told of a look that had no answer, and whether nothing more is tried.
func (t *tenants) explain(err error, key types.NamespacedName, told reconcile.Told) (why error, failed bool) {
	if errors.Is(err, confined.ErrCannotConfine) {
		t.warned.warn(t.Log, err, "HelmCharts of tenants cannot be looked at")
		return errNever, false
	}
	failed = t.much.more(key, told) > maxTooMuch
	for _, much := range []error{confined.ErrTime, confined.ErrProcessor, confined.ErrMemory, confined.ErrAnswer} {
		if errors.Is(err, much) {
			return err, failed
		}
	}
	t.warned.warn(t.Log, err, "A HelmChart of a tenant could not be looked at")
	return errServer, failed
}

// tooMuch counts looks that had no answer, one after the other, of the same HelmChart as it is.
type tooMuch struct {
	mu sync.Mutex
	of map[types.NamespacedName]counted
}

type counted struct {
	told reconcile.Told
	n    int
}

// more counts one more, and returns how many there are.
func (m *tooMuch) more(key types.NamespacedName, told reconcile.Told) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of[key]
	if c.told != told {
		c = counted{told: told}
	}
	c.n++
	if m.of == nil {
		m.of = map[types.NamespacedName]counted{}
	}
	m.of[key] = c
	return c.n
}

func (m *tooMuch) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}

// warned says what is wrong with the server, and not the same again for a while.
type warned struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (w *warned) warn(log *logrus.Entry, err error, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.last[what]) < retryMax {
		log.WithError(err).Debug(what)
		return
	}
	if w.last == nil {
		w.last = map[string]time.Time{}
	}
	w.last[what] = time.Now()
	log.WithError(err).Warn(what)
}
