package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	// writtenPrefix begins the names of what writers write, and never is the value of what
	// has to be refused.
	writtenPrefix, never = "written-", "never"
	// writersOfEach is how many writers a tenant has.
	writersOfEach = 2
)

// entry is a write of one object.
type entry struct {
	kind  watch.EventType // what a watch shows of it
	value string          // what a watch shows with it: a deletion, what was deleted
	open  bool            // its outcome is not known
}

// diary is what was written to one object of a tenant, by one writer. Only the last write may
// have an outcome that is not known: then nothing is written to the object any more.
type diary struct {
	tenant, name string
	entries      []entry
}

// value is what the object has after the first n writes, "" for none.
func (d *diary) value(n int) string {
	if n == 0 || d.entries[n-1].kind == watch.Deleted {
		return ""
	}
	return d.entries[n-1].value
}

// book has all diaries.
type book struct {
	mu       sync.Mutex
	diaries  map[string]map[string]*diary // by tenant and name
	since    map[[2]string]bool           // tenant and server: whether one was acknowledged of late
	errors   map[[2]string]error          // tenant and server
	wrong    []string                     // answers that must not be
	acked    int
	refused  int
	unknown  int
	unsent   int
	limited  int
	examples map[string]int // answers whose outcome is not known
}

func newBook() *book {
	return &book{diaries: map[string]map[string]*diary{}, since: map[[2]string]bool{},
		errors: map[[2]string]error{}, examples: map[string]int{}}
}

func (b *book) open(tenant, name string) *diary {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := &diary{tenant: tenant, name: name}
	if b.diaries[tenant] == nil {
		b.diaries[tenant] = map[string]*diary{}
	}
	b.diaries[tenant][name] = d
	return d
}

func (b *book) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.since)
}

func (b *book) served(tenant, server string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since[[2]string{tenant, server}]
}

func (b *book) lastError(tenant, server string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors[[2]string{tenant, server}]
}

// report tells how much was written, and which answers must not be.
func (b *book) report(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	t.Logf("%d writes were acknowledged, %d refused as they have to be, %d had to wait, %d did not reach a server, "+
		"the outcome of %d is not known: %v", b.acked, b.refused, b.limited, b.unsent, b.unknown, b.examples)
	for _, wrong := range b.wrong {
		t.Error(wrong)
	}
}

// compare compares what a server lists of a tenant with the diaries, and says in these what was
// not known before.
func (b *book) compare(t *testing.T, tenant, server string, there map[string]string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, value := range there {
		if b.diaries[tenant][name] == nil {
			t.Errorf("%s shows %s of tenant %s with %q, which nobody wrote", server, name, tenant, value)
		}
	}
	for name, d := range b.diaries[tenant] {
		n := len(d.entries)
		if n > 0 && d.entries[n-1].open {
			if d.entries[n-1].open = false; there[name] != d.value(n) {
				n--
				d.entries = d.entries[:n] // it was not done
			}
		}
		if got, want := there[name], d.value(n); got != want {
			t.Errorf("%s shows %s of tenant %s with %q, acknowledged was %q", server, name, tenant, got, want)
		}
	}
}

// write starts the writers.
func (k *killing) write(t *testing.T, seed int) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	k.stopWrites = func() {
		stop()
		writers.Wait()
	}
	t.Cleanup(k.stopWrites)
	for i, tenant := range k.tenants {
		through := map[string]kubernetes.Interface{}
		var names []string
		for _, s := range k.servers {
			through[s.host.Name] = k.of(t, tenant, s)
			names = append(names, s.host.Name)
		}
		for j := range writersOfEach {
			w := &writer{book: k.book, tenant: tenant, through: through, servers: names, id: j,
				random: rand.New(rand.NewPCG(uint64(seed), uint64(2+writersOfEach*i+j)))}
			writers.Go(func() { w.run(ctx) })
		}
	}
}

// writer writes objects that nobody else writes.
type writer struct {
	book    *book
	tenant  string
	id      int
	servers []string
	through map[string]kubernetes.Interface // by server
	random  *rand.Rand
	counter int
}

func (w *writer) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		w.fill(ctx, w.book.open(w.tenant, fmt.Sprintf("%s%d-%d", writtenPrefix, w.id, i)))
	}
}

// fill writes an object until the outcome of a write is not known.
func (w *writer) fill(ctx context.Context, d *diary) {
	var now, before *corev1.ConfigMap // as the API has shown it
	for ctx.Err() == nil {
		server := w.servers[w.random.IntN(len(w.servers))]
		api := w.through[server].CoreV1().ConfigMaps("default")
		try, cancel := context.WithTimeout(context.Background(), soon)
		choice, e, legal := w.random.IntN(10), entry{}, true
		made, err := now, error(nil)
		switch {
		case now == nil:
			e = entry{kind: watch.Added, value: w.next()}
			made, err = api.Create(try, configMap(d.name, e.value), metav1.CreateOptions{})
		case choice == 0:
			e = entry{kind: watch.Deleted, value: now.Data["value"]}
			err = api.Delete(try, d.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &now.UID,
				ResourceVersion: &now.ResourceVersion}})
			made = nil
		case choice == 1: // it is there already
			legal = false
			_, err = api.Create(try, configMap(d.name, never), metav1.CreateOptions{})
		case choice == 2 && before != nil: // it has changed since
			legal = false
			stale := before.DeepCopy()
			stale.Data["value"] = never
			_, err = api.Update(try, stale, metav1.UpdateOptions{})
		default:
			e = entry{kind: watch.Modified, value: w.next()}
			changed := now.DeepCopy()
			changed.Data["value"] = e.value
			made, err = api.Update(try, changed, metav1.UpdateOptions{})
		}
		cancel()
		switch w.book.answered(d, server, e, legal, err) {
		case done:
			before, now = now, made
		case refused:
		case unsent:
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		case unknown:
			return
		}
	}
}

func (w *writer) next() string {
	w.counter++
	return strconv.Itoa(w.counter)
}

// outcome is what a client knows of its write.
type outcome int

const (
	unknown outcome = iota
	done
	refused
	unsent
)

// outcomeOf goes by the answer. Who was told 429 was not heard, and an error of the server, or a
// connection that ended, says nothing.
func outcomeOf(err error) outcome {
	var status apierrors.APIStatus
	var op *net.OpError
	switch {
	case err == nil:
		return done
	case errors.As(err, &status):
		switch code := status.Status().Code; {
		case code == http.StatusTooManyRequests:
			return unsent
		case code >= 400 && code < 500 && code != http.StatusRequestTimeout:
			return refused
		}
	case errors.As(err, &op) && op.Op == "dial":
		return unsent
	}
	return unknown
}

// answered notes the outcome of a write. One that is not legal has to be refused.
func (b *book) answered(d *diary, server string, e entry, legal bool, err error) outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := outcomeOf(err)
	if err != nil {
		b.errors[[2]string{d.tenant, server}] = err
	}
	switch {
	case of == done && !legal:
		b.wrong = append(b.wrong, fmt.Sprintf("%s did what it had to refuse to %s of tenant %s: %+v", server, d.name,
			d.tenant, d.entries))
	case of == done:
		b.acked++
		b.since[[2]string{d.tenant, server}] = true
		d.entries = append(d.entries, e)
	case of == refused && legal:
		b.wrong = append(b.wrong, fmt.Sprintf("%s refused to have %s of tenant %s %s with %s: %v; it was %+v", server,
			d.name, d.tenant, e.kind, e.value, err, d.entries))
		return unknown // so that it is said once
	case of == refused:
		b.refused++
	case of == unsent && apierrors.IsTooManyRequests(err):
		b.limited++
	case of == unsent:
		b.unsent++
	case of == unknown:
		b.unknown++
		b.examples[kindOf(err)]++
		if e.open = true; legal {
			d.entries = append(d.entries, e)
		}
	}
	return of
}

// kindOf is an error without what differs each time.
func kindOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return fmt.Sprintf("%d %s", status.Status().Code, status.Status().Reason)
	}
	return "no answer"
}

// withoutRetries takes from answers what has client-go ask again.
func withoutRetries(inner http.RoundTripper) http.RoundTripper { return onceOnly{inner} }

type onceOnly struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onceOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(req)
	if resp != nil {
		resp.Header.Del("Retry-After")
	}
	return resp, err
}
