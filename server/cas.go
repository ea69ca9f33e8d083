package server

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/cas"
	"github.com/a4s-io/a4s/server/cluster/replicated"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
)

// nextCAs is the file with the CAs of the next start. It is a copy of
// what the datastore has, so it goes with the directory of that, and snapshots
// of the other files do not have it.
func (f *files) nextCAs() string {
	return filepath.Join(f.dir, snapshots.DatabaseDir, "authorities.next")
}

// takeCAs takes the CAs that the last process fetched.
func (f *files) takeCAs(log *logrus.Entry) error {
	backup := filepath.Join(f.cfg.Agent.DataDir,
		"server-tls-before-rotation-"+time.Now().UTC().Format("20060102T150405.000Z"))
	return cas.TakeOver(f.pki.Dir, f.nextCAs(), backup, log)
}

// newCAs returns nil with a datastore that servers cannot share.
func newCAs(f *files, s *store, log *logrus.Entry) (*cas.Controller, error) {
	store, ok := s.etcd()
	if !ok {
		return nil, nil
	}
	return cas.New(cas.Options{
		Dir: f.pki.Dir, Path: f.nextCAs(),
		Cluster: replicatedCluster(f, s, store),
		Reach: func(ctx context.Context, m replicated.Member) error {
			if len(m.URLs) == 0 {
				return errors.New("it has no address")
			}
			to := store.Endpoint()
			to.URLs = m.URLs
			client, err := datastore.Dial(ctx, to)
			if err != nil {
				return err
			}
			defer client.Close() //nolint:errcheck // it was read from only
			_, err = client.Status(ctx, m.URLs[0])
			return err
		},
		Store: func() (replicated.Store, error) { return s.open() },
		Log:   log.WithField("component", cas.Name),
	})
}

// replaceCAs is `a4s certificate rotate-ca` beside a running server.
func replaceCAs(
	ctx context.Context, controller *cas.Controller, tokens *jointoken.ServerTokens, req joinapi.CAsRequest,
) (*joinapi.CAsResponse, error) {
	if controller == nil {
		return nil, &problem.Precondition{What: "certificate authorities",
			Err: errors.New("with this datastore they are replaced on a stopped server"),
			Fix: "stop a4s on this machine and run the command again"}
	}
	if req.Path != "" && !filepath.IsAbs(req.Path) {
		return nil, &problem.Input{Source: "--path", Value: req.Path,
			Want: "an absolute path on the machine of the server"}
	}
	resp, files, err := controller.Replace(ctx, req)
	if err != nil {
		return nil, err
	}
	token := tokens.Server()
	if token.CAHash, err = pki.ServerCAHash(files); err != nil {
		return nil, err
	}
	resp.Token = token.Encode()
	return resp, nil
}
