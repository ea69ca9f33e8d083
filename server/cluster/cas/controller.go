package cas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/cluster/replicated"
)

// Name is the name of the component.
const Name = "certificate-authorities"

// retry is between two tries to reach the datastore.
const retry = time.Second

// Options is what a Controller works with.
type Options struct {
	// Dir has the CAs, and Path is the file with those of the next start.
	Dir, Path string
	Cluster   *replicated.Cluster
	// Reach fails if the datastore of another server does not answer.
	Reach func(ctx context.Context, m replicated.Member) error
	// Store returns a new client of the datastore.
	Store func() (replicated.Store, error)
	Log   *logrus.Entry
}

// Controller replaces CAs.
type Controller struct {
	o        Options
	document *replicated.Document[report]
	// running identifies the CAs that this process works with.
	running   string
	replacing sync.Mutex // one replacement at a time

	mu   sync.Mutex
	next string // the CAs of the next start, "" if they stay
}

// New returns a controller of a server that has its CAs already.
func New(o Options) (*Controller, error) {
	files, err := pki.ReadCAs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities: %w", err)
	}
	return &Controller{o: o, document: document(o.Cluster), running: pki.HashCAs(files)}, nil
}

// Waiting reports whether new CAs wait for the next start of this server.
func (c *Controller) Waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next != ""
}

// Component fetches new CAs.
func (c *Controller) Component() component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		replicated.Follow(ctx, c.o.Log, "Does not learn of new certificate authorities; trying again", retry, c.follow)
		<-ctx.Done() // a single server has no other to follow
		return nil
	}}
}

// follow fetches what the datastore has, and with other servers what it gets.
func (c *Controller) follow(ctx context.Context) error {
	store, err := c.o.Store()
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every write was answered
	r, revision, err := c.document.Load(ctx, store)
	if err != nil && !errors.Is(err, replicated.ErrNone) {
		return err
	}
	if err := c.fetch(ctx, store, r); err != nil || !c.o.Cluster.Several {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	watch := c.document.Watch(ctx, store, revision)
	for {
		r, err := watch.Next(ctx, 0)
		if errors.Is(err, replicated.ErrNone) {
			continue // without a record the CAs of the next start stay
		}
		if err != nil {
			return err
		}
		if err := c.fetch(ctx, store, r); err != nil {
			return err
		}
	}
}

// fetch stores the CAs of a record for the next start, if they follow the CAs of
// this server, and reports to the others.
func (c *Controller) fetch(ctx context.Context, store replicated.Store, r *replicated.Record) error {
	next, err := c.stage(r)
	if err != nil || !c.o.Cluster.Several {
		return err
	}
	return c.document.Report(ctx, store, report{Running: c.running, Next: next})
}

// stage writes the file of the next start, and identifies the CAs in it. A record
// that does not follow the CAs of this server is ignored: they were replaced
// without the datastore, or come from a snapshot.
func (c *Controller) stage(r *replicated.Record) (next string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.From != c.running {
		if err := os.Remove(c.o.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		c.next = ""
		return "", nil
	}
	if c.next == r.Hash {
		return c.next, nil
	}
	content, err := c.document.Open(r)
	if err != nil {
		return "", err
	}
	files, err := decode(content)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(&staged{From: r.From, Hash: r.Hash, Files: files})
	if err != nil {
		return "", err
	}
	if err := atomicfile.Write(c.o.Path, data, 0o600); err != nil {
		return "", err
	}
	c.next = r.Hash
	c.o.Log.Infof("Got new certificate authorities (%s): this server takes them when it is restarted",
		strings.Join(r.Replaced, ", "))
	return c.next, nil
}
