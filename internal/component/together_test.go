package component

import (
	"context"
	"errors"
	"testing"
)

func TestTogetherReportsTheFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err() // a consequence, not a reason
	}
	fails := func(context.Context) error { return broken }
	for name, steps := range map[string][]func(context.Context) error{
		"first": {fails, waits}, "last": {waits, waits, fails},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Together(t.Context(), steps...); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTogetherLeavesWhatItStarted(t *testing.T) {
	var background context.Context
	err := Together(t.Context(),
		func(ctx context.Context) error { background = ctx; return nil },
		func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := background.Err(); err != nil {
		t.Errorf("what a step left running was ended: %v", err)
	}
}
