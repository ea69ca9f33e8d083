package origin

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// change is one step between an answer and the kubelet.
type change interface {
	// object changes obj, one object or a list, in place and reports whether it
	// did.
	object(ctx context.Context, obj runtime.Object) (changed bool, err error)
	// event is object for an event of a watch. omit is true if the event is to
	// be left out.
	event(ctx context.Context, kind watch.EventType, obj runtime.Object) (changed, omit bool, err error)
}

// chain applies changes in their order. An event that one leaves out does not
// reach the next.
type chain []change

func (c chain) object(ctx context.Context, obj runtime.Object) (changed bool, err error) {
	for _, step := range c {
		now, err := step.object(ctx, obj)
		if err != nil {
			return false, err
		}
		changed = changed || now
	}
	return changed, nil
}

func (c chain) event(ctx context.Context, kind watch.EventType, obj runtime.Object) (changed, omit bool, err error) {
	for _, step := range c {
		now, omit, err := step.event(ctx, kind, obj)
		if omit || err != nil {
			return false, omit, err
		}
		changed = changed || now
	}
	return changed, false, nil
}
