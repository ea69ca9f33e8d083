package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"google.golang.org/grpc/codes"
)

const (
	// removeTimeout bounds a removal: less than a command waits for it.
	removeTimeout = 12 * time.Second
	// removeTry bounds one try. What was proposed to a leader that is gone is lost, and
	// etcd would wait longer for it than the removal may take.
	removeTry = 3 * time.Second
)

// repeatRemoval removes a member, by tries that may be repeated. etcd refuses when too
// few of the others are healthy, which they are some seconds after they were reached,
// and does not answer while they have no leader; both is waited for.
func repeatRemoval(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		bounded, end := context.WithTimeout(ctx, removeTry)
		err := try(bounded)
		end()
		switch {
		case err == nil, isOneOf(err, rpctypes.ErrMemberNotFound, membership.ErrIDNotFound, membership.ErrIDRemoved):
			return nil
		case !isTemporary(err):
			return fmt.Errorf("removing a member of the datastore: %w", err)
		}
		if pause(ctx, retryPause) == nil {
			continue
		}
		if isOneOf(err, rpctypes.ErrUnhealthy, etcderrors.ErrUnhealthy) {
			return fmt.Errorf("removing a member of the datastore: too few of the others are healthy to go on "+
				"without it: %w", err)
		}
		return fmt.Errorf("removing a member of the datastore: most of the others do not answer: %w", err)
	}
}

// isTemporary says whether the cause of an error can go away by itself, in a cluster whose
// members come and go.
func isTemporary(err error) bool {
	if answer, ok := errors.AsType[rpctypes.EtcdError](err); ok && answer.Code() == codes.Unavailable {
		return true
	}
	return isOneOf(err, context.DeadlineExceeded, rpctypes.ErrNotLeader,
		etcderrors.ErrUnhealthy, etcderrors.ErrNoLeader, etcderrors.ErrNotLeader, etcderrors.ErrLeaderChanged,
		etcderrors.ErrTimeout, etcderrors.ErrTimeoutDueToLeaderFail, etcderrors.ErrTimeoutDueToConnectionLost)
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
