package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What operators finalize goes while they run, and not for ever.
func TestOperatorsFinalizeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		held    string
		late    bool
		deleted []string // besides what is held
		waits   bool
	}{
		"a custom resource":               {held: widget, waits: true},
		"something else with a finalizer": {held: config, waits: true, deleted: []string{widget}},
		"for too long": {held: widget, late: true,
			deleted: []string{pod, deploy, config, another, volume, other, other + "/finalize", ns, crd}},
	} {
		t.Run(name, func(t *testing.T) {
			f, e := newFakeCluster(t, ns, other, volume, crd, widget, pod, config, deploy, another)
			f.held[c.held], f.held[crd] = true, true
			f.finalizers = map[string][]string{c.held: {"example.com/hold"},
				// The cluster itself takes this off.
				volume: {"kubernetes.io/pv-protection"}}
			if c.late {
				e.deleted = time.Now().Add(-operatorsHave - time.Second)
			}
			if _, err := e.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			asked := slices.Compact(slices.Sorted(slices.Values(f.paths)))
			if want := slices.Sorted(slices.Values(append(c.deleted, c.held))); !slices.Equal(asked, want) {
				t.Errorf("deleted %v, want %v", asked, want)
			}
			if e.operators != c.waits || (e.note() != "") != c.waits {
				t.Errorf("waits for operators: %t, %q", e.operators, e.note())
			}
		})
	}
}

// What cannot be read goes unread, with the finalizers that nobody can take off; what can
// be read and has some stays.
func TestUnreadable(t *testing.T) {
	const (
		plain   = "/apis/example.com/v1/namespaces/default.t1/widgets/plain"
		old     = "/apis/example.com/v1/namespaces/default.t1/widgets/old"
		current = "/apis/example.com/v1/namespaces/default.t1/widgets/current"
	)
	object := func(version, name, finalizers string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","metadata":{"namespace":"default.t1",`+
			`"name":%q,"finalizers":%s}}`, version, name, finalizers)
	}
	f, e := newFakeCluster(t, plain, old, current)
	f.failing = "/widgets/"
	f.stored = map[string]string{plain: object("v1", "plain", "[]"), old: object("v0", "old", `["example.com/hold"]`),
		current: object("v1", "current", `["example.com/hold"]`)}
	if left, err := e.run(t.Context()); err == nil || len(f.objects) != 3 {
		t.Errorf("at first: left %s, %v", describe(left), err)
	}
	e.deleted = time.Now().Add(-unreadFor - time.Second)
	if _, err := e.run(t.Context()); err == nil || !slices.Equal(f.objects, []string{current}) {
		t.Errorf("later: there are %v, %v", f.objects, err)
	}
	f.failing, f.held[current] = "", true
	f.finalizers = map[string][]string{current: {"example.com/hold"}}
	left, err := e.run(t.Context())
	if err != nil || !slices.Equal(f.objects, []string{current}) {
		t.Errorf("with a finalizer: there are %v, %v", f.objects, err)
	}
	why := e.reasons(t.Context(), left)
	if why != ": widgets.example.com default/current is held by example.com/hold" {
		t.Errorf("the reason is %q", why)
	}
}

// A message says who set what, and nothing that a terminal acts on.
func TestReasons(t *testing.T) {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"b.com/x", "a.com/y"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "other", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"v:\"b.com/x\"":{}}}}`)},
			{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(
				`{"f:metadata":{"f:finalizers":{".":{},"v:\"b.com/x\"":{}}}}`)},
		}}}
	if got := reason(m); got != "is held by a.com/y and b.com/x (set by kubectl)" {
		t.Errorf("the reason is %q", got)
	}
	if got := said("a\x1b[2Jb\nc\u202ed\xff\u00fc"); got != "a\\x1b[2Jb\\nc\\u202ed\\ufffd\u00fc" {
		t.Errorf("said %q", got)
	}
	if got := said(strings.Repeat("\x00x", maxMessage)); len(got) > maxMessage+len(" ...") {
		t.Errorf("said %d bytes", len(got))
	}
}
