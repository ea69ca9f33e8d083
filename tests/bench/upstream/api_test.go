package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/measure"
)

const (
	// clients ask at once, each on a connection of its own; as many watch.
	clients = 64
	// turn is how long one side is asked before it is the other's turn.
	turn = time.Second
	// listed is the number of pods in the namespace that is listed.
	listed = 100

	readPath  = "/api/v1/namespaces/read/pods"
	writePath = "/api/v1/namespaces/write/pods"
	watchPath = "/api/v1/namespaces/watch/configmaps"
)

// requester is one side, its clients and what they are about to do.
type requester struct {
	*cluster
	// side is what results are kept under.
	side    string
	clients []*http.Client
	made    *atomic.Int64
}

// BenchmarkAPI asks all sides the same with 64 clients, in turns. The second
// time that it is upstream's turn in a round, under another name, shows the error
// of the measurement. Throughput is requests, of watches events, a second; times
// are those of one request, of watches from the change until it is seen;
// processor is what all programs of the side used for one.
func BenchmarkAPI(b *testing.B) {
	var sides []*requester
	for _, side := range compared(sideA4s) {
		c := newCluster(b, side)
		c.Start()
		c.awaitNode(b, time.Time{})
		sides = append(sides, newRequester(b, c))
	}
	again := *sides[0]
	if again.side = sideAgain; again.name == sideBase {
		again.side = sideBaseAgain
	}
	sides = append(sides, &again)
	n := 0
	for b.Loop() {
		round := measure.Round{}
		for _, op := range []struct {
			name string
			do   func(b *testing.B, r *requester) result
		}{
			{"get", read("/pod-00007")},
			{"list", read("")},
			{"watch", watch},
			{"create", create},
		} {
			calm(b, sides)
			for i := range sides {
				r := sides[(n+i)%len(sides)]
				op.do(b, r).keep(round, op.name, r.side)
			}
		}
		for _, r := range sides {
			r.empty(b)
		}
		n++
		keep(b, "api", round)
	}
}

// calm waits until no side has much to do, such as what is left of a deletion.
func calm(b *testing.B, sides []*requester) {
	b.Helper()
	const look, little = 500 * time.Millisecond, 100 * time.Millisecond
	used := func() (sum time.Duration) {
		for _, r := range sides {
			sum += r.cpu(b)
		}
		return sum
	}
	for tries, before := 0, used(); tries < 40; tries++ { // some is always done
		time.Sleep(look)
		now := used()
		if now-before < little*time.Duration(len(sides)) {
			return
		}
		before = now
	}
}

// result is what happened in a turn.
type result struct {
	took          []time.Duration // of each request or event
	elapsed, used time.Duration
}

func (r result) keep(round measure.Round, op, side string) {
	slices.Sort(r.took)
	ms := make([]float64, len(r.took))
	for i, t := range r.took {
		ms[i] = t.Seconds() * 1000
	}
	round.Set(op+": throughput, 1/s", side, float64(len(ms))/r.elapsed.Seconds())
	round.Set(op+": p50, ms", side, measure.Quantile(ms, 0.5))
	round.Set(op+": p99, ms", side, measure.Quantile(ms, 0.99))
	round.Set(op+": processor, ms", side, r.used.Seconds()*1000/float64(len(ms)))
}

// timed measures what do says that happened.
func (r *requester) timed(b *testing.B, do func() []time.Duration) result {
	b.Helper()
	before, began := r.cpu(b), time.Now()
	took := do()
	m := result{took: took, elapsed: time.Since(began)}
	m.used = r.cpu(b) - before
	if len(took) == 0 {
		b.Fatalf("%s: nothing happened in %v", r.side, m.elapsed)
	}
	return m
}

// newRequester makes the namespaces and a user whom a role allows everything,
// as most are: group system:masters is not asked for roles.
func newRequester(b *testing.B, c *cluster) *requester {
	b.Helper()
	ctx := b.Context()
	const user = "bench"
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	r := &requester{cluster: c, side: c.name, made: &atomic.Int64{}}
	signer, err := c.Signer()
	if err != nil {
		b.Fatal(err)
	}
	access, err := signer.User(user)
	if err != nil {
		b.Fatal(err)
	}
	for range clients {
		config, err := rest.TLSConfigFor(access)
		if err != nil {
			b.Fatal(err)
		}
		t := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}
		b.Cleanup(t.CloseIdleConnections)
		r.clients = append(r.clients, &http.Client{Transport: t})
	}
	for _, name := range []string{"read", "write", "watch"} {
		if _, err := c.Client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		c.awaitAccount(b, name)
	}
	for i := range listed {
		if err := r.request(ctx, r.clients[0], http.MethodPost, readPath, podBody(int64(i))); err != nil {
			b.Fatal(err)
		}
	}
	if err := r.request(ctx, r.clients[0], http.MethodPost, watchPath,
		[]byte(`{"metadata":{"name":"changing"}}`)); err != nil {
		b.Fatal(err)
	}
	return r
}

// podBody is a pod that no scheduler feels responsible for.
func podBody(n int64) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":"pod-%05d","labels":{"app":"web","tier":"front"},`+
		`"annotations":{"note":"some words about this pod"}},`+
		`"spec":{"schedulerName":"nobody","containers":[{"name":"web","image":"example.com/web:1",`+
		`"ports":[{"containerPort":8080}],`+
		`"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"resources":{"requests":{"cpu":"10m",`+
		`"memory":"16Mi"}}}]}}`, n)
}

// request sends a request and reads the answer to its end.
func (r *requester) request(ctx context.Context, client *http.Client, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, r.Config.Host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	switch method {
	case http.MethodPost:
		req.Header.Set("Content-Type", "application/json")
	case http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(resp.Body) //nolint:errcheck // there is an error already
		return fmt.Errorf("%s %s: %s %.300s", method, path, resp.Status, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// concurrently repeats do on all connections for a turn.
func (r *requester) concurrently(b *testing.B, do func(client *http.Client) error) result {
	b.Helper()
	took := make([][]time.Duration, len(r.clients))
	errs := make([]error, len(r.clients))
	m := r.timed(b, func() []time.Duration {
		end := time.Now().Add(turn)
		var all sync.WaitGroup
		for i, client := range r.clients {
			all.Go(func() {
				for began := time.Now(); began.Before(end) && errs[i] == nil; began = time.Now() {
					errs[i] = do(client)
					took[i] = append(took[i], time.Since(began))
				}
			})
		}
		all.Wait()
		return slices.Concat(took...)
	})
	if err := errors.Join(errs...); err != nil {
		b.Fatalf("%s: %v", r.side, err)
	}
	return m
}

func read(path string) func(b *testing.B, r *requester) result {
	return func(b *testing.B, r *requester) result {
		return r.concurrently(b, func(client *http.Client) error {
			return r.request(b.Context(), client, http.MethodGet, readPath+path, nil)
		})
	}
}

func create(b *testing.B, r *requester) result {
	return r.concurrently(b, func(client *http.Client) error {
		return r.request(b.Context(), client, http.MethodPost, writePath, podBody(r.made.Add(1)))
	})
}

// empty removes what was created, so that every turn finds the same.
func (r *requester) empty(b *testing.B) {
	b.Helper()
	if err := r.request(b.Context(), r.clients[0], http.MethodDelete, writePath, nil); err != nil {
		b.Fatalf("%s: %v", r.side, err)
	}
}

// watch changes an object that all clients watch, again as soon as all of them
// have seen it, and returns how long each took to see each change.
func watch(b *testing.B, r *requester) result {
	ctx, cancel := context.WithCancel(b.Context())
	seen := make(chan int64, len(r.clients)) // the change that somebody saw
	ended := make(chan error, len(r.clients))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, client := range r.clients {
		all.Go(func() { ended <- r.follow(ctx, client, seen) })
	}
	change := func() (took []time.Duration) {
		n, began := r.made.Add(1), time.Now()
		if err := r.request(ctx, r.clients[0], http.MethodPatch, watchPath+"/changing",
			fmt.Appendf(nil, `{"data":{"change":"%d"}}`, n)); err != nil {
			b.Fatalf("%s: %v", r.side, err)
		}
		for len(took) < len(r.clients) {
			select {
			case which := <-seen:
				if which == n {
					took = append(took, time.Since(began))
				}
			case err := <-ended:
				b.Fatalf("%s: a watch ended: %v", r.side, err)
			}
		}
		return took
	}
	change() // when all have seen it, all watch
	return r.timed(b, func() (took []time.Duration) {
		for end := time.Now().Add(turn); time.Now().Before(end); {
			took = append(took, change()...)
		}
		return took
	})
}

// follow watches and reports every change that it sees.
func (r *requester) follow(ctx context.Context, client *http.Client, seen chan<- int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		r.Config.Host+watchPath+"?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dchanging", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it is cut off
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, after, ok := bytes.Cut(lines.Bytes(), []byte(`"data":{"change":"`))
		if !ok {
			continue
		}
		number, _, _ := bytes.Cut(after, []byte(`"`))
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil {
			return err
		}
		select {
		case seen <- n:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return lines.Err()
}
