package apiregistry

import (
	"context"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type object = corev1.Namespace

func named(name string) object { return object{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func TestTables(t *testing.T) {
	c := Columns[*object]{
		Definitions: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Phase"}},
		Row:         func(o *object, name, _ string) []any { return []any{name, string(o.Status.Phase)} },
	}
	left := int64(3)
	list := &corev1.NamespaceList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: &left},
		Items:    []object{named("a"), named("b")},
	}
	list.Items[1].Status.Phase = corev1.NamespaceActive
	got, err := c.ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.ResourceVersion != "7" || got.Continue != "more" || *got.RemainingItemCount != 3 ||
		!reflect.DeepEqual(got.ColumnDefinitions, c.Definitions) {
		t.Errorf("got %+v", got)
	}
	if len(got.Rows) != 2 || !reflect.DeepEqual(got.Rows[1].Cells, []any{"b", "Active"}) {
		t.Errorf("rows %+v", got.Rows)
	}
	one := named("a")
	one.ResourceVersion = "9"
	got, err = c.ConvertToTable(t.Context(), &one, &metav1.TableOptions{NoHeaders: true})
	if err != nil || got.ResourceVersion != "9" || len(got.ColumnDefinitions) != 0 || len(got.Rows) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestStrategy: what is not set does nothing, and a new object is checked beside nothing.
func TestStrategy(t *testing.T) {
	var olds []*object
	s := Strategy[*object]{Check: func(_ context.Context, _, old *object) field.ErrorList {
		olds = append(olds, old)
		return nil
	}}
	was, now := named("a"), named("a")
	s.PrepareForCreate(t.Context(), &now)
	s.PrepareForUpdate(t.Context(), &now, &was)
	s.Validate(t.Context(), &now)
	s.ValidateUpdate(t.Context(), &now, &was)
	if len(olds) != 2 || olds[0] != nil || olds[1] != &was {
		t.Errorf("checked beside %v", olds)
	}
	if s.NamespaceScoped() || s.AllowCreateOnUpdate(t.Context()) || s.AllowUnconditionalUpdate(t.Context()) {
		t.Error("a kind of a4s is cluster-scoped, and updates say what they change")
	}
	s.PrepareNew = func(o *object) { o.Generation = 1 }
	s.PrepareChanged = func(o, old *object) { o.Generation = old.Generation + 1 }
	s.PrepareForCreate(t.Context(), &was)
	if s.PrepareForUpdate(t.Context(), &now, &was); was.Generation != 1 || now.Generation != 2 {
		t.Errorf("generations %d and %d", was.Generation, now.Generation)
	}
}

func TestSelectors(t *testing.T) {
	k := Kind[*object]{Resource: "namespaces"}
	one := named("a")
	one.Labels = map[string]string{"x": "y"}
	labels, set, err := k.attributes(&one)
	if err != nil || labels["x"] != "y" || !reflect.DeepEqual(set, fields.Set{"metadata.name": "a"}) {
		t.Errorf("%v, %v, %v", labels, set, err)
	}
	k.Selectable = func(*object) fields.Set { return fields.Set{"status.phase": "Active"} }
	if _, set, _ = k.attributes(&one); len(set) != 2 || set["status.phase"] != "Active" {
		t.Errorf("%v", set)
	}
	if _, _, err := k.attributes(&corev1.Pod{}); err == nil {
		t.Error("a pod is taken for one of the kind")
	}
}
