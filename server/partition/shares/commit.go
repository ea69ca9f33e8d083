package shares

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// fullError says why a pod does not fit.
type fullError struct{ why string }

func (e *fullError) Error() string { return "other partitions took the room: " + e.why }

var errUnknownPartition = errors.New("its resource partition is not known")

// Stats counts what commits cost.
type Stats struct {
	// Writes are requests that write, Conflicts those that another partition was faster
	// than, Refused the pods that did not fit any more.
	Writes, Conflicts, Refused atomic.Int64
	// Commits and Spent are of pods.
	Commits, Spent atomic.Int64
}

func (s *Stats) committed(took time.Duration) {
	s.Commits.Add(1)
	s.Spent.Add(int64(took))
}

// commit writes what this partition has on a node. With a pod that is to be bound it does
// so only if everything fits. The binding is the second write: whose process ends before it
// leaves a share that is too high, which the accountant of the next one lowers. So room is lost
// for a moment, and never given out twice.
func (s *shares) commit(ctx context.Context, name string, pod *podShare) error {
	lock := s.lock(name)
	lock.Lock()
	defer lock.Unlock()
	node, err := s.nodes.Get(name)
	if err != nil {
		return err
	}
	rp := s.partitionOf(node)
	if rp == nil {
		return errUnknownPartition
	}
	for {
		own, known := s.sum(name, pod), rp.allocation(name)
		if s.lingers.Load() {
			own.Raise(known.Of(s.o.Partition))
		}
		if pod != nil {
			if known != nil && slices.ContainsFunc(known.Awaited, func(p string) bool { return p != s.o.Partition }) {
				return fmt.Errorf("partitions %v have to say first what they have there", known.Awaited)
			}
			others := known.Others(s.o.Partition)
			if why := allocations.Full(pod.share, own, others, node.Status.Allocatable); why != "" {
				return &fullError{why}
			}
		}
		awaited := known != nil && slices.Contains(known.Awaited, s.o.Partition)
		if known.Of(s.o.Partition).Equal(own) && !awaited {
			if !rp.isUnsure(name) {
				s.count(pod)
				return nil
			}
			// A write that lowered the share was not answered. If it was done, or is done
			// later, others see room here that is taken: so this has to be a write, too, of
			// something else. The accountant puts it right.
			own.Pods++
			rp.account(name)
		}
		next := &allocations.NodeAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if known != nil {
			next = known.DeepCopy()
		}
		next.Set(own)
		// The node has the same UID there. When it goes, the allocation goes.
		next.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}
		err := rp.write(ctx, next, known == nil)
		switch {
		case err == nil:
			s.count(pod)
			s.tell(name)
			return nil
		case !judged(err):
			return err
		}
		s.o.Stats.Conflicts.Add(1)
		if err := rp.read(ctx, name); err != nil {
			return err
		}
		s.tell(name)
	}
}

// count makes a pod part of what the partition has.
func (s *shares) count(pod *podShare) {
	if pod == nil {
		return
	}
	s.mu.Lock()
	pod.counted = true
	s.mu.Unlock()
}

// account has the accountant look at a node soon.
func (s *shares) account(name string) {
	select {
	case <-s.started:
	default:
		return // all are looked at when the resource partitions are known
	}
	node, err := s.nodes.Get(name)
	if err != nil {
		return // its allocation goes with it
	}
	if rp := s.partitionOf(node); rp != nil {
		rp.account(name)
	}
}
