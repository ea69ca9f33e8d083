package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

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
func (p *Plan) beginRelease(ctx context.Context, first bool) error {
	present := !first
	if p.endpoint.Kind == dsn.Embedded {
		present = etcd.HasData(p.etcdDir())
	}
	own := release.Own()
	return release.Begin(p.dir, own, present, func(last release.Record) (string, error) {
		path, err := p.saveData(ctx, last)
		switch {
		case err != nil:
			return "", fmt.Errorf("saving the data of %s before %s uses them: %w", last, own, err)
		case path == "":
			p.log.Warnf("%s begins with data of %s, which were not saved: only a copy of yours leads back", own, last)
		default:
			p.log.Infof("%s begins with data of %s, which are saved in %s", own, last, path)
		}
		return path, nil
	})
}

// saveData returns where it put the data, "" if they are somewhere else or the
// operator wants no snapshots.
func (p *Plan) saveData(ctx context.Context, last release.Record) (string, error) {
	switch store := p.store.(type) {
	case etcdStore:
		if p.cfg.EtcdDisableSnapshots {
			return "", nil
		}
		e, err := snapshots.SaveStopped(snapshots.Options{
			ServerDir: p.dir, Dir: archive.Dir(p.cfg.EtcdSnapshotDir), Name: beforeUpgrade, Node: p.cfg.Agent.NodeName, Compress: p.cfg.EtcdSnapshotCompress,
		}, last)
		if err != nil {
			return "", err
		}
		return e.Path, nil
	case kineStore:
		// Not with the name of the database in front, as what belongs to it has.
		dir, name := filepath.Split(p.endpoint.Path)
		path := fmt.Sprintf("%sbefore-%s-%d-%s", dir, release.Own().Kubernetes, time.Now().Unix(), name)
		if copied, err := store.CopySQLite(ctx, path); err != nil || !copied {
			return "", err
		}
		return path, nil
	}
	return "", nil
}
