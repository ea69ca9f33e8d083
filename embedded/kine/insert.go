package kine

import (
	"context"
	"fmt"
	"reflect"

	"github.com/k3s-io/kine/pkg/logstructured"
	kineserver "github.com/k3s-io/kine/pkg/server"
)

// insertion is what became of the last write of a request.
type insertion struct {
	revision int64
	err      error
}

type insertionKey struct{}

// outspoken is a log that tells the request what became of its write.
//
// kine 0.17 takes each failure to write a new key for a key that was there before.
// If the database comes back just then and has no such key, kine says that it was
// created. Of a key that is created again after its deletion, kine returns a
// revision from its memory, which can be that of another write.
type outspoken struct{ logstructured.Log }

// Append implements logstructured.Log.
func (o outspoken) Append(ctx context.Context, event *kineserver.Event) (int64, error) {
	revision, err := o.Log.Append(ctx, event)
	if i, ok := ctx.Value(insertionKey{}).(*insertion); ok {
		*i = insertion{revision, err}
	}
	return revision, err
}

// makeOutspoken puts an outspoken log below a backend that has not started yet. A
// backend has no exported way to its log.
func makeOutspoken(b kineserver.Backend) error {
	const name = "log"
	l, ok := b.(*logstructured.LogStructured)
	if !ok {
		return fmt.Errorf("kine has a backend of type %T, not %T", b, l)
	}
	field := reflect.ValueOf(l).Elem().FieldByName(name)
	if want := reflect.TypeFor[logstructured.Log](); !field.IsValid() || field.Type() != want {
		return fmt.Errorf("kine's %T has no field %s of type %s", l, name, want)
	}
	log := (*logstructured.Log)(field.Addr().UnsafePointer())
	*log = outspoken{*log}
	return nil
}
