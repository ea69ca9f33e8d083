package interning

import (
	"reflect"
	"sync"
	"unsafe"
	"weak"
)

const (
	// forms is how many forms of one version of an object are remembered: some informers
	// keep a part of it, and spaces have names of their own in it.
	forms = 4
	// firstSweep is how many objects are remembered before it is looked which are gone.
	firstSweep = 1 << 10
)

// objects are those of informers. The references are weak: an object is gone when no
// informer has it any more.
type objects struct {
	mu   sync.Mutex
	refs map[uint64]objectRef
	// sweep is how many references there are when the next sweep is due.
	sweep int
}

// objectRef is a weak reference to a struct of any type.
type objectRef struct {
	goType reflect.Type // of the pointer
	at     weak.Pointer[byte]
}

func refTo(obj any) objectRef {
	v := reflect.ValueOf(obj)
	return objectRef{goType: v.Type(), at: weak.Make((*byte)(v.UnsafePointer()))}
}

// value is nil once the object is gone.
func (r objectRef) value() any {
	at := r.at.Value()
	if at == nil {
		return nil
	}
	return reflect.NewAt(r.goType.Elem(), unsafe.Pointer(at)).Interface()
}

// find returns the object of a version that is equal to obj, nil for none.
func (o *objects) find(version uint64, obj any) any {
	var found [forms]objectRef
	o.mu.Lock()
	for i := range found {
		found[i] = o.refs[version+uint64(i)]
	}
	o.mu.Unlock()
	for _, r := range found {
		if r.goType != reflect.TypeOf(obj) {
			continue
		}
		if known := r.value(); known != nil && reflect.DeepEqual(known, obj) {
			return known
		}
	}
	return nil
}

// add remembers a form of a version, in place of the last one if there are too many.
func (o *objects) add(version uint64, obj any) {
	ref := refTo(obj)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refs == nil {
		o.refs, o.sweep = map[uint64]objectRef{}, firstSweep
	}
	slot := version
	for last := version + forms - 1; slot < last && o.refs[slot].at.Value() != nil; slot++ {
	}
	o.refs[slot] = ref
	if len(o.refs) < o.sweep {
		return
	}
	for at, r := range o.refs {
		if r.at.Value() == nil {
			delete(o.refs, at)
		}
	}
	o.sweep = max(firstSweep, 2*len(o.refs))
}
