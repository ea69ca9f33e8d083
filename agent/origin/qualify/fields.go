package qualify

import (
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/references"
)

// field is a row of the reference table that counts on a node.
type field struct {
	path []string // JSON names
	op   references.Op
}

// fieldsOf returns the fields of a kind that hold names.
var fieldsOf = sync.OnceValue(func() map[schema.GroupKind][]field {
	out := map[schema.GroupKind][]field{}
	for _, r := range references.Rows() {
		switch r.Op {
		case references.Namespace, references.ClusterName, references.Ref:
			kind := schema.GroupKind{Group: r.Group, Kind: r.Kind}
			out[kind] = append(out[kind], field{strings.Split(r.Path, "."), r.Op})
		}
	}
	return out
})

// references maps the names to which an object refers.
func (n Names) references(kind schema.GroupKind, obj runtime.Object) {
	for _, f := range fieldsOf()[kind] {
		n.walk(reflect.ValueOf(obj), f.path, f.op)
	}
}

// walk maps what is at a path below a value. What is absent, or not in this version of
// the kind, is left alone.
func (n Names) walk(v reflect.Value, path []string, op references.Op) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n.walk(v.Elem(), path, op)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			n.walk(v.Index(i), path, op)
		}
		return
	}
	switch {
	case len(path) > 0:
		if v.Kind() == reflect.Struct {
			if at := child(v, path[0]); at.IsValid() {
				n.walk(at, path[1:], op)
			}
		}
	case op == references.Ref:
		n.ref(v)
	case v.Kind() == reflect.String && op == references.Namespace:
		v.SetString(n.Namespace(v.String()))
	case v.Kind() == reflect.String && op == references.ClusterName:
		v.SetString(n.ClusterName(v.String()))
	}
}

// ref maps the names in a reference to an object.
func (n Names) ref(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	kind := schema.GroupKind{Group: text(child(v, "apiGroup")).String(), Kind: text(child(v, "kind")).String()}
	if version := text(child(v, "apiVersion")).String(); version != "" {
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			return // it names nothing
		}
		kind.Group = gv.Group
	}
	if ns := text(child(v, "namespace")); ns.CanSet() {
		ns.SetString(n.Namespace(ns.String()))
	}
	if name := text(child(v, "name")); name.CanSet() {
		name.SetString(n.name(kind, name.String()))
	}
}

// text is a string or what a pointer to one points at; otherwise one that cannot be set.
func text(v reflect.Value) reflect.Value {
	if v.IsValid() && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.IsValid() && v.Kind() == reflect.String {
		return v
	}
	return reflect.ValueOf("")
}

// child is the field of a struct with a JSON name, also of what is inlined.
func child(v reflect.Value, name string) reflect.Value {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == name:
			return v.Field(i)
		case tag == "" && (f.Anonymous || strings.Contains(options, "inline")) && f.Type.Kind() == reflect.Struct:
			if at := child(v.Field(i), name); at.IsValid() {
				return at
			}
		}
	}
	return reflect.Value{}
}
