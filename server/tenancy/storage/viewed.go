package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// viewedWatch shows the objects of a watch as somebody sees them.
type viewedWatch struct {
	watch.Interface
	events chan watch.Event
	done   <-chan struct{}
	show   func(runtime.Object) runtime.Object
}

// viewed has show make what is seen of each object. It must not change what it
// is given: the cache shares it with other watches.
func viewed(ctx context.Context, inner watch.Interface, show func(runtime.Object) runtime.Object) watch.Interface {
	w := &viewedWatch{Interface: inner, events: make(chan watch.Event), done: ctx.Done(), show: show}
	go w.run()
	return w
}

// ResultChan implements watch.Interface.
func (w *viewedWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *viewedWatch) run() {
	defer close(w.events)
	for event := range w.Interface.ResultChan() {
		select {
		case w.events <- shown(event, w.show):
		case <-w.done:
			w.Interface.Stop()
			return
		}
	}
}

// shown is an event with its object as show makes it.
func shown(event watch.Event, show func(runtime.Object) runtime.Object) watch.Event {
	if event.Type == watch.Bookmark || event.Type == watch.Error {
		return event
	}
	if shared, ok := event.Object.(runtime.CacheableObject); ok {
		event.Object = shared.GetObject()
	}
	event.Object = show(event.Object)
	return event
}
