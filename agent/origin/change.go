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
