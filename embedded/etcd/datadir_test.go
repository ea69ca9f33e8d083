package etcd

import (
	"path/filepath"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// TestIdentityInEverySegment: the write-ahead log begins a new segment after 64 MB,
// and who the member is stands in that, too.
func TestIdentityInEverySegment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wal")
	metadata, err := proto.Marshal(&pb.Metadata{NodeID: proto.Uint64(7), ClusterID: proto.Uint64(8)})
	if err != nil {
		t.Fatal(err)
	}
	log, err := wal.Create(zap.NewNop(), dir, metadata)
	if err != nil {
		t.Fatal(err)
	}
	const entry = 4 << 20
	for i := uint64(1); i*entry <= 3*uint64(wal.SegmentSizeBytes); i++ {
		if err := log.Save(&raftpb.HardState{Term: proto.Uint64(1), Commit: proto.Uint64(i)}, []*raftpb.Entry{
			{Term: proto.Uint64(1), Index: proto.Uint64(i), Data: make([]byte, entry)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if segments, err := filepath.Glob(filepath.Join(dir, "*.wal")); err != nil || len(segments) < 3 {
		t.Fatalf("the log has the segments %q, %v", segments, err)
	}
	d := &Disk{}
	if err := d.readIdentity(dir); err != nil || d.Self != 7 || d.Cluster != 8 {
		t.Errorf("%+v, %v", d, err)
	}
}
