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
	"github.com/a4s-io/a4s/server/datastore/release"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// DatabaseDir is where the datastore is, below the server directory. All the
// rest of that directory is part of a snapshot as it is.
const DatabaseDir = "db"

// checkTimeout bounds the look at the store when a server starts.
const checkTimeout = time.Minute

// saveTimeout bounds one save, which reads and writes the datastore.
const saveTimeout = 30 * time.Minute

// Options says what to save and where to.
type Options struct {
	// ServerDir is <data-dir>/server.
	ServerDir string
	// Dir is where snapshots go.
	Dir archive.Dir
	// Name begins the names of snapshots, Node follows.
	Name, Node string
	Compress   bool
	// URL is that of the datastore's member on this machine.
	URL string
	Zap *zap.Logger
	// Store is where scheduled snapshots are copied to, and StoreKeep how many
	// are kept there; optional.
	Store     archive.Open
	StoreKeep int
	// Observe is told how each scheduled snapshot ended; optional.
	Observe func(took time.Duration, err error)
}

// Save takes one snapshot of a running server.
func Save(ctx context.Context, o Options) (*archive.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	files := pki.FilesIn(filepath.Join(o.ServerDir, "tls"))
	return save(o, release.Own(), func(db string) (etcd.Facts, error) {
		return etcd.SaveSnapshot(ctx, etcd.Client{URL: o.URL, CAFile: files.EtcdServerCA.Cert,
			CertFile: files.EtcdClient.Cert, KeyFile: files.EtcdClient.Key}, db, o.Zap)
	})
}

// SaveStopped takes one snapshot of a server that does not run, as the release that
// has used it last has left it. URL and Zap are not used.
func SaveStopped(o Options, last release.Record) (*archive.Entry, error) {
	return save(o, last, func(db string) (etcd.Facts, error) {
		return etcd.CopySnapshot(filepath.Join(o.ServerDir, DatabaseDir, "etcd"), db)
	})
}

// save puts together what take gets from the datastore and the files of the server.
func save(o Options, of release.Record, take func(db string) (etcd.Facts, error)) (*archive.Entry, error) {
	files := pki.FilesIn(filepath.Join(o.ServerDir, "tls"))
	return o.Dir.Save(archive.Request{Name: o.Name, Node: o.Node, Compress: o.Compress,
		Fill: func(dir string) (*archive.Manifest, []archive.Source, error) {
			db := filepath.Join(dir, archive.Database)
			facts, err := take(db)
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
			m := &archive.Manifest{Cluster: cluster, Version: of.Version, Kubernetes: of.Kubernetes,
				Revision: facts.Revision, Records: facts.Records}
			return m, append([]archive.Source{{Path: archive.Database, Mode: 0o600, From: db}}, sources...), nil
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
func serverFiles(dir string) ([]archive.Source, error) {
	var out []archive.Source
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
		out = append(out,
			archive.Source{Path: archive.ServerPrefix + filepath.ToSlash(rel), Mode: info.Mode().Perm(), Data: data})
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
		checkStore(ctx, o.Store, log)
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
			started := time.Now()
			err := saveAndPrune(ctx, o, keep, log)
			if o.Observe != nil && ctx.Err() == nil {
				o.Observe(time.Since(started), err)
			}
			var notCopied *archive.NotCopiedError
			switch {
			case err == nil || ctx.Err() != nil:
			case errors.As(err, &notCopied):
				log.WithError(err).Error("Copying the scheduled snapshot to S3 storage failed")
			default:
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
	log.Infof("Saved snapshot %s (%d bytes, revision %d) after %s", e.Path, e.Size, e.Manifest.Revision,
		time.Since(started).Round(time.Millisecond))
	// Room is made on this machine whatever becomes of the copy.
	err = pruneLocal(o, keep, log)
	if o.Store == nil {
		return err
	}
	return errors.Join(err, copyAndPrune(ctx, o, e, log))
}

func pruneLocal(o Options, keep int, log *logrus.Entry) error {
	if keep < 1 {
		return nil
	}
	pruned, err := o.Dir.Prune(archive.Prefix(o.Name, o.Node), keep)
	for _, name := range pruned {
		log.Infof("Deleted snapshot %s: %d newer ones are kept", name, keep)
	}
	return err
}

func copyAndPrune(ctx context.Context, o Options, e *archive.Entry, log *logrus.Entry) error {
	started := time.Now()
	store, url, err := archive.Upload(ctx, o.Store, e.Path)
	if err != nil {
		return err
	}
	log.Infof("Copied snapshot to %s after %s", url, time.Since(started).Round(time.Millisecond))
	if o.StoreKeep < 1 {
		return nil
	}
	pruned, err := store.Prune(ctx, archive.Prefix(o.Name, o.Node), o.StoreKeep)
	for _, name := range pruned {
		log.Infof("Deleted snapshot %s: %d newer ones are kept", store.URL(name), o.StoreKeep)
	}
	return err
}

// checkStore warns of settings that would fail at midnight only.
func checkStore(ctx context.Context, open archive.Open, log *logrus.Entry) {
	if open == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	store, err := open(ctx)
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.WithError(err).Warn("S3 storage for snapshots does not work now; it is tried again with the next snapshot")
	}
}
