package dns

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/problem"
)

// A stop while nft runs is no reason to use iptables: its rules would stay beside
// those of nftables.
func TestAStopDoesNotTurnToIPTables(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newNoTrack(netip.MustParseAddr("192.0.2.10"), logrus.NewEntry(logrus.New())).ensure(ctx)
	var tried *problem.Precondition
	if !errors.Is(err, context.Canceled) || errors.As(err, &tried) {
		t.Errorf("the error is %v, not %v alone", err, context.Canceled)
	}
}
