package vm

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/a4s-io/a4s/agent/vm/guest"
)

// TestSizesEnd with what they are for, also without a terminal: who attaches ranges over them.
func TestSizesEnd(t *testing.T) {
	for name, terminal := range map[string]bool{"a terminal": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var from chan remotecommand.TerminalSize
				if terminal {
					from = make(chan remotecommand.TerminalSize, 1)
				}
				ctx, cancel := context.WithCancel(t.Context())
				to := sizes(ctx, from)
				if from != nil {
					from <- remotecommand.TerminalSize{Width: 80, Height: 24}
					if got := <-to; got != (guest.TerminalSize{Width: 80, Height: 24}) {
						t.Errorf("the size is %v", got)
					}
				}
				cancel()
				if to == nil {
					t.Fatal("who ranges over them waits for ever")
				}
				if _, ok := <-to; ok {
					t.Error("there is a size")
				}
			})
		})
	}
}
