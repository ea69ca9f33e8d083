package hollow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/pki"
)

// registering is how many nodes register at a time.
const registering = 10

// Options are those of a fleet.
type Options struct {
	// First is the number of the first node, for several fleets of one cluster.
	First, Nodes int
	// Pods is how many a node has room for, 110 if it is 0.
	Pods int64
	// Access returns the access of a user in some groups. It is asked once for
	// each node.
	Access func(user string, groups ...string) (*rest.Config, error)
	// Groups are further groups in the certificates of the nodes.
	Groups []string
	// Elsewhere says that pods come from other servers, which TakePods names.
	Elsewhere bool
}

// Fleet is a number of hollow nodes.
type Fleet struct {
	nodes    []*node
	running  sync.WaitGroup
	failures failures
}

// Start registers the nodes and returns when the server has all of them. They
// run until the context ends.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	f := &Fleet{}
	for i := range o.Nodes {
		number := o.First + i
		name := Name(number)
		access, err := o.Access(pki.NodeUserPrefix+name, append([]string{pki.GroupNodes}, o.Groups...)...)
		if err != nil {
			return nil, fmt.Errorf("access of node %s: %w", name, err)
		}
		n, err := newNode(number, cmp.Or(o.Pods, 110), access, &f.failures)
		if err != nil {
			return nil, fmt.Errorf("client of node %s: %w", name, err)
		}
		f.nodes = append(f.nodes, n)
	}
	todo := make(chan *node)
	go func() {
		defer close(todo)
		for _, n := range f.nodes {
			todo <- n
		}
	}()
	errs := make(chan error, o.Nodes)
	var workers sync.WaitGroup
	for range registering {
		workers.Go(func() {
			for n := range todo {
				err := n.register(ctx)
				if err != nil {
					errs <- fmt.Errorf("registering node %s: %w", n.name, err)
					continue
				}
				f.running.Go(func() { n.renewAlways(ctx) })
				if !o.Elsewhere {
					f.running.Go(func() { n.own.informer(ctx).RunWithContext(ctx) })
				}
			}
		})
	}
	workers.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return f, errors.Join(all...)
}

// TakePods has the nodes take the pods of some servers, by their URLs, until the context
// ends: each with a connection of its own, beside that to the server of Access. It returns
// when all watches are open.
func (f *Fleet) TakePods(ctx context.Context, urls ...string) error {
	var all errgroup.Group
	all.SetLimit(registering)
	for _, n := range f.nodes {
		for _, url := range urls {
			from, err := n.from(url)
			if err != nil {
				return fmt.Errorf("client of node %s: %w", n.name, err)
			}
			all.Go(func() error {
				informer := from.informer(ctx)
				f.running.Go(func() { informer.RunWithContext(ctx) })
				if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
					return fmt.Errorf("watching the pods of %s at %s: %w", n.name, url, ctx.Err())
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// Follow has each node read a stream that never ends from some servers, by their URLs and
// the path, until the context ends. It returns when all are open.
func (f *Fleet) Follow(ctx context.Context, path string, urls ...string) error {
	var all errgroup.Group
	all.SetLimit(registering)
	for _, n := range f.nodes {
		client, err := rest.HTTPClientFor(n.access)
		if err != nil {
			return fmt.Errorf("client of node %s: %w", n.name, err)
		}
		for _, url := range urls {
			all.Go(func() error {
				body, err := open(ctx, client, url+path)
				if err != nil {
					return fmt.Errorf("node %s: %w", n.name, err)
				}
				f.running.Go(func() {
					defer body.Close()
					if _, err := io.Copy(io.Discard, body); ctx.Err() == nil {
						f.failures.add(fmt.Errorf("%s of node %s ended: %w", path, n.name, err))
					}
				})
				return nil
			})
		}
	}
	return all.Wait()
}

func open(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return response.Body, nil
}

// Wait returns when all nodes have stopped, after the end of their context.
func (f *Fleet) Wait() { f.running.Wait() }

// Failures returns how many requests of nodes failed, and why the last one did.
func (f *Fleet) Failures() (int, error) {
	f.failures.mu.Lock()
	defer f.failures.mu.Unlock()
	return f.failures.count, f.failures.last
}

// Name is that of a node with this number.
func Name(number int) string { return fmt.Sprintf("hollow-%05d", number) }

// failures counts what failed in all nodes of a fleet.
type failures struct {
	mu    sync.Mutex
	count int
	last  error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	f.last = err
}
