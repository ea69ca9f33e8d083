package kinds

import (
	"strings"
	"sync"
)

// Field is a field of a kind: of spec, of status, or of the object itself where
// it has neither. Its path is as in "spec.replicas" or "data".
type Field struct {
	Path string
	// Why tells who relies on the field and so why tenants do not write it; it
	// is "" for what tenants write. A value of theirs may still be judged: of
	// pods, claims, volumes, endpoints and priorities by the guard
	// (server/tenancy/admission).
	Why string
	// Made fields are written by the API server itself when the rest of the
	// object is, which is no write of the tenant's. It resets them before, so
	// that they are judged where the status is written.
	Made bool
}

// Fields says of a kind that tenants write whose its fields are. What is not in
// it is not the tenants' to write.
type Fields struct {
	Group, Kind string
	Fields      []Field
}

// fieldGroup is fields of one place in an object.
type fieldGroup struct {
	of, names string
	why       string
	made      bool
}

// own are fields that tenants write.
func own(of, names string) fieldGroup { return fieldGroup{of: of, names: names} }

// systems are fields that only the system writes.
func systems(of, names, why string) fieldGroup { return fieldGroup{of: of, names: names, why: why} }

// made are fields that only the system writes, and the API server by itself.
func made(of, names, why string) fieldGroup {
	return fieldGroup{of: of, names: names, why: why, made: true}
}

func fields(group, kind string, groups ...fieldGroup) Fields {
	f := Fields{Group: group, Kind: kind}
	for _, p := range groups {
		at := p.of
		if at != "" {
			at += "."
		}
		for name := range strings.FieldsSeq(p.names) {
			f.Fields = append(f.Fields, Field{Path: at + name, Why: p.why, Made: p.made})
		}
	}
	return f
}

// Field finds a field by its path.
func (f Fields) Field(path string) (Field, bool) {
	for _, field := range f.Fields {
		if field.Path == path {
			return field, true
		}
	}
	return Field{}, false
}

// Beside are the tenants' fields of the part that a field is in.
func (f Fields) Beside(path string) []string {
	of, _, _ := strings.Cut(path, ".")
	var paths []string
	for _, field := range f.Fields {
		if field.Why == "" && strings.HasPrefix(field.Path, of+".") {
			paths = append(paths, field.Path)
		}
	}
	return paths
}

// FieldsOf finds the fields of a kind.
func (t *Table) FieldsOf(group, kind string) (Fields, bool) {
	f, ok := indexedFields()[[2]string{group, kind}]
	return f, ok
}

var indexedFields = sync.OnceValue(func() map[[2]string]Fields {
	index := map[[2]string]Fields{}
	for _, f := range FieldRows() {
		index[[2]string{f.Group, f.Kind}] = f
	}
	return index
})
