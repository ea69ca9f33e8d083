package gate

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// merge makes one update of two that follow each other, if it can: what is between them must be
// nothing that a controller has to know. One that has seen it in its cache meanwhile is told of it
// by no other event, as when an object leaves an owner and comes back.
func merge(earlier, later *event) bool {
	if earlier.old == nil || later.old == nil {
		return false
	}
	before, ok := earlier.obj.(metav1.Object)
	after, alsoOk := later.obj.(metav1.Object)
	if !ok || !alsoOk || before.GetUID() != after.GetUID() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!reflect.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) {
		return false
	}
	earlier.obj = later.obj
	return true
}

// size is how many bytes an object has, about.
func size(obj any) int {
	switch o := obj.(type) {
	case cache.DeletedFinalStateUnknown:
		return size(o.Obj)
	case interface{ Size() int }: // as types of the API encode themselves
		return o.Size()
	}
	return 0
}
