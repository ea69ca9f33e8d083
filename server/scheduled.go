package server

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// startSnapshots saves the control plane on a schedule, unless that is turned
// off.
func (p *Plan) startSnapshots(ctx context.Context, group *component.Group) error {
	if p.cfg.EtcdDisableSnapshots || p.endpoint.Kind != dsn.Embedded {
		return nil
	}
	schedule, err := cron.ParseStandard(p.cfg.EtcdSnapshotScheduleCron)
	if err != nil {
		return fmt.Errorf("--etcd-snapshot-schedule-cron: %w", err)
	}
	var store *archive.Bucket
	if p.cfg.EtcdS3.Enabled {
		if store, err = archive.NewBucket(&p.cfg.EtcdS3); err != nil {
			return err
		}
	}
	group.Start(ctx, snapshots.Scheduled(snapshots.Options{
		ServerDir: p.dir,
		Dir:       archive.Dir(p.cfg.EtcdSnapshotDir),
		Name:      p.cfg.EtcdSnapshotName,
		Node:      p.cfg.Agent.NodeName,
		Compress:  p.cfg.EtcdSnapshotCompress,
		URL:       p.store.Endpoint().URLs[0],
		// What etcd's client says of a snapshot is in the errors, too.
		Zap:       zap.NewNop(),
		Store:     store,
		StoreKeep: p.cfg.EtcdS3.Retention,
		Observe:   p.health.snapshotTaken,
	}, schedule, p.cfg.EtcdSnapshotRetention, logrus.WithField("component", "snapshots")))
	return nil
}
