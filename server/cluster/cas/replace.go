package cas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/replicated"
)

const (
	// fetchTimeout bounds how long the other servers are waited for: less
	// than a command waits.
	fetchTimeout = 6 * time.Second
	fetchPoll    = 200 * time.Millisecond
	// reachTimeout bounds the question whether another server runs.
	reachTimeout = 3 * time.Second
	// readTimeout bounds what is read from the datastore for a decision.
	readTimeout = 3 * time.Second
)

// Replace issues new CAs, or ends the trust in those before, for the next start
// of every server. Nothing is written unless all servers can follow.
func (c *Controller) Replace(
	ctx context.Context, req joinapi.CAsRequest,
) (*joinapi.CAsResponse, map[string][]byte, error) {
	c.replacing.Lock()
	defer c.replacing.Unlock()
	store, err := c.o.Store()
	if err != nil {
		return nil, nil, err
	}
	defer store.Close() //nolint:errcheck // every write was answered
	was, err := c.check(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	done, files, err := pki.Successors(c.o.Dir,
		pki.RotateOptions{From: req.Path, Force: req.Force, Finish: req.Finish})
	if err != nil {
		return nil, nil, err
	}
	content, err := json.Marshal(files)
	if err != nil {
		return nil, nil, err
	}
	r := &replicated.Record{From: c.running, Replaced: done.Replaced}
	err = c.document.Replace(ctx, store, was.Revision, r, content)
	if errors.Is(err, replicated.ErrChanged) {
		err = &problem.Precondition{What: "certificate authorities",
			Err: errors.New("another server has replaced them at the same time"), Fix: "restart a4s on all servers"}
	}
	if err != nil {
		return nil, nil, err
	}
	if err := c.fetch(ctx, store, r); err != nil {
		return nil, nil, fmt.Errorf("the new certificate authorities are in the datastore, "+
			"but not yet on this server, which tries again: %w", err)
	}
	out := &joinapi.CAsResponse{Replaced: done.Replaced}
	for _, m := range c.o.Cluster.Members() {
		out.Servers = append(out.Servers, m.Name)
	}
	slices.Sort(out.Servers)
	if c.o.Cluster.Several {
		out.Missing, err = c.wait(ctx, store, r)
	}
	return out, files, err
}

// wait names the servers that have not fetched r in time.
func (c *Controller) wait(ctx context.Context, store replicated.Store, r *replicated.Record) ([]string, error) {
	missing := func(ctx context.Context) ([]string, error) {
		return c.document.Missing(ctx, store, func(have report) bool {
			return have.Next == r.Hash || have.Running == r.Hash
		})
	}
	names, err := replicated.Wait(ctx, missing,
		func(missing []string, waited time.Duration) (time.Duration, bool, error) {
			return fetchPoll, len(missing) == 0 || waited > fetchTimeout, nil
		})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// check refuses while not all servers run with the CAs of this one, and returns
// the record of the datastore.
func (c *Controller) check(ctx context.Context, store replicated.Store) (*replicated.Record, error) {
	// Too few of them are the reason why the datastore does not answer.
	if err := c.reachAll(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	was, _, err := c.document.Load(ctx, store)
	if err != nil && !errors.Is(err, replicated.ErrNone) {
		return nil, err
	}
	members, err := c.document.MemberReports(ctx, store)
	if err != nil {
		return nil, err
	}
	if was.From == c.running {
		return nil, unfinished(was, members, c.o.Cluster.Name)
	}
	var wrong []string
	for _, m := range members {
		switch have := m.Report; {
		case m.Name == c.o.Cluster.Name:
		case have == nil:
			wrong = append(wrong,
				m.Name+" does not say which CAs it works with: it is starting, or its version cannot take new ones")
		case have.Running != c.running && have.Next == c.running:
			wrong = append(wrong, m.Name+" has the CAs of this server, but was not restarted since")
		case have.Running != c.running:
			wrong = append(wrong, m.Name+" works with other CAs than this server")
		}
	}
	return was, refuse(wrong)
}

// reachAll refuses while a server does not answer or has not joined yet.
func (c *Controller) reachAll(ctx context.Context) error {
	if _, err := c.o.Cluster.Self(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	members := c.o.Cluster.Members()
	wrong := make([]string, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() {
			switch {
			case m.Name == c.o.Cluster.Name:
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
		Fix: "CAs are replaced while all servers run with the same ones: start or restart those; " +
			"one that is gone for good is removed with a4s etcd-member remove"}
}

// unfinished refuses a replacement before all servers have taken the last one.
func unfinished(r *replicated.Record, members []replicated.MemberReport[report], self string) error {
	var restart, missing []string
	for _, m := range members {
		var have report
		if m.Report != nil {
			have = *m.Report
		}
		switch {
		case have.Running == r.Hash:
		case have.Next == r.Hash || m.Name == self:
			restart = append(restart, m.Name)
		default:
			missing = append(missing, m.Name)
		}
	}
	slices.Sort(restart)
	slices.Sort(missing)
	text, fix := "new ones wait for the restart of "+strings.Join(restart, ", "),
		"restart a4s on each of these servers"
	if len(missing) > 0 {
		text += "; not yet fetched by " + strings.Join(missing, ", ")
		fix += ", and on those that have not fetched them when they run and have"
	}
	return &problem.Precondition{What: "certificate authorities", Err: errors.New(text), Fix: fix}
}
