package encryption

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/replicated"
)

// Name is the name of the component.
const Name = "secrets-encryption"

// ErrBusy means that another change is not finished.
var ErrBusy = errors.New("another change of the encryption of Secrets is in progress")

// Options is what a Controller works with.
type Options struct {
	// Path is that of the configuration.
	Path string
	// Store returns a new client of the datastore.
	Store func() (Store, error)
	// Loaded returns the hash of the file that the API server works with.
	Loaded func() (string, error)
	// Guard says why nothing may be changed now; optional.
	Guard func(ctx context.Context) error
	// Cluster is set where the configuration is in the datastore, too, and
	// the file follows it.
	Cluster *Cluster
	Log     *logrus.Entry
}

// Store is a connection to the datastore.
type Store interface {
	datastore
	Close() error
}

// Controller changes how Secrets are stored.
type Controller struct {
	o    Options
	file copyOf
	pace pace
	jobs chan joinapi.EncryptionAction

	progress progress
}

// progress is how far the last change is.
type progress struct {
	mu  sync.Mutex
	job *joinapi.EncryptionJob // the last one; nil if there was none
}

// New returns a controller.
func New(o Options) *Controller {
	return &Controller{o: o, file: copyOf{path: o.Path}, pace: usual(), jobs: make(chan joinapi.EncryptionAction, 1)}
}

// open opens the storage of this server.
func (c *Controller) open() (storage, error) {
	if c.o.Cluster == nil {
		return fileStorage{c.o.Path}, nil
	}
	return c.openCluster()
}

func (c *Controller) openCluster() (*clusterStorage, error) {
	store, err := c.o.Cluster.Store()
	if err != nil {
		return nil, err
	}
	return &clusterStorage{Document: document(c.o.Cluster.Cluster), store: store, file: &c.file}, nil
}

// Component does what Start was asked for.
func (c *Controller) Component() component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		if c.o.Cluster != nil && c.o.Cluster.Several {
			var following sync.WaitGroup
			defer following.Wait()
			following.Go(func() {
				const text = "Does not follow changes of the keys of Secrets; trying again"
				replicated.Follow(ctx, c.o.Log, text, c.pace.retry, c.follow)
			})
		}
		defer c.interrupted()
		for {
			select {
			case <-ctx.Done():
				return nil
			case action := <-c.jobs:
				err := c.change(ctx, action)
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					c.o.Log.WithError(err).
						Errorf("secrets-encrypt %s stopped; the same command goes on with it", action)
				} else {
					c.o.Log.Infof("secrets-encrypt %s is done", action)
				}
				c.progress.finish(err)
			}
		}
	}}
}

// Start begins an action, or goes on with one that was interrupted.
func (c *Controller) Start(ctx context.Context, action joinapi.EncryptionAction) error {
	if c.o.Guard != nil {
		if err := c.o.Guard(ctx); err != nil {
			return err
		}
	}
	if err := c.mayStart(ctx, action); err != nil {
		return err
	}
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	if c.progress.job != nil && c.progress.job.Running {
		return fmt.Errorf("%w: %s", ErrBusy, c.progress.job.Action)
	}
	c.progress.job = &joinapi.EncryptionJob{Action: action, Running: true, Step: "starting"}
	c.jobs <- action
	return nil
}

func (c *Controller) mayStart(ctx context.Context, action joinapi.EncryptionAction) error {
	l, err := c.open()
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // it was read from only
	s, err := l.current(ctx)
	if err != nil {
		return explain(err)
	}
	if err := allowed(s.stage(), action); err != nil {
		return err
	}
	if cl, ok := l.(*clusterStorage); ok {
		return cl.idle(ctx)
	}
	return nil
}

// explain says what to do about what an administrator can do something about.
func explain(err error) error {
	if errors.Is(err, replicated.ErrSealed) {
		return &problem.Precondition{What: "keys of Secrets in the datastore", Err: err,
			Fix: "server/tls/service.key has to be the same on all servers"}
	}
	return err
}

func allowed(stage joinapi.EncryptionStage, action joinapi.EncryptionAction) error {
	halfway := stage == joinapi.EncryptionKeyAdded || stage == joinapi.EncryptionKeyPromoted
	switch {
	case action == joinapi.EncryptionRotate && stage == joinapi.EncryptionDisabled:
		return &problem.Input{Source: "secrets-encrypt", Value: string(action),
			Want: "enable first: Secrets are not encrypted"}
	case (action == joinapi.EncryptionEnable || action == joinapi.EncryptionDisable) && halfway:
		return &problem.Input{Source: "secrets-encrypt", Value: string(action),
			Want: "rotate, to finish the rotation that was begun"}
	}
	switch action {
	case joinapi.EncryptionEnable, joinapi.EncryptionDisable, joinapi.EncryptionRotate, joinapi.EncryptionReencrypt:
		return nil
	}
	return &problem.Input{Source: "secrets-encrypt", Value: string(action),
		Want: "enable, disable, rotate or reencrypt"}
}

// Status returns how Secrets are stored.
func (c *Controller) Status(ctx context.Context) (joinapi.EncryptionStatus, error) {
	out := joinapi.EncryptionStatus{Path: c.o.Path}
	l, err := c.open()
	if err != nil {
		return out, err
	}
	defer l.Close() //nolint:errcheck // it was read from only
	s, err := l.current(ctx)
	if err != nil {
		return out, explain(err)
	}
	out.Stage, out.ActiveKey = s.stage(), s.active()
	for _, k := range s.keys() {
		out.Keys = append(out.Keys, k.Name)
	}
	if out.Hash, err = hashOf(c.o.Path); err != nil {
		return out, err
	}
	if out.LoadedHash, err = c.o.Loaded(); err != nil {
		return out, err
	}
	store, err := c.o.Store()
	if err != nil {
		return out, err
	}
	defer store.Close() //nolint:errcheck // it was read from only
	if out.Stored, err = count(ctx, store); err != nil {
		return out, err
	}
	want := out.ActiveKey
	if want == "" {
		want = plain
	}
	for name, n := range out.Stored {
		if name != want {
			out.Pending += n
		}
	}
	c.progress.mu.Lock()
	if c.progress.job != nil {
		job := *c.progress.job
		out.Job = &job
	}
	c.progress.mu.Unlock()
	if cl, ok := l.(*clusterStorage); ok {
		return out, cl.describe(ctx, s, &out)
	}
	return out, nil
}

// Unfinished reports whether a rotation was begun and no server goes on with it.
func (c *Controller) Unfinished(ctx context.Context) bool {
	cfg, err := read(c.o.Path)
	if err != nil || cfg.stage() != joinapi.EncryptionKeyAdded && cfg.stage() != joinapi.EncryptionKeyPromoted {
		return false
	}
	c.progress.mu.Lock()
	running := c.progress.job != nil && c.progress.job.Running
	c.progress.mu.Unlock()
	if running || c.o.Cluster == nil || !c.o.Cluster.Several {
		return !running
	}
	l, err := c.openCluster()
	if err != nil {
		return true
	}
	defer l.Close() //nolint:errcheck // it was read from only
	other, err := l.elsewhere(ctx)
	return err == nil && other == nil
}

func (p *progress) step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job != nil {
		p.job.Step = text
	}
}

func (p *progress) rewriting(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job != nil {
		p.job.Step, p.job.Done, p.job.Total = "rewriting Secrets", done, total
	}
}

func (p *progress) rewritten() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job != nil {
		p.job.Done++
	}
}

// interrupted ends a job that ends with its component.
func (c *Controller) interrupted() {
	c.progress.mu.Lock()
	running := c.progress.job != nil && c.progress.job.Running && len(c.jobs) == 0
	c.progress.mu.Unlock()
	if running {
		c.progress.finish(errors.New("interrupted"))
	}
}

func (p *progress) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job.Running, p.job.Step = false, "done"
	if err != nil {
		p.job.Step, p.job.Error = "failed", err.Error()
	}
}
