package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/bench/sides"
)

const (
	// arrivalTimeout bounds how long an event may take.
	arrivalTimeout = time.Minute
	// openTimeout bounds how long a watch may take to open.
	openTimeout = 30 * time.Second
	// mark begins the message of a pod that was written.
	mark = "write "
)

// load writes pods at a pace, and measures when watches show it.
type load struct {
	*cluster
	// id tells messages of this load from those of earlier ones.
	id string
	// servers are clients of each.
	servers []kubernetes.Interface

	mu sync.Mutex
	// began is when each write was asked for. Those of the first watched tenants are
	// seen by watches of their own.
	began []time.Time
	own   []bool
	// answers, ofTenants and ofAll are how long writes took until they were answered, and
	// until the watches showed them.
	answers, ofTenants, ofAll []time.Duration
	failed                    error
}

// newLoad opens the watches: of everything, as a controller does, and of some tenants, as
// their users do, each through a server that owns the tenant.
func newLoad(ctx context.Context, c *cluster) (*load, error) {
	l := &load{cluster: c, id: strconv.FormatInt(time.Now().UnixNano(), 36)}
	for _, s := range c.servers[:c.running] {
		client, err := kubernetes.NewForConfig(sides.Efficient(s.Config))
		if err != nil {
			return nil, err
		}
		l.servers = append(l.servers, client)
	}
	if err := l.watch(ctx, c.merged(c.servers[0].Config), &l.ofAll); err != nil {
		return nil, fmt.Errorf("watching everything: %w", err)
	}
	for tenant := range c.tenants {
		if !l.watches(tenant) {
			continue
		}
		server := c.servers[c.layout.server(tenant, c.tenants, tenant)]
		access := tenantapi.InSpace(sides.Efficient(server.Config), tenantName(tenant))
		if err := l.watch(ctx, access, &l.ofTenants); err != nil {
			return nil, fmt.Errorf("watching %s: %w", tenantName(tenant), err)
		}
	}
	return l, nil
}

// watches reports whether a tenant has a watch of its own: some of all groups have.
func (l *load) watches(tenant int) bool {
	return tenant*l.watched/l.tenants != (tenant-1)*l.watched/l.tenants || tenant == 0
}

// watch opens a watch of all pods that the access shows, from now on. Until the load
// begins it is opened again when it ends: clients that learn of a layout begin anew.
func (l *load) watch(ctx context.Context, access *rest.Config, took *[]time.Duration) error {
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	w, err := openWatch(ctx, pods)
	if err != nil {
		return err
	}
	go func() {
		for err == nil {
			err = l.follow(w, took)
			if ctx.Err() != nil {
				return
			}
			if !l.running() {
				w, err = openWatch(ctx, pods)
			}
		}
		l.fail(err)
	}()
	return nil
}

func openWatch(ctx context.Context, pods coreclient.PodInterface) (w watch.Interface, err error) {
	limited, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err = sides.Await(limited, "the watch", func() error {
		list, err := pods.List(limited, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		w, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
		return err
	})
	return w, err
}

// follow reads a watch to its end, which it returns as an error.
func (l *load) follow(w watch.Interface, took *[]time.Duration) error {
	defer w.Stop()
	for e := range w.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok {
			l.see(pod.Status.Message, time.Now(), took)
		} else if e.Type == watch.Error {
			return fmt.Errorf("a watch ended: %+v", e.Object)
		}
	}
	return errors.New("a watch ended")
}

// running reports whether something was written.
func (l *load) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.began) > 0
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// see notes that a watch has shown a write.
func (l *load) see(message string, now time.Time, took *[]time.Duration) {
	number, ok := strings.CutPrefix(message, l.prefix())
	if !ok {
		return // of an earlier trial
	}
	n, err := strconv.Atoi(number)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && n < len(l.began) {
		*took = append(*took, now.Sub(l.began[n]))
	}
}

// prefix is that of messages of this load.
func (l *load) prefix() string { return fmt.Sprintf("%s%s ", mark, l.id) }

// run writes for a while, and returns when all events have come.
func (l *load) run(ctx context.Context) error {
	random := rand.New(rand.NewPCG(1, 2))
	ticker := time.NewTicker(time.Duration(float64(time.Second) / l.rate))
	defer ticker.Stop()
	var all sync.WaitGroup
	for end := time.Now().Add(l.load); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		tenant, pod := random.IntN(l.tenants), random.IntN(l.podsEach())
		all.Go(func() { l.write(ctx, tenant, pod) })
	}
	all.Wait()
	limited, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
	err := sides.Await(limited, "all events", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed != nil {
			return nil // below
		}
		own := 0
		for _, is := range l.own {
			if is {
				own++
			}
		}
		if len(l.ofAll) != len(l.began) || len(l.ofTenants) != own {
			return fmt.Errorf("of %d writes the watch of everything has %d; of %d those of tenants have %d",
				len(l.began), len(l.ofAll), own, len(l.ofTenants))
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.failed, err)
}

// write changes the status of a pod, as its node does.
func (l *load) write(ctx context.Context, tenant, pod int) {
	l.mu.Lock()
	n := len(l.began)
	began := time.Now()
	l.began, l.own = append(l.began, began), append(l.own, l.watches(tenant))
	l.mu.Unlock()
	client := l.servers[l.layout.server(tenant, l.tenants, n)]
	patch := fmt.Appendf(nil, `{"status":{"message":"%s%d"}}`, l.prefix(), n)
	_, err := client.CoreV1().Pods(namespaceOf(tenant)).Patch(ctx, podName(pod), types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = fmt.Errorf("writing %s of %s: %w", podName(pod), tenantName(tenant), err)
	}
	l.answers = append(l.answers, took)
}

// times are those of answers and watches, each in order.
func (l *load) times() (answers, ofTenants, ofAll []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sorted := func(took []time.Duration) []time.Duration { return slices.Sorted(slices.Values(took)) }
	return sorted(l.answers), sorted(l.ofTenants), sorted(l.ofAll)
}
