package wire

import "github.com/a4s-io/a4s/internal/references"

// Column is where the Tables of an answer say whose the object of a row is.
type Column int

const (
	// NoColumn is for answers that are of one space.
	NoColumn Column = iota
	// ColumnFirst is where the tenant is a part of the name.
	ColumnFirst
	// ColumnLast is where the other columns are to stay where they are.
	ColumnLast
)

// tenantColumn is the definition of the column.
const tenantColumn = `{"name":"Tenant","type":"string","format":"","description":"The tenant whose object it is; ` +
	`system is the cluster itself.","priority":0}`

// columns adds the definition of the column to those of a Table, which the
// scanner stands before. Of a watch only the first Table has any.
func (t *translation) columns() {
	if t.isEmpty() {
		t.skip()
		return
	}
	t.with([]byte(tenantColumn), t.skip)
}

// isEmpty reports whether the list that begins here has no elements.
func (t *translation) isEmpty() bool {
	next := t.pos + 1
	next += blanks(t.src[next:])
	return next < len(t.src) && t.src[next] == ']'
}

// with adds an element to the list that begins here, at the place of the column,
// and has over go over the list.
func (t *translation) with(element []byte, over func()) {
	alone := t.isEmpty()
	if t.p.Tenants == ColumnFirst {
		t.flush(t.pos + 1)
		t.dst = append(t.dst, element...)
		if !alone {
			t.dst = append(t.dst, ',')
		}
	}
	over()
	if t.p.Tenants == ColumnLast && t.err == nil {
		t.flush(t.pos - 1)
		if !alone {
			t.dst = append(t.dst, ',')
		}
		t.dst = append(t.dst, element...)
	}
}

// cells translates the cells of a row, which is about an object of tenant.
func (t *translation) cells(tenant string) {
	over := func() { t.walk(&Node{Op: references.Text}) }
	if t.p.Composite {
		over = t.skip
	}
	if t.p.Tenants == NoColumn || t.d != Out || t.peek() != '[' {
		over()
		return
	}
	t.with(appendJSONString(nil, tenant), over)
}
