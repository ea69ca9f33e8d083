package cas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// Name is the name of the component.
const Name = "authorities"

const (
	// retry is between two tries to reach the datastore.
	retry = time.Second
	// fetchTimeout bounds how long the other servers are waited for: less
	// than a command waits.
	fetchTimeout = 6 * time.Second
	fetchPoll    = 200 * time.Millisecond
	// reachTimeout bounds the question whether another server runs.
	reachTimeout = 3 * time.Second
	// readTimeout bounds what is read from the datastore for a decision.
	readTimeout = 3 * time.Second
)

// Member is a server, as the datastore knows it.
type Member struct {
	ID string
	// Name is empty while the server joins.
	Name string
	URLs []string
}

// Options is what a Controller works with.
type Options struct {
	// Dir has the CAs, and Path is the file with those of the next start.
	Dir, Path string
	// Name is that of this server.
	Name string
	// Several says that there may be others than this one.
	Several bool
	// Members are all servers, none while that cannot be told.
	Members func() []Member
	// Reach fails if the datastore of another server does not answer.
	Reach func(ctx context.Context, m Member) error
	// Secret is what the servers of this cluster know, and no copy of the
	// datastore tells.
	Secret func() ([]byte, error)
	// Store returns a new client of the datastore.
	Store func() (Store, error)
	Log   *logrus.Entry
}

// Store is a connection to the datastore.
type Store interface {
	Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
	Txn(ctx context.Context) clientv3.Txn
	Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan
	Close() error
}

// Controller replaces CAs.
type Controller struct {
	o Options
	// running identifies the CAs that this process works with.
	running string
	change  sync.Mutex // one at a time

	mu   sync.Mutex
	next string // those of the next start, "" if they stay
}

// New returns a controller of a server that has its CAs already.
func New(o Options) (*Controller, error) {
	files, err := pki.ReadAuthorities(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities: %w", err)
	}
	return &Controller{o: o, running: pki.HashAuthorities(files)}, nil
}

// Waiting tells whether new CAs wait for the next start of this server.
func (c *Controller) Waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next != ""
}

// Component fetches new CAs.
func (c *Controller) Component() component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		last := ""
		for {
			err := c.follow(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil { // there is nobody to follow
				<-ctx.Done()
				return nil
			}
			if text := err.Error(); text != last {
				c.o.Log.WithError(err).Warn("Does not learn of new certificate authorities; trying again")
				last = text
			}
			if component.Sleep(ctx, retry) != nil {
				return nil
			}
		}
	}}
}

var errWatch = errors.New("the watch of the datastore has ended")

func (c *Controller) follow(ctx context.Context) error {
	store, err := c.o.Store()
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every write was answered
	r, revision, err := load(ctx, store)
	if err != nil {
		return err
	}
	if err := c.fetch(ctx, store, r); err != nil || !c.o.Several {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	for resp := range store.Watch(ctx, recordKey, clientv3.WithRev(revision+1)) {
		if err := resp.Err(); err != nil {
			return errors.Join(errWatch, err)
		}
		for _, e := range resp.Events {
			if e.Type != clientv3.EventTypePut {
				continue
			}
			if r, err = read(e.Kv); err != nil {
				return err
			}
			if err := c.fetch(ctx, store, r); err != nil {
				return err
			}
		}
	}
	return errWatch
}

// fetch keeps what the datastore has for the next start, if it follows what
// this server has, and tells the others.
func (c *Controller) fetch(ctx context.Context, store Store, r *record) error {
	next, err := c.keep(r)
	if err != nil || !c.o.Several {
		return err
	}
	self, err := c.self()
	if err != nil {
		return err
	}
	return tell(ctx, store, self.ID, report{Running: c.running, Next: next})
}

// keep writes the file of the next start, and identifies what is in it. What
// does not follow the CAs of this server is none of its business: they were
// replaced without the datastore, or come from a snapshot.
func (c *Controller) keep(r *record) (next string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r == nil || r.From != c.running {
		if err := os.Remove(c.o.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		c.next = ""
		return "", nil
	}
	if c.next == r.Hash {
		return c.next, nil
	}
	secret, err := c.o.Secret()
	if err != nil {
		return "", err
	}
	files, err := r.open(secret)
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
	c.o.Log.Infof("Got new certificate authorities (%s): this server takes them when it is restarted", strings.Join(r.Replaced, ", "))
	return c.next, nil
}

func (c *Controller) self() (Member, error) {
	members := c.o.Members()
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == c.o.Name })
	if i < 0 {
		return Member{}, errors.New("the datastore of this server does not run")
	}
	return members[i], nil
}

// Replace makes new CAs, or ends the trust in those before, for the next start
// of every server. Nothing is written unless all servers can follow.
func (c *Controller) Replace(ctx context.Context, req joinapi.AuthoritiesRequest) (*joinapi.AuthoritiesResponse, map[string][]byte, error) {
	c.change.Lock()
	defer c.change.Unlock()
	store, err := c.o.Store()
	if err != nil {
		return nil, nil, err
	}
	defer store.Close() //nolint:errcheck // every write was answered
	was, err := c.check(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	done, files, err := pki.Successors(c.o.Dir, pki.RotateOptions{From: req.Path, Force: req.Force, Finish: req.Finish})
	if err != nil {
		return nil, nil, err
	}
	secret, err := c.o.Secret()
	if err != nil {
		return nil, nil, err
	}
	r := &record{From: c.running, Hash: pki.HashAuthorities(files), Replaced: done.Replaced}
	if err := r.seal(secret, files); err != nil {
		return nil, nil, err
	}
	if err := put(ctx, store, was, r); err != nil {
		return nil, nil, err
	}
	if err := c.fetch(ctx, store, r); err != nil {
		return nil, nil, fmt.Errorf("the new certificate authorities are in the datastore, but not yet on this server, which tries again: %w", err)
	}
	out := &joinapi.AuthoritiesResponse{Replaced: done.Replaced}
	for _, m := range c.o.Members() {
		out.Servers = append(out.Servers, m.Name)
	}
	slices.Sort(out.Servers)
	if c.o.Several {
		out.Missing, err = c.await(ctx, store, r)
	}
	return out, files, err
}

// check refuses while not all servers run with the CAs of this one, and returns
// what the datastore has.
func (c *Controller) check(ctx context.Context, store Store) (*record, error) {
	// Too few of them are the reason why the datastore does not answer.
	if err := c.reachAll(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	was, _, err := load(ctx, store)
	if err != nil {
		return nil, err
	}
	reports, err := heard(ctx, store)
	if err != nil {
		return nil, err
	}
	members := c.o.Members() // read later: who is not in it reads what is written now
	if was != nil && was.From == c.running {
		return nil, waiting(was, members, reports, c.o.Name)
	}
	var wrong []string
	for _, m := range members {
		r, there := reports[m.ID]
		switch {
		case m.Name == c.o.Name:
		case !there:
			wrong = append(wrong, m.Name+" does not say which CAs it works with: it is starting, or its version cannot take new ones")
		case r.Running != c.running && r.Next == c.running:
			wrong = append(wrong, m.Name+" has the CAs of this server, but was not restarted since")
		case r.Running != c.running:
			wrong = append(wrong, m.Name+" works with other CAs than this server")
		}
	}
	return was, refuse(wrong)
}

// reachAll refuses while a server does not answer or has not joined yet.
func (c *Controller) reachAll(ctx context.Context) error {
	if _, err := c.self(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	members := c.o.Members()
	wrong := make([]string, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() {
			switch {
			case m.Name == c.o.Name:
			case m.Name == "":
				wrong[i] = "one is joining (member " + m.ID + ")"
			case c.o.Reach(ctx, m) != nil:
				wrong[i] = m.Name + " does not answer"
			}
		})
	}
	asked.Wait()
	return refuse(slices.DeleteFunc(wrong, func(s string) bool { return s == "" }))
}

func refuse(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return &problem.Precondition{What: "servers of the cluster", Err: errors.New(strings.Join(wrong, "; ")),
		Fix: "CAs are replaced while all servers run with the same ones: start or restart those; one that is gone for good is removed with a4s etcd-member remove"}
}

// waiting refuses a change while the one before has not been taken.
func waiting(r *record, members []Member, reports map[string]report, self string) error {
	var restart, missing []string
	for _, m := range members {
		switch have := reports[m.ID]; {
		case have.Running == r.Hash:
		case have.Next == r.Hash || m.Name == self:
			restart = append(restart, m.Name)
		default:
			missing = append(missing, m.Name)
		}
	}
	slices.Sort(restart)
	slices.Sort(missing)
	text, fix := "new ones wait for the restart of "+strings.Join(restart, ", "), "restart a4s on each of these servers"
	if len(missing) > 0 {
		text += "; not yet fetched by " + strings.Join(missing, ", ")
		fix += ", and on those that have not fetched them when they run and have"
	}
	return &problem.Precondition{What: "certificate authorities", Err: errors.New(text), Fix: fix}
}

// await names the servers that have not fetched r in time.
func (c *Controller) await(ctx context.Context, store Store, r *record) ([]string, error) {
	end := time.Now().Add(fetchTimeout)
	for {
		reports, err := heard(ctx, store)
		if err != nil {
			return nil, err
		}
		var missing []string
		for _, m := range c.o.Members() {
			have := reports[m.ID]
			if m.Name != c.o.Name && have.Next != r.Hash && have.Running != r.Hash {
				missing = append(missing, m.Name)
			}
		}
		if len(missing) == 0 || time.Now().After(end) {
			slices.Sort(missing)
			return missing, nil
		}
		if err := component.Sleep(ctx, fetchPoll); err != nil {
			return nil, err
		}
	}
}
