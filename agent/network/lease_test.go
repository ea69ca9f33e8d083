package network

import (
	"context"
	"errors"
	"testing"

	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
)

// late is a manager that does not know the node's range at first.
type late struct {
	subnet.Manager
	fails int
}

func (l *late) AcquireLease(context.Context, *lease.LeaseAttrs) (*lease.Lease, error) {
	if l.fails--; l.fails >= 0 {
		return nil, errors.New("pod cidr not assigned")
	}
	return &lease.Lease{}, nil
}

func TestLeaseIsAskedForAgain(t *testing.T) {
	if _, err := (guarded{&late{fails: 3}}).AcquireLease(t.Context(), nil); err != nil {
		t.Errorf("a range that came late: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (guarded{&late{fails: 1 << 30}}).AcquireLease(ctx, nil); err == nil {
		t.Error("no error after the end")
	}
}
