package component

import "context"

// Together runs steps of the start at the same time. When one fails, the others
// are told to end, and it is the one that is reported. The context of steps that
// succeed does not end: what they leave running in the background has it.
func Together(ctx context.Context, steps ...func(context.Context) error) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(parent)
	context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })
	errs := make(chan error, len(steps))
	for _, step := range steps {
		go func() {
			err := step(ctx)
			if err != nil {
				cancel(err)
			}
			errs <- err
		}()
	}
	failed := false
	for range steps {
		failed = <-errs != nil || failed
	}
	if failed {
		return context.Cause(ctx)
	}
	return nil
}
