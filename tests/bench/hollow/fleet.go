package hollow

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
)

// registering is how many nodes register at a time.
const registering = 10

// Options are those of a fleet.
type Options struct {
	// First is the number of the first node, for several fleets of one cluster.
	First, Nodes int
	// Access returns the access of a user in some groups. It is asked once for
	// each node.
	Access func(user string, groups ...string) (*rest.Config, error)
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
		access, err := o.Access(pki.NodeUserPrefix+name, pki.GroupNodes)
		if err != nil {
			return nil, fmt.Errorf("access of node %s: %w", name, err)
		}
		n, err := newNode(number, access, &f.failures)
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
				f.running.Go(func() { n.run(ctx) })
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
