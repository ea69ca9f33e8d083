package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// Disk is what a data directory says of the cluster that it belongs to.
type Disk struct {
	// Self and Cluster are the IDs of the member and of its cluster.
	Self, Cluster uint64
	// Members are all that the member knew when it last wrote.
	Members []Member
	// Removed says that the member saw that it was removed.
	Removed bool
}

// Clustered says whether the member has, or may have, others beside it.
func (d *Disk) Clustered() bool {
	return d != nil && slices.ContainsFunc(d.Members, func(m Member) bool { return !m.loopback() })
}

// Others are the members besides the own one.
func (d *Disk) Others() []Member {
	return slices.DeleteFunc(slices.Clone(d.Members), func(m Member) bool { return m.ID == d.Self })
}

// ReadDisk reads a data directory that no process has open. It is nil if there
// is none, or one in which no member has started yet.
func ReadDisk(dir string) (*Disk, error) {
	if !wal.Exist(filepath.Join(dir, "member", "wal")) {
		return nil, nil
	}
	d := &Disk{}
	if err := d.readIdentity(filepath.Join(dir, "member", "wal")); err != nil {
		return nil, fmt.Errorf("reading who the member is: %w", err)
	}
	if err := d.readMembers(filepath.Join(dir, "member", "snap", "db")); err != nil {
		return nil, fmt.Errorf("reading the members: %w", err)
	}
	return d, nil
}

// readIdentity reads the first records of a segment of the write-ahead log:
// each repeats the IDs.
func (d *Disk) readIdentity(dir string) (err error) {
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(segments) == 0 {
		return errors.Join(err, errors.New("there is no write-ahead log"))
	}
	f, err := os.Open(slices.Max(segments))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	decoder := wal.NewDecoderAdvanced(true, fileutil.NewFileReader(f))
	for {
		rec := &walpb.Record{}
		if err := decoder.Decode(rec); err != nil {
			return err
		}
		switch rec.GetType() {
		case wal.CrcType:
			// What follows is summed up from there: segments after the first go on
			// with the sum of the one before.
			decoder.UpdateCRC(rec.GetCrc())
		case wal.MetadataType:
			var m pb.Metadata
			if err := proto.Unmarshal(rec.GetData(), &m); err != nil {
				return err
			}
			d.Self, d.Cluster = m.GetNodeID(), m.GetClusterID()
			return nil
		default:
			return errors.New("the write-ahead log does not begin with the member's identity")
		}
	}
}

func (d *Disk) readMembers(path string) (err error) {
	// See checkBackend.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte("members")); b != nil {
			if err := b.ForEach(func(_, v []byte) error {
				m := &membership.Member{}
				if err := json.Unmarshal(v, m); err != nil {
					return err
				}
				d.Members = append(d.Members, fromMembership(m))
				return nil
			}); err != nil {
				return err
			}
		}
		if b := tx.Bucket([]byte("members_removed")); b != nil {
			d.Removed = b.Get([]byte(strconv.FormatUint(d.Self, 16))) != nil
		}
		return nil
	})
}
