package listsize

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Size is what is noted of a list: the number of its items, and the length of all their
// names and namespaces.
type Size struct {
	mu           sync.Mutex
	items, names int
	noted        bool
}

type key struct{}

// With is a context in which the size of a list can be noted.
func With(ctx context.Context) (context.Context, *Size) {
	s := &Size{}
	return context.WithValue(ctx, key{}, s), s
}

// Note notes the size of the list that answers the request, if anybody wants to know.
func Note(ctx context.Context, list runtime.Object) {
	s, ok := ctx.Value(key{}).(*Size)
	if !ok {
		return
	}
	items, names := 0, 0
	if meta.EachListItem(list, func(obj runtime.Object) error {
		accessor, err := meta.Accessor(obj)
		if err == nil {
			items, names = items+1, names+len(accessor.GetName())+len(accessor.GetNamespace())
		}
		return err
	}) != nil {
		return // a list of something else
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items, s.names, s.noted = items, names, true
}

// Get is what was noted last.
func (s *Size) Get() (items, names int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items, s.names, s.noted
}
