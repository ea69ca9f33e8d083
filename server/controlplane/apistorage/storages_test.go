package apistorage

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// TestNothingIsLostAroundAStorage: what upstream makes a storage with arrives in the one that
// is made around, and in what that is made around, each in its place.
func TestNothingIsLostAroundAStorage(t *testing.T) {
	given := Storing{
		Config: &storagebackend.ConfigForResource{}, Prefix: "/things",
		Key:     func(runtime.Object) (string, error) { return "", nil },
		New:     func() runtime.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },
		Attrs:   func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil },
		Trigger: storage.IndexerFuncs{"x": nil}, Indexers: &cache.Indexers{},
	}
	var got Storing
	innermost := Make(func(s Storing) (storage.Interface, factory.DestroyFunc, error) {
		got = s
		return nil, nil, nil
	})
	around := Make(func(s Storing) (storage.Interface, factory.DestroyFunc, error) {
		return Maker(innermost.Decorator())(s)
	})
	if _, _, err := Maker(around.Decorator())(given); err != nil {
		t.Fatal(err)
	}
	from, to := reflect.ValueOf(given), reflect.ValueOf(got)
	for i := range from.NumField() {
		name, want, is := from.Type().Field(i).Name, from.Field(i), to.Field(i)
		switch {
		case want.IsZero():
			t.Errorf("the test gives no %s", name)
		case want.Kind() == reflect.Func && want.Pointer() != is.Pointer(),
			want.Kind() != reflect.Func && !reflect.DeepEqual(want.Interface(), is.Interface()):
			t.Errorf("%s is lost, or another", name)
		}
	}
}
