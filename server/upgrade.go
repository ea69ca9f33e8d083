package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/server/datastore/release"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// beforeUpgrade begins the names of snapshots that are taken because a newer a4s
// starts. Those on a schedule have other names, so no schedule deletes them.
const beforeUpgrade = "before-upgrade"

// beginRelease saves what an older a4s has left, before this one touches it.
func (s *store) beginRelease(ctx context.Context, first bool, log *logrus.Entry) error {
	present := !first
	if s.endpoint.Kind == dsn.Embedded {
		present = etcd.HasData(etcdDir(s.files.dir))
	}
	own := release.Own()
	return release.Begin(s.files.dir, own, present, func(last release.Record) (string, error) {
		path, err := s.saveData(ctx, last)
		switch {
		case err != nil:
			return "", fmt.Errorf("saving the data of %s before %s uses them: %w", last, own, err)
		case path == "":
			log.Warnf("%s begins with data of %s, which were not saved: only a copy of yours leads back", own, last)
		default:
			log.Infof("%s begins with data of %s, which are saved in %s", own, last, path)
		}
		return path, nil
	})
}

// saveData returns where it put the data, "" if they are somewhere else or the
// operator wants no snapshots.
func (s *store) saveData(ctx context.Context, last release.Record) (string, error) {
	switch store := s.Datastore.(type) {
	case etcdStore:
		if s.cfg.EtcdDisableSnapshots {
			return "", nil
		}
		e, err := snapshots.SaveStopped(snapshots.Options{
			ServerDir: s.files.dir, Dir: archive.Dir(s.cfg.EtcdSnapshotDir), Name: beforeUpgrade,
			Node: s.cfg.Agent.NodeName, Compress: s.cfg.EtcdSnapshotCompress,
		}, last)
		if err != nil {
			return "", err
		}
		return e.Path, nil
	case kineStore:
		// Not with the name of the database in front, as what belongs to it has.
		dir, name := filepath.Split(s.endpoint.Path)
		path := fmt.Sprintf("%sbefore-%s-%d-%s", dir, release.Own().Kubernetes, time.Now().Unix(), name)
		if copied, err := store.CopySQLite(ctx, path); err != nil || !copied {
			return "", err
		}
		return path, nil
	}
	return "", nil
}
