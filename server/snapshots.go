package server

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
	"github.com/a4s-io/a4s/server/datastore/snapshots/bucketof"
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
	store, err := bucketof.Settings(&cfg.EtcdS3, func() (corev1.CoreV1Interface, error) {
		return corev1.NewForConfig(s.files.restConfig(s.files.pki.Supervisor))
	})
	if err != nil {
		return err
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
