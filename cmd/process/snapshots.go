package process

import (
	"context"
	"fmt"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// saveSnapshot is `a4s etcd-snapshot save`. It asks the datastore of this
// machine directly, so that it works while the API does not.
func saveSnapshot(ctx context.Context, s *cmd.SnapshotSave) (*archive.Entry, error) {
	if err := preflight.Root("a4s etcd-snapshot save"); err != nil {
		return nil, err
	}
	node, err := instance.ChooseNodeName(s.Node, false, instance.NodeIDFile)
	if err != nil {
		return nil, err
	}
	serverDir := filepath.Join(s.DataDir, "server")
	if err := datastore.OnlyEmbedded(serverDir); err != nil {
		return nil, err
	}
	return snapshots.Save(ctx, snapshots.Options{
		ServerDir: serverDir,
		Dir:       s.Dir,
		Name:      s.Name,
		Node:      node,
		Compress:  s.Compress,
		URL:       fmt.Sprintf("https://127.0.0.1:%d", etcd.ClientPort),
		Zap:       zap.NewNop(),
	})
}

// restoreSnapshot is `a4s etcd-snapshot restore`. It holds the lock that a
// server takes at its start.
func restoreSnapshot(_ context.Context, r *cmd.SnapshotRestore) (_ *cmd.SnapshotRestored, err error) {
	if err := preflight.Root("a4s etcd-snapshot restore"); err != nil {
		return nil, err
	}
	lock, err := instance.Acquire(instance.RunDir, r.DataDir)
	if err != nil {
		return nil, err
	}
	defer lock.Release() //nolint:errcheck // the lock ends with the process
	done, err := snapshots.Restore(snapshots.RestoreOptions{
		Path: r.Path, DataDir: r.DataDir, Member: etcd.LocalMember, OtherCluster: r.OtherCluster, Zap: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return &cmd.SnapshotRestored{Manifest: done.Manifest, Kept: done.Kept}, nil
}
