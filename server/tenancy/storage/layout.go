package storage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
)

// LayoutOf is how the keys of a resource are built, as its key function shows.
func LayoutOf(
	resource schema.GroupResource, keyFunc func(runtime.Object) (string, error), newFunc func() runtime.Object,
) (space.Layout, error) {
	return layoutOf(resource, keyFunc, newFunc)
}
