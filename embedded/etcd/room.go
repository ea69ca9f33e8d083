package etcd

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

const (
	// roomEvery is how often a member looks at its room.
	roomEvery = 2 * time.Second
	// shrinkRest and compactRest are the least times between two
	// defragmentations, and between two compactions, of a member that can still
	// be written to.
	shrinkRest, compactRest = time.Minute, 10 * time.Second
	// compactTimeout bounds a compaction.
	compactTimeout = time.Minute

	// Percent of the quota. From tightPercent on, pages that hold nothing are
	// given back if they are wastedPercent; from scarcePercent on, superseded
	// versions are dropped at once. A member that was full takes writes again
	// below roomyPercent.
	tightPercent, wastedPercent, scarcePercent, roomyPercent = 80, 20, 85, 90
)

// Room is how much of its quota a member takes.
type Room struct {
	// Size is that of the file, by which etcd judges; InUse is what of it holds
	// something. Quota is the most that the file may have, 0 for no bound.
	Size, InUse, Quota int64
	// Full members, and those of whose cluster one is, refuse all writes but
	// deletions.
	Full bool
}

// Percent is how much of the quota is taken, 0 without one.
func (r Room) Percent() int64 {
	if r.Quota <= 0 {
		return 0
	}
	return int64(float64(r.Size) / float64(r.Quota) * 100)
}

// Room is that of the running member, the zero Room if there is none.
func (s *Server) Room() Room {
	e := s.running.Load()
	if e == nil {
		return Room{}
	}
	return s.roomOf(e.Server)
}

func (s *Server) roomOf(e *etcdserver.EtcdServer) Room {
	backend := e.Backend()
	r := Room{Size: backend.Size(), InUse: backend.SizeInUse(), Quota: s.cfg.QuotaBackendBytes,
		Full: len(noSpace(e)) > 0}
	switch {
	case r.Quota == 0:
		r.Quota = storage.DefaultQuotaBytes
	case r.Quota < 0:
		r.Quota = 0
	}
	return r
}

// noSpace are the alarms of members without room.
func noSpace(e *etcdserver.EtcdServer) []*pb.AlarmMember {
	var out []*pb.AlarmMember
	for _, a := range e.Alarms() {
		if a.Alarm == pb.AlarmType_NOSPACE {
			out = append(out, a)
		}
	}
	return out
}

// keeper keeps a member writable. etcd itself, once it is full, stays so until
// somebody compacts it, defragments every member and takes the alarm back; and
// the API server, which compacts otherwise, has to write for that.
type keeper struct {
	*Server
	etcd                  *etcdserver.EtcdServer
	compacted             int64 // up to this revision
	compactedAt, shrunkAt time.Time
}

// keepRoom begins to look after the room of a member. The returned function ends
// that, and waits until it has ended.
func (s *Server) keepRoom(ctx context.Context, e *embed.Etcd) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	k := &keeper{Server: s, etcd: e.Server}
	go func() {
		defer close(done)
		tick := time.NewTicker(roomEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-e.Server.StoppingNotify():
				return
			case <-tick.C:
			}
			if err := k.look(ctx); err != nil && ctx.Err() == nil {
				s.opts.Log.WithError(err).Warn("Making room in the datastore")
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// look does what the room asks for.
func (k *keeper) look(ctx context.Context) error {
	r := k.roomOf(k.etcd)
	if r.Quota == 0 || !r.Full && r.Percent() < tightPercent {
		return nil
	}
	part := func(percent int64) int64 { return r.Quota / 100 * percent }
	if r.Full || r.Percent() >= scarcePercent && time.Since(k.compactedAt) >= compactRest {
		if err := k.compact(ctx); err != nil {
			return err
		}
		r = k.roomOf(k.etcd)
	}
	wasted := r.Size-r.InUse >= part(wastedPercent) && time.Since(k.shrunkAt) >= shrinkRest
	if wasted || r.Full && r.Size >= part(roomyPercent) && r.InUse < part(roomyPercent) {
		k.opts.Log.WithField("bytes", r.Size).WithField("used", r.InUse).
			Info("Shrinking the datastore's file, which is almost full; requests wait meanwhile")
		if err := k.etcd.Backend().Defrag(); err != nil {
			return err
		}
		k.shrunkAt = time.Now()
		r = k.roomOf(k.etcd)
	}
	if !r.Full || r.Size >= part(roomyPercent) {
		return nil
	}
	for _, a := range noSpace(k.etcd) {
		if a.MemberID != uint64(k.etcd.MemberID()) {
			continue // that member knows when it has room
		}
		if _, err := k.etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID,
			Alarm: a.Alarm}); err != nil {
			return err
		}
		k.opts.Log.WithField("bytes", r.Size).Info("The datastore has room again and takes writes")
	}
	return nil
}

// compact drops all superseded versions. Whoever reads old ones, or watches from
// one, has to list anew, which clients do by themselves.
func (k *keeper) compact(ctx context.Context) error {
	revision := k.etcd.KV().Rev()
	if revision > k.compacted && k.etcd.Leader() == k.etcd.MemberID() {
		ctx, cancel := context.WithTimeout(ctx, compactTimeout)
		defer cancel()
		_, err := k.etcd.Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
		if err != nil && !errors.Is(err, mvcc.ErrCompacted) {
			return err
		}
		k.compacted, k.compactedAt = revision, time.Now()
	}
	k.etcd.Backend().ForceCommit() // what is in use is as of the last commit
	return nil
}
