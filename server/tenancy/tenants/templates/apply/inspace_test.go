package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// TestWhatSomebodyMadeIsReplaced: nothing stays of an object that was not made for the template, and all of one
// that was. The place of a ServiceAccount is kept, because tokens go with it.
func TestWhatSomebodyMadeIsReplaced(t *testing.T) {
	stuck := map[string]any{"finalizers": []any{"example.com/x"}, "ownerReferences": []any{map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"}}}
	const account = `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"c","namespace":"default"}}`
	for name, c := range map[string]struct {
		object, there, recorded string
		uid                     string
		extra                   bool
	}{
		"nothing is there":         {configMap("c"), "", "", "m", false},
		"one of the tenant":        {configMap("c"), "a", "", "m", false},
		"the one that was made":    {configMap("c"), "a", "a", "a", true},
		"it is gone":               {configMap("c"), "", "a", "m", false},
		"another is in its place":  {configMap("c"), "b", "a", "m", false},
		"a ServiceAccount":         {account, "a", "", "a", true},
		"another ServiceAccount":   {account, "b", "a", "b", true},
		"the ServiceAccount again": {account, "a", "a", "a", true},
	} {
		f, c2 := newFakeSpace(t)
		o := f.says(t, c.object)[0]
		path := configMaps + "c"
		if o.Kind.Kind == kindServiceAccount {
			path = "/api/v1/namespaces/default/serviceaccounts/c"
		}
		if c.there != "" {
			more := stuck
			if c.there == c.recorded {
				more = nil
			}
			f.put(path, c.there, more)
		}
		in, err := c2.in("t")
		if err != nil {
			t.Fatal(err)
		}
		uid, err := c2.maker.applyOne(t.Context(), in, o, types.UID(c.recorded))
		if err != nil || string(uid) != c.uid || c2.marks.made("t", o.Ref()) != uid {
			t.Errorf("%s: %q, %v", name, uid, err)
			continue
		}
		is := f.objects[path]
		_, extra := data(is)["theirs"]
		if is.GetUID() != uid || extra != c.extra || len(is.GetOwnerReferences())+len(is.GetFinalizers()) > 0 {
			t.Errorf("%s: %v", name, is.Object)
		}
	}
}

// TestOnlyWhatWasMadeIsDropped: a name that the status has is not enough.
func TestOnlyWhatWasMadeIsDropped(t *testing.T) {
	f, c := newFakeSpace(t)
	ref := func(name, uid string) tenantapi.TemplateObject {
		return tenantapi.TemplateObject{Kind: "ConfigMap", Namespace: "default", Name: name, UID: types.UID(uid)}
	}
	account := tenantapi.TemplateObject{Kind: kindServiceAccount, Namespace: "default", Name: "default", UID: "d"}
	f.tenant.Status.Template = &tenantapi.AppliedTemplate{Name: "gold", Objects: []tenantapi.TemplateObject{
		ref("made", "a"), ref("named", ""), ref("another", "b"), ref("kept", "k"), account}}
	const ofAccount = "/api/v1/namespaces/default/serviceaccounts/default"
	for path, uid := range map[string]string{configMaps + "made": "a", configMaps + "named": "n",
		configMaps + "another": "c", configMaps + "kept": "k", ofAccount: "d"} {
		f.put(path, uid, nil)
	}
	in, err := c.in("t")
	if err != nil {
		t.Fatal(err)
	}
	tenant := f.tenant.DeepCopy()
	if err := c.maker.dropAll(t.Context(), in, tenant, []tenantapi.TemplateObject{ref("kept", "")}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{configMaps + "made": false, configMaps + "named": true,
		configMaps + "another": true, configMaps + "kept": true, ofAccount: true} {
		if f.objects[path] != nil != want {
			t.Errorf("%s is there: %v", path, !want)
		}
	}
	if got := had(tenant); !slices.Equal(got, []tenantapi.TemplateObject{ref("kept", "k")}) {
		t.Errorf("%v", got)
	}
	// The watch says that they are gone, and the tenant is not worked on for it: it is not its turn.
	if c.marks.ended("t", ref("made", ""), "a") || !c.marks.ended("t", ref("kept", ""), "k") {
		t.Error("an end of our doing counts, or one of another's does not")
	}
}

// TestTheStatusIsBounded: a tenant that cannot have any of many changes does not have the names of all.
func TestTheStatusIsBounded(t *testing.T) {
	f, c := newFakeSpace(t)
	for i := range 10 {
		var objects []string
		for j := range tenantapi.MaxTemplateObjects - 1 {
			objects = append(objects, configMap(fmt.Sprintf("c%d-%d", i, j)))
		}
		f.of.Generation++
		f.says(t, append(objects, configMap("zz-bad"))...)
		f.refuse = map[string]int{"zz-bad": http.StatusUnprocessableEntity}
		c.turns.give(f.of, "t")
		if err := c.reconcile(t.Context(), "t"); err == nil {
			t.Fatal("it could be made")
		}
		if n := len(had(f.tenant)); n > mostObjects {
			t.Fatalf("after %d changes, %d objects", i+1, n)
		}
	}
	if len(f.objects) > mostObjects {
		t.Errorf("%d objects are there", len(f.objects))
	}
}

// TestFailuresAreSaid, whatever they are: one that stands nowhere would hold up all other tenants.
func TestFailuresAreSaid(t *testing.T) {
	said := func(f *fakeSpace) bool {
		return f.tenant.Status.Template != nil && f.tenant.Status.Template.Generation == 1 &&
			meta.IsStatusConditionFalse(f.tenant.Status.Conditions, tenantapi.TemplateApplied)
	}
	f, c := newFakeSpace(t)
	f.says(t, configMap("a"), configMap("c"))
	f.refuse[configMaps+"c"] = http.StatusConflict
	if err := c.reconcile(t.Context(), "t"); err == nil || errors.Is(err, errSuperseded) || !said(f) {
		t.Errorf("an object is in conflict: %v, %+v", err, f.tenant.Status)
	}
	// What was made has its UID there.
	if i := slices.IndexFunc(had(f.tenant), named(tenantapi.TemplateObject{Kind: "ConfigMap",
		Namespace: "default", Name: "a"})); i < 0 || had(f.tenant)[i].UID != "m" {
		t.Errorf("%+v", had(f.tenant))
	}
	f, c = newFakeSpace(t)
	f.refuse["/api/v1/tenants/t"] = http.StatusConflict
	if err := c.reconcile(t.Context(), "t"); !errors.Is(err, errSuperseded) || said(f) {
		t.Errorf("the Tenant is in conflict: %v, %+v", err, f.tenant.Status)
	}
	f, c = newFakeSpace(t)
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := c.reconcile(late, "t"); err == nil || !said(f) {
		t.Errorf("it took too long: %v, %+v", err, f.tenant.Status)
	}
	f, c = newFakeSpace(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.reconcile(ended, "t"); err == nil || said(f) {
		t.Errorf("another server goes on: %v, %+v", err, f.tenant.Status)
	}
}

func TestMessagesAreCutBetweenLetters(t *testing.T) {
	long := "x" + strings.Repeat("ä", mostMessage)
	if got := message(long); strings.ToValidUTF8(got, "?") != got || len(got) > mostMessage+3 {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-9:])
	}
}

// asked are the tenants that are to be worked on, now or later.
type asked struct {
	workqueue.TypedRateLimitingInterface[string]
	names []string
}

func (a *asked) Add(name string) { a.names = append(a.names, name) }

func (a *asked) AddAfter(name string, _ time.Duration) { a.Add(name) }

// TestAnotherServerLeads: what the watch shows at first has no tenant worked on that only is behind, and not its
// turn; but one whose objects are gone.
func TestAnotherServerLeads(t *testing.T) {
	ref := tenantapi.TemplateObject{Kind: "ConfigMap", Namespace: "default", Name: "c", UID: "a"}
	is := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default.t", UID: "a",
		ResourceVersion: "1"}}
	for name, c := range map[string]struct {
		there []any
		want  int
	}{"it is behind": {[]any{is}, 0}, "it is gone": {nil, 1}} {
		f, c2 := newFakeSpace(t)
		f.of.Generation = 2
		f.tenant.Status.Template = &tenantapi.AppliedTemplate{Name: "gold", UID: "g", Generation: 1,
			Objects: []tenantapi.TemplateObject{ref}}
		queue := &asked{}
		c2.queue = queue
		c2.begin()
		for _, kind := range templates.Kinds() {
			var there []any
			if kind.Kind == ref.Kind {
				there = c.there
			}
			if err := (&watched{c2, kind}).Replace(there, "1"); err != nil {
				t.Fatal(err)
			}
		}
		if len(queue.names) != c.want {
			t.Errorf("%s: %v", name, queue.names)
		}
	}
}

// TestAServerThatLeadsEndsWhatWasBegun: a server that led before may have ended in the middle of a tenant. That one
// gets the rest also while the roll-out is stopped, whatever template it had before.
func TestAServerThatLeadsEndsWhatWasBegun(t *testing.T) {
	for name, conditions := range map[string][]metav1.Condition{
		"a new tenant":                    nil,
		"a tenant of an earlier template": {{Type: tenantapi.TemplateApplied, Status: metav1.ConditionTrue}},
	} {
		f, c := newFakeSpace(t)
		f.says(t, configMap("c"))
		f.of.Generation = 2
		f.tenant.Status.Conditions = append(f.tenant.Status.Conditions, conditions...)
		f.tenant.Status.Template = &tenantapi.AppliedTemplate{Name: "gold", UID: "g",
			Objects: []tenantapi.TemplateObject{{Kind: "ConfigMap", Namespace: "default", Name: "c"}}}
		queue := &asked{}
		c.queue = queue
		c.begin()
		if !slices.Equal(queue.names, []string{"t"}) {
			t.Errorf("%s: %q are looked at", name, queue.names)
		}
		if err := c.reconcile(t.Context(), "t"); err != nil || f.objects[configMaps+"c"] == nil {
			t.Errorf("%s: %v, %v", name, err, f.objects)
		}
	}
}

// TestEndsThatCount: that of the object that was made, not that of one that was dropped or of another one.
func TestEndsThatCount(t *testing.T) {
	f, c := newFakeSpace(t)
	ref := tenantapi.TemplateObject{Kind: "ConfigMap", Namespace: "default", Name: "c"}
	f.tenant.Status.Template = &tenantapi.AppliedTemplate{Name: "gold", Objects: []tenantapi.TemplateObject{ref}}
	kind, _ := templates.KindCalled(ref.Kind)
	ends := func(uid types.UID) bool {
		queue := &asked{}
		c.queue = queue
		err := (&watched{c, kind}).Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "c",
			Namespace: "default.t", UID: uid}})
		return err == nil && len(queue.names) == 1
	}
	if !ends("a") {
		t.Error("before anything is known, it does not count")
	}
	c.marks.applied("t", ref, "a", "1")
	if !ends("a") || ends("b") {
		t.Error("that of another one counts, or that of the one does not")
	}
	c.marks.dropped("t", ref)
	c.marks.keep("t", nil)
	if ends("a") {
		t.Error("that of one that was dropped counts")
	}
}
