package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/snapshot"
	"github.com/a4s-io/a4s/internal/version"
)

// DatabaseDir is where the datastore is, below the server directory. All the
// rest of that directory is part of a snapshot as it is.
const DatabaseDir = "db"

// saveTimeout bounds one save, which reads and writes the datastore.
const saveTimeout = 30 * time.Minute

// Options says what to save and where to.
type Options struct {
	// ServerDir is <data-dir>/server.
	ServerDir string
	// Dir is where snapshots go.
	Dir snapshot.Dir
	// Name begins the names of snapshots, Node follows.
	Name, Node string
	Compress   bool
	// URL is that of the datastore's member on this machine.
	URL string
	Zap *zap.Logger
}

// Save takes one snapshot of a running server.
func Save(ctx context.Context, o Options) (*snapshot.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	files := pki.FilesIn(filepath.Join(o.ServerDir, "tls"))
	return o.Dir.Save(snapshot.Request{Name: o.Name, Node: o.Node, Compress: o.Compress, Fill: func(dir string) (*snapshot.Manifest, []snapshot.Source, error) {
		db := filepath.Join(dir, snapshot.Database)
		facts, err := etcd.SaveSnapshot(ctx, etcd.Client{URL: o.URL, CAFile: files.EtcdServerCA.Cert, CertFile: files.EtcdClient.Cert, KeyFile: files.EtcdClient.Key}, db, o.Zap)
		if err != nil {
			return nil, nil, err
		}
		// The files are read after the datastore: a key that was added
		// meanwhile is one too many, one that is missing would be a loss.
		sources, err := serverFiles(o.ServerDir)
		if err != nil {
			return nil, nil, err
		}
		cluster, err := clusterOf(files)
		if err != nil {
			return nil, nil, err
		}
		m := &snapshot.Manifest{Cluster: cluster, Version: version.Version, Kubernetes: version.Kubernetes, Revision: facts.Revision, Records: facts.Records}
		return m, append([]snapshot.Source{{Path: snapshot.Database, Mode: 0o600, From: db}}, sources...), nil
	}})
}

// clusterOf identifies a cluster by what its join tokens pin.
func clusterOf(files *pki.Files) (string, error) {
	ca, err := os.ReadFile(files.ServerCA.Cert)
	if err != nil {
		return "", fmt.Errorf("reading the server CA: %w", err)
	}
	return pki.HashBundle(ca)
}

// serverFiles are all files of the server directory but the datastore's. They
// are small; in memory they cannot change while they are written.
func serverFiles(dir string) ([]snapshot.Source, error) {
	var out []snapshot.Source
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of a rewrite
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() && rel == DatabaseDir {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		out = append(out, snapshot.Source{Path: snapshot.ServerPrefix + filepath.ToSlash(rel), Mode: info.Mode().Perm(), Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the server directory: %w", err)
	}
	return out, nil
}

// Scheduled returns the component that saves on a schedule and keeps the
// newest of what it saved.
func Scheduled(o Options, schedule cron.Schedule, keep int, log *logrus.Entry) component.Component {
	return component.Component{Name: "snapshots", Run: func(ctx context.Context, ready func()) error {
		ready()
		for {
			next := schedule.Next(time.Now())
			if next.IsZero() {
				log.Warn("The schedule of snapshots has no further time")
				<-ctx.Done()
				return nil
			}
			timer := time.NewTimer(time.Until(next))
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
			}
			// The next one may work: a full disk gets room.
			if err := saveAndPrune(ctx, o, keep, log); err != nil && ctx.Err() == nil {
				log.WithError(err).Error("Taking the scheduled snapshot failed; the ones before it are kept")
			}
		}
	}}
}

func saveAndPrune(ctx context.Context, o Options, keep int, log *logrus.Entry) error {
	started := time.Now()
	e, err := Save(ctx, o)
	if err != nil {
		return err
	}
	log.Infof("Saved snapshot %s (%d bytes, revision %d) after %s", e.Path, e.Size, e.Manifest.Revision, time.Since(started).Round(time.Millisecond))
	if keep < 1 {
		return nil
	}
	pruned, err := o.Dir.Prune(snapshot.Prefix(o.Name, o.Node), keep)
	for _, name := range pruned {
		log.Infof("Deleted snapshot %s: %d newer ones are kept", name, keep)
	}
	return err
}
