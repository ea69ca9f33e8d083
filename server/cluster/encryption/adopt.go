package encryption

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/replicated"
)

// Adopt writes the configuration of the cluster into the file, before
// the API server of this one reads it. With on, Secrets are encrypted from now
// on; where other servers have to read the key first, soon.
//
// What is in the datastore is always enough for the Secrets that are in it, in
// a restored snapshot as well; a file may be older or newer.
func (c *Controller) Adopt(ctx context.Context, on bool) error {
	if c.o.Cluster == nil {
		return Ensure(c.o.Path, on)
	}
	last := ""
	for {
		later, err := c.adopt(ctx, on)
		switch {
		case err == nil && later:
			if err := c.Start(ctx, joinapi.EncryptionEnable); err != nil {
				c.o.Log.WithError(err).Warn("Secrets are not encrypted yet, although --secrets-encryption is set")
			}
			return nil
		case err == nil, ctx.Err() != nil, !transient(err):
			return err
		}
		if text := err.Error(); text != last {
			c.o.Log.Warnf("Waiting for the keys of Secrets: %s", text)
			last = text
		}
		if component.Sleep(ctx, c.pace.retry) != nil {
			return err
		}
	}
}

// adopt says whether encryption is to be turned on by the usual way.
func (c *Controller) adopt(ctx context.Context, on bool) (later bool, err error) {
	l, err := c.openCluster()
	if err != nil {
		return false, err
	}
	defer l.Close() //nolint:errcheck // every write was answered
	several, err := l.others()
	if err != nil {
		return false, err
	}
	s, err := c.agree(ctx, l, several)
	if err != nil {
		return false, err
	}
	if !on || s.stage() != joinapi.EncryptionDisabled {
		return false, nil
	}
	if several {
		return true, nil
	}
	if err := s.turnOn(); err != nil {
		return false, err
	}
	return false, l.replace(ctx, s, s.configuration)
}

// agree returns the configuration that file and datastore have from now on.
func (c *Controller) agree(ctx context.Context, l *clusterStorage, several bool) (*state, error) {
	r, err := l.load(ctx)
	if errors.Is(err, replicated.ErrNone) {
		// A new cluster, or one that another version has made.
		if err := c.mayBegin(ctx, l); err != nil {
			return nil, err
		}
		return c.publish(ctx, l, 0)
	}
	if err != nil {
		return nil, err
	}
	own, damage := os.ReadFile(c.o.Path)
	_, opened := l.Open(r)
	if damage == nil && hash(own) == r.Hash {
		if errors.Is(opened, replicated.ErrSealed) {
			c.o.Log.Warn("The service-account key was replaced: the keys of Secrets in the datastore are " +
				"sealed with the new one")
			return c.publish(ctx, l, r.Revision)
		}
		return l.content(r)
	}
	mine, damage := read(c.o.Path)
	if damage != nil && !errors.Is(damage, fs.ErrNotExist) {
		c.o.Log.WithError(damage).Warn("The file is replaced by what the datastore has")
	}
	var shared *configuration
	s, err := l.content(r)
	switch {
	case err == nil:
		shared = s.configuration
	case !errors.Is(err, replicated.ErrSealed):
		return nil, err
	}
	stored, err := count(ctx, l.store)
	if err != nil {
		return nil, err
	}
	if need := missing(stored, shared); shared != nil &&
		(len(need) == 0 || mine == nil || len(missing(stored, mine)) >= len(need)) {
		c.o.Log.Info("The file with the keys of Secrets is what the datastore has now")
		return s, l.install(s)
	}
	// Only the file is enough for what is stored: another version has changed
	// it, or the service-account key was replaced.
	if !several && mine != nil && len(missing(stored, mine)) == 0 {
		c.o.Log.Warn("The datastore gets the keys of Secrets that the file has")
		return c.publish(ctx, l, r.Revision)
	}
	if shared == nil {
		return nil, &problem.Precondition{What: "keys of Secrets in the datastore", Err: replicated.ErrSealed,
			Fix: "restore server/tls/service.key, which has to be the same on all servers"}
	}
	return nil, &problem.Precondition{What: c.o.Path, Err: fmt.Errorf("only this server has the key %s, "+
		"and Secrets are stored with it", strings.Join(missing(stored, shared), ", ")),
		Fix: "make this server the only one with --cluster-reset, and let the others join it again"}
}

// mayBegin makes the file if there is none, unless Secrets need one that is
// lost: other servers must not take over a new one.
func (c *Controller) mayBegin(ctx context.Context, l *clusterStorage) error {
	_, err := os.Stat(c.o.Path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return Ensure(c.o.Path, false)
	}
	stored, err := count(ctx, l.store)
	if err != nil {
		return err
	}
	if need := missing(stored, nil); len(need) > 0 {
		return damaged(c.o.Path,
			fmt.Errorf("it does not exist, and Secrets are stored with %s", strings.Join(need, ", ")))
	}
	return Ensure(c.o.Path, false)
}

// publish puts the content of the file into the datastore.
func (c *Controller) publish(ctx context.Context, l *clusterStorage, revision int64) (*state, error) {
	data, err := os.ReadFile(c.o.Path)
	if err != nil {
		return nil, err
	}
	if _, err := parse(c.o.Path, data); err != nil {
		return nil, err
	}
	if err := l.put(ctx, data, revision); err != nil {
		return nil, err
	}
	return l.current(ctx)
}

// missing names what Secrets are stored with and c cannot read.
func missing(stored map[string]int, c *configuration) []string {
	var out []string
	for name := range stored {
		if name == plain || name == foreign ||
			c != nil && slices.ContainsFunc(c.keys(), func(k key) bool { return k.Name == name }) {
			continue
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
