package server

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// startSnapshots saves the control plane on a schedule, unless that is turned
// off.
func startSnapshots(ctx context.Context, group *component.Group, cfg *config.Server, s *store, h *serverHealth) error {
	if cfg.EtcdDisableSnapshots || cfg.DisableEtcd || s.endpoint.Kind != dsn.Embedded {
		return nil
	}
	schedule, err := cron.ParseStandard(cfg.EtcdSnapshotScheduleCron)
	if err != nil {
		return fmt.Errorf("--etcd-snapshot-schedule-cron: %w", err)
	}
	var store *archive.Bucket
	if cfg.EtcdS3.Enabled {
		if store, err = archive.NewBucket(&cfg.EtcdS3); err != nil {
			return err
		}
	}
	group.Start(ctx, snapshots.Scheduled(snapshots.Options{
		ServerDir: s.files.dir,
		Dir:       archive.Dir(cfg.EtcdSnapshotDir),
		Name:      cfg.EtcdSnapshotName,
		Node:      cfg.Agent.NodeName,
		Compress:  cfg.EtcdSnapshotCompress,
		URL:       s.Endpoint().URLs[0],
		// What etcd's client says of a snapshot is in the errors, too.
		Zap:       zap.NewNop(),
		Store:     store,
		StoreKeep: cfg.EtcdS3.Retention,
		Observe:   h.snapshotTaken,
	}, schedule, cfg.EtcdSnapshotRetention, logrus.WithField("component", "snapshots")))
	return nil
}
